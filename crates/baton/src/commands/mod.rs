//! One file a command, one shape: arguments in, an exit code or a failure out.

pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod backup;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod hub;
pub(crate) mod import;
pub(crate) mod pair;
pub(crate) mod read;
pub(crate) mod resume;
pub(crate) mod rules;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod take_over;
pub(crate) mod undo;
pub(crate) mod up;
pub(crate) mod usage;
pub(crate) mod user;
