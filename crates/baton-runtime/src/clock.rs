use baton_proto::Timestamp;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where time and randomness come from, so that a simulated world can bring its own.
pub trait Clock: Send + Sync + Debug + 'static {
    fn now(&self) -> Timestamp;
    /// 64 random bits, for ids and jitter; secrets come from elsewhere.
    fn random(&self) -> u64;
}

/// The machine's own clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn random(&self) -> u64 {
        getrandom::u64().unwrap_or_else(|_| uuid::Uuid::now_v7().as_u64_pair().1)
    }
}
