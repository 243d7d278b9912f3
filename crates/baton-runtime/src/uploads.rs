//! Large input in pieces (D6): each piece is on the disk before it is acknowledged, an upload goes on where it stopped, also under the
//! next hub, and what is whole becomes a blob of its user's, named by its digest.
//!
//! One file an upload: a head with what it is and how far it has come, then its bytes. How far is written after the bytes are durable,
//! so that what a power loss tore is never taken for whole.

use crate::clock::Clock;
use crate::directory::{Directory, Identity};
use crate::error::{HubError, told};
use crate::hub::Hub;
use baton_core::Ids;
use baton_proto::{Digest, ErrorBody, ErrorCode, Timestamp, Trust, UserId};
use baton_store::Store;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, OwnedMutexGuard};
use uuid::Uuid;

/// An upload is at most this large, in bytes.
pub const MAX_UPLOAD_BYTES: u64 = 64 * 1024 * 1024;
/// An upload can be gone on with for this long, in milliseconds.
const LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// Uploads of one user that may be open at once.
const MAX_OPEN: usize = 16;
/// Bytes that the open uploads of one user may come to.
const MAX_OPEN_BYTES: u64 = 256 * 1024 * 1024;
/// Finished uploads of one user that are remembered, for an end that missed the last answer.
const KEPT_FINISHED: usize = 64;
/// Of a file: what it is, then how far it has come, then the bytes.
const HEAD_BYTES: u64 = 4096;
const PROGRESS_AT: u64 = 2048;

/// One upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UploadId(pub Uuid);

impl From<Uuid> for UploadId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for UploadId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far an upload has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadState {
    pub id: UploadId,
    pub length: u64,
    pub offset: u64,
    pub expires_at: Timestamp,
    /// The blob that it became, once it is whole.
    pub blob: Option<Digest>,
}

/// Why a piece wasn't taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    #[error(transparent)]
    Refused(#[from] ErrorBody),
    /// It doesn't begin where the upload stands.
    #[error("the upload stands at byte {0}")]
    Elsewhere(u64),
    /// It isn't what its sender meant to send; nothing of it was kept.
    #[error("the piece's digest is another one than was announced")]
    Damaged,
}

#[derive(Debug)]
pub(crate) struct Uploads {
    folder: Option<PathBuf>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    devices: Arc<Directory>,
    known: Mutex<BTreeMap<UploadId, Arc<Upload>>>,
    /// One at a time is read whole, which bounds memory.
    finishing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Upload {
    head: Head,
    path: PathBuf,
    progress: Arc<tokio::sync::Mutex<Progress>>,
    /// Whoever writes is told when somebody else comes: mostly the same end, whose former connection died unnoticed.
    wanted: Arc<Notify>,
    /// How many wait for their turn.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Progress {
    offset: u64,
    blob: Option<Digest>,
    gone: bool,
}

/// What a file is of, as its first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    v: u32,
    user_id: UserId,
    length: u64,
    expires_at: Timestamp,
    #[serde(default)]
    blob: Option<Digest>,
}

/// Takes one piece of one upload. What it took counts once it is kept; dropped before, it is as if it hadn't come.
#[derive(Debug)]
pub struct Piece {
    hub: Arc<Hub>,
    id: UploadId,
    upload: Arc<Upload>,
    progress: OwnedMutexGuard<Progress>,
    file: tokio::fs::File,
    taken: u64,
    hasher: Sha256,
}

