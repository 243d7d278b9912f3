//! Texts of a file that was written before they were indexed: read from the log, once, behind everybody's back, a little at a time. How far
//! it has come is written with what was read, so a process that ends in between goes on there.

use super::fault::from_sqlite;
use super::schema::open_reading;
use super::write::{Unread, UnreadText, Write};
use super::writer::Job;
use crate::error::StoreError;
use crate::words;
use baton_proto::{SEARCHED, searched_text};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use tokio::sync::{mpsc, oneshot};

/// Events that are read in one go, so that whoever appends waits for little.
const AT_ONCE: u32 = 200;

/// The thread that reads, where there is something to read.
#[derive(Debug)]
pub(super) struct ReadingUp {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ReadingUp {
    /// Starts it, if some texts aren't indexed.
    pub(super) fn start(path: &Path, connection: &Connection, writer: &mpsc::Sender<Job>) -> Result<Option<Self>, StoreError> {
        if unread(connection)?.is_none() {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (asked_to, path, writer) = (Arc::clone(&stop), path.to_owned(), writer.downgrade());
        let thread = thread::Builder::new()
            .name("store-reading-up".into())
            .spawn(move || {
                // What fails now is tried again at the next opening; until then a search says that it isn't complete.
                let _ = read_up(&path, &writer, &asked_to);
            })
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Some(Self { stop, thread }))
    }

    /// Ends it after the few events that it is at.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.thread.join();
    }
}

fn read_up(path: &Path, writer: &mpsc::WeakSender<Job>, stop: &AtomicBool) -> Result<(), StoreError> {
    let connection = open_reading(path)?;
    while !stop.load(Ordering::SeqCst) {
        let Some(from) = unread(&connection)? else { return Ok(()) };
        let texts = next(&connection, &from)?;
        let Some(sender) = writer.upgrade() else { return Ok(()) };
        let (reply, answer) = oneshot::channel();
        sender.blocking_send(Job { write: Write::ReadUp { from, texts }, reply }).map_err(|_| StoreError::Closed)?;
        drop(sender);
        answer.blocking_recv().map_err(|_| StoreError::Closed)??;
    }
    Ok(())
}

/// How far the texts of the log are indexed, if not all of them are.
pub(super) fn unread(connection: &Connection) -> Result<Option<Unread>, StoreError> {
    let row = connection.query_row("SELECT stream, seq, until FROM unread", [], |row| {
        Ok(Unread { stream: row.get(0)?, seq: row.get(1)?, until: row.get(2)? })
    });
    row.optional().map_err(from_sqlite)
}

fn next(connection: &Connection, from: &Unread) -> Result<Vec<UnreadText>, StoreError> {
    let [said, answered] = SEARCHED;
    let mut statement = connection
        .prepare_cached(
            "SELECT found.stream, found.seq, found.kind, number, payload.event, head.user FROM
                 (SELECT stream, seq, kind, payload AS at FROM event
                  WHERE (stream, seq) > (?1, ?2) AND kind IN (?3, ?4) AND payload <= ?5 ORDER BY stream, seq LIMIT ?6) AS found
             JOIN payload ON number = found.at JOIN head ON head.stream = found.stream
             ORDER BY found.stream, found.seq",
        )
        .map_err(from_sqlite)?;
    let rows = statement.query_map(params![from.stream, from.seq, said, answered, from.until, AT_ONCE], |row| {
        let (kind, event): (String, Vec<u8>) = (row.get(2)?, row.get(4)?);
        let words = searched_text(&kind, &event).map(|text| words::indexed(&text));
        Ok(UnreadText { stream: row.get(0)?, seq: row.get(1)?, number: row.get(3)?, user: row.get(5)?, words })
    });
    rows.map_err(from_sqlite)?.collect::<Result<_, _>>().map_err(from_sqlite)
}
