//! Between the wire and the tools: which calls are underway, how they are asked to stop, and how what they say is made to
//! fit the wire. It knows tools by their trait only, and writes nothing down: that is the journal's.

mod fit;
mod greeting;
mod progress;
mod underway;
mod whole;

pub(crate) use fit::fit;
pub(crate) use greeting::DeviceGreeting;
pub use greeting::{WorkspaceNews, WorkspaceSource};
pub(crate) use progress::progress;
pub(crate) use underway::{Ended, Underway};
pub(crate) use whole::Whole;