impl Hub {
    /// Begins an upload of `length` bytes.
    pub async fn begin_upload(&self, who: Identity, length: u64) -> Result<UploadState, ErrorBody> {
        let uploads = &self.uploads;
        let folder = uploads.folder.clone().ok_or_else(no_uploads)?;
        match uploads.devices.record(who) {
            None => return Err(ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't paired.", "Pair it first.")),
            Some(record) if record.trust == Trust::Guest => {
                return Err(ErrorBody::new(ErrorCode::TrustTooLow, "A guest's device can't upload.", "Use a device with more trust."));
            }
            Some(_) => {}
        }
        if length > MAX_UPLOAD_BYTES {
            return Err(ErrorBody::new(
                ErrorCode::TooLarge,
                format!("An upload has at most {MAX_UPLOAD_BYTES} bytes; this one has {length}."),
                "Send a smaller file, or put it into the workspace.",
            ));
        }
        let now = uploads.clock.now();
        uploads.forget_expired(now).await;
        let id: UploadId = Ids::new(now, uploads.clock.random()).fresh();
        let head = Head { v: 1, user_id: who.user_id, length, expires_at: now.plus(LIFE_MS), blob: None };
        let path = folder.join(format!("{id}.upload"));
        let upload = Arc::new(Upload { head, path, progress: Arc::default(), wanted: Arc::default(), waiting: Arc::default() });
        uploads.admit(id, &upload)?;
        let (path, head) = (upload.path.clone(), upload.head.clone());
        if let Err(error) = blocking(move || write_new(&path, &head)).await {
            uploads.known().remove(&id);
            return Err(failed(&error));
        }
        self.upload(who, id).await
    }

    /// How far an upload has come. Whoever is sending a piece of it is stopped first, so that the answer holds.
    pub async fn upload(&self, who: Identity, id: UploadId) -> Result<UploadState, ErrorBody> {
        let upload = self.uploads.find(who, id)?;
        let mut progress = upload.turn().await?;
        self.uploads.settle(&upload, &mut progress).await?;
        Ok(upload.state(id, &progress))
    }

    /// Begins to take a piece that starts at byte `offset`.
    pub async fn take_piece(self: &Arc<Self>, who: Identity, id: UploadId, offset: u64) -> Result<Piece, PieceError> {
        let upload = self.uploads.find(who, id)?;
        let progress = upload.turn().await?;
        if progress.offset != offset {
            return Err(PieceError::Elsewhere(progress.offset));
        }
        let opened = async {
            let mut file = tokio::fs::OpenOptions::new().write(true).open(&upload.path).await?;
            file.seek(SeekFrom::Start(HEAD_BYTES + offset)).await?;
            Ok(file)
        };
        let file = opened.await.map_err(|error| failed(&error))?;
        Ok(Piece { hub: Arc::clone(self), id, upload, progress, file, taken: 0, hasher: Sha256::new() })
    }

    /// Ends an upload and forgets what came of it. A blob that it became stays.
    pub async fn end_upload(&self, who: Identity, id: UploadId) -> Result<(), ErrorBody> {
        let upload = self.uploads.find(who, id)?;
        let mut progress = upload.turn().await?;
        progress.gone = true;
        self.uploads.known().remove(&id);
        tokio::fs::remove_file(&upload.path).await.map_err(|error| failed(&error))
    }

    /// A blob of the user's own.
    pub async fn blob(&self, who: Identity, digest: &Digest) -> Result<Vec<u8>, ErrorBody> {
        self.may_look(who)?;
        let found = self.shared.store.blob(who.user_id, digest).await.map_err(|error| told(&HubError::Store(error)))?;
        found.ok_or_else(|| ErrorBody::not_found("blob"))
    }
}

impl Piece {
    /// Takes more of the piece.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ErrorBody> {
        let left = self.upload.head.length - self.progress.offset - self.taken;
        if bytes.len() as u64 > left {
            let length = self.upload.head.length;
            let message = format!("The piece reaches beyond the {length} bytes that were announced.");
            return Err(ErrorBody::new(ErrorCode::TooLarge, message, "Begin a new upload with the right length."));
        }
        self.file.write_all(bytes).await.map_err(|error| failed(&error))?;
        self.hasher.update(bytes);
        self.taken += bytes.len() as u64;
        Ok(())
    }

