//! What SQLite's errors mean to a store.

use crate::error::StoreError;
use rusqlite::{Error, ErrorCode};

/// Translates an error after which the connection is as it was before.
pub(super) fn from_sqlite(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(error.to_string()),
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(_) => StoreError::Io(error.to_string()),
        None => match error {
            // A column of another type or size than was written.
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..) => StoreError::Corrupt(error.to_string()),
            other => StoreError::Io(other.to_string()),
        },
    }
}

/// Whether a failed write leaves unknown what is on the disk, so that nothing may be written or believed any more.
///
/// A full disk is not among these: SQLite writes the mark that makes a transaction count last, and a failed fsync is
/// another error. So a transaction that ran out of space never counts, and undoing it is safe.
pub(super) fn is_poisonous(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ReadOnly | ErrorCode::CannotOpen
        )
    )
}