    /// Resolves when somebody else wants to go on with this upload.
    pub fn superseded(&self) -> impl Future<Output = ()> + Send + 'static {
        let (wanted, waiting) = (Arc::clone(&self.upload.wanted), Arc::clone(&self.upload.waiting));
        async move {
            // Listening comes before looking, so that whoever came before this piece was listened for counts too.
            let notified = wanted.notified();
            if waiting.load(Ordering::SeqCst) == 0 {
                notified.await;
            }
        }
    }

    /// Keeps what was taken; it is durable when this returns. With `announced`, only if its digest is that one.
    pub async fn keep(mut self, announced: Option<&[u8]>) -> Result<UploadState, PieceError> {
        if announced.is_some_and(|announced| *announced != *self.hasher.clone().finalize()) {
            return Err(PieceError::Damaged);
        }
        let offset = self.progress.offset + self.taken;
        let kept = async {
            self.file.flush().await?;
            self.file.sync_data().await?;
            self.file.seek(SeekFrom::Start(PROGRESS_AT)).await?;
            self.file.write_all(&progress_bytes(offset)).await?;
            self.file.flush().await?;
            self.file.sync_data().await
        };
        kept.await.map_err(|error| failed(&error))?;
        self.progress.offset = offset;
        self.hub.uploads.settle(&self.upload, &mut self.progress).await?;
        Ok(self.upload.state(self.id, &self.progress))
    }
}

/// A place among those who wait for an upload; given up when it is dropped, also by a request that broke off.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn stand(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Upload {
    /// Stops whoever is sending, and waits for the turn.
    async fn turn(&self) -> Result<OwnedMutexGuard<Progress>, ErrorBody> {
        let _waiting = Waiting::stand(&self.waiting);
        self.wanted.notify_waiters();
        let progress = Arc::clone(&self.progress).lock_owned().await;
        if progress.gone { Err(ErrorBody::not_found("upload")) } else { Ok(progress) }
    }

    fn state(&self, id: UploadId, progress: &Progress) -> UploadState {
        UploadState { id, length: self.head.length, offset: progress.offset, expires_at: self.head.expires_at, blob: progress.blob.clone() }
    }
}

impl Uploads {
    /// Takes up what a former hub left, and makes the folder if need be.
    pub(crate) fn open(folder: Option<PathBuf>, store: Arc<dyn Store>, clock: Arc<dyn Clock>, devices: Arc<Directory>) -> io::Result<Self> {
        let mut known = BTreeMap::new();
        if let Some(folder) = &folder {
            make_folder(folder)?;
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                let id = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".upload")?.parse::<UploadId>().ok());
                let Some(id) = id else {
                    tracing::warn!(path = %path.display(), "this isn't an upload and is left alone");
                    continue;
                };
                match read_file(&path) {
                    Ok((head, _)) if head.expires_at <= clock.now() => std::fs::remove_file(&path)?,
                    Ok((head, offset)) => {
                        let offset = if head.blob.is_some() { head.length } else { offset };
                        let progress = Progress { offset, blob: head.blob.clone(), gone: false };
                        let progress = Arc::new(tokio::sync::Mutex::new(progress));
                        known.insert(id, Arc::new(Upload { head, path, progress, wanted: Arc::default(), waiting: Arc::default() }));
                    }
                    Err(error) => tracing::warn!(path = %path.display(), %error, "an upload can't be read and is left alone"),
                }
            }
        }
        Ok(Self { folder, store, clock, devices, known: Mutex::new(known), finishing: tokio::sync::Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<UploadId, Arc<Upload>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, who: Identity, id: UploadId) -> Result<Arc<Upload>, ErrorBody> {
        let now = self.clock.now();
        let known = self.known();
        let found = known.get(&id).filter(|upload| upload.head.user_id == who.user_id && upload.head.expires_at > now);
        found.cloned().ok_or_else(|| ErrorBody::not_found("upload"))
    }

    /// Adds an upload, within what its user may have open.
    fn admit(&self, id: UploadId, upload: &Arc<Upload>) -> Result<(), ErrorBody> {
        let mut known = self.known();
        // What is being written at this moment is open.
        let is_open = |upload: &Upload| upload.progress.try_lock().map_or(true, |progress| progress.blob.is_none());
        let open: Vec<_> = known.values().filter(|other| other.head.user_id == upload.head.user_id && is_open(other)).collect();
        let bytes: u64 = open.iter().map(|other| other.head.length).sum();
        if open.len() >= MAX_OPEN || bytes + upload.head.length > MAX_OPEN_BYTES {
            return Err(ErrorBody::new(
                ErrorCode::RateLimited,
                format!("{} uploads with {bytes} bytes are open; at most {MAX_OPEN} with {MAX_OPEN_BYTES} bytes may be.", open.len()),
                "Finish or end one of them first.",
            ));
        }
        known.insert(id, Arc::clone(upload));
        Ok(())
    }

    async fn forget_expired(&self, now: Timestamp) {
        let mut old = Vec::new();
        {
            let mut known = self.known();
            let mut finished: BTreeMap<UserId, usize> = BTreeMap::new();
            // Ids grow with time, so from the end the newest come first.
            let over: Vec<_> = known
                .iter()
                .rev()
                .filter(|(_, upload)| {
                    let is_finished = upload.progress.try_lock().is_ok_and(|progress| progress.blob.is_some());
                    let count = finished.entry(upload.head.user_id).or_default();
                    *count += usize::from(is_finished);
                    upload.head.expires_at <= now || (is_finished && *count > KEPT_FINISHED)
                })
                .map(|(id, _)| *id)
                .collect();
            old.extend(over.into_iter().filter_map(|id| known.remove(&id)));
        }
        for upload in old {
            if let Ok(mut progress) = upload.turn().await {
                progress.gone = true;
                let _ = tokio::fs::remove_file(&upload.path).await;
            }
        }
    }

    /// Makes a blob of an upload that is whole. The blob is durable before the upload says so, and a repeat makes the same one.
    async fn settle(&self, upload: &Upload, progress: &mut Progress) -> Result<(), ErrorBody> {
        if progress.offset < upload.head.length || progress.blob.is_some() {
            return Ok(());
        }
        let _one = self.finishing.lock().await;
        let (path, length) = (upload.path.clone(), upload.head.length);
        let bytes = blocking(move || read_bytes(&path, length)).await.map_err(|error| failed(&error))?;
        let digest = self.store.put_blob(upload.head.user_id, bytes).await.map_err(|error| told(&HubError::Store(error)))?;
        let (path, head) = (upload.path.clone(), Head { blob: Some(digest.clone()), ..upload.head.clone() });
        blocking(move || write_new(&path, &head)).await.map_err(|error| failed(&error))?;
        progress.blob = Some(digest);
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a file that has a head and no bytes yet, in the place of what was there: whole or not at all.
fn write_new(path: &Path, head: &Head) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(head)?;
    bytes.push(b'\n');
    bytes.resize(usize::try_from(PROGRESS_AT).unwrap_or_default(), 0);
    bytes.extend(progress_bytes(0));
    bytes.resize(usize::try_from(HEAD_BYTES).unwrap_or_default(), 0);
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

fn read_file(path: &Path) -> io::Result<(Head, u64)> {
    let mut head = vec![0; usize::try_from(HEAD_BYTES).unwrap_or_default()];
    std::fs::File::open(path)?.read_exact(&mut head)?;
    let (line, progress) = head.split_at(usize::try_from(PROGRESS_AT).unwrap_or_default());
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head: Head = serde_json::from_slice(line)?;
    if head.v != 1 {
        return Err(io::Error::other("a newer Baton wrote it"));
    }
    let number = |at: usize| progress.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    // A torn number says nothing, and the upload begins anew.
    let offset = if number(0) == !number(8) { number(0) } else { 0 };
    Ok((head.clone(), offset.min(head.length)))
}

fn read_bytes(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(HEAD_BYTES))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn progress_bytes(offset: u64) -> Vec<u8> {
    [offset.to_le_bytes(), (!offset).to_le_bytes()].concat()
}

fn no_uploads() -> ErrorBody {
    ErrorBody::new(ErrorCode::NoCapability, "This hub takes no uploads.", "Run it with a data directory.")
}

fn failed(error: &io::Error) -> ErrorBody {
    if error.kind() == io::ErrorKind::StorageFull {
        return ErrorBody::new(
            ErrorCode::StorageFailed,
            "The hub's disk is full; nothing was taken.",
            "Free some space and send it again.",
        );
    }
    tracing::error!(%error, "an upload can't be written");
    ErrorBody::new(ErrorCode::StorageFailed, "The hub can't write to its disk; nothing was taken.", "Look at the hub's log.")
}
