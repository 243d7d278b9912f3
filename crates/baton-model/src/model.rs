use async_trait::async_trait;
use baton_proto::{ModelAnswer, ModelError, ModelRequest};
use std::fmt::Debug;

/// A model that can be asked. Providers differ in dialect and address, and in nothing the runtime has to know.
#[async_trait]
pub trait Model: Send + Sync + Debug {
    /// The model's name, as the provider knows it.
    fn name(&self) -> &str;

    /// Asks once, without retrying, and passes on what is written while it is written.
    ///
    /// The answer is what counts: deltas are for eyes, and those of a failed call are worth nothing. Dropping the future
    /// cancels the call and closes its connection.
    async fn complete(&self, request: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError>;
}

/// Where the pieces of an answer go while it is being written.
pub trait DeltaSink {
    /// More of the text, never empty.
    fn text(&mut self, delta: &str);
    /// More of the reasoning that the provider shows, never empty.
    fn thinking(&mut self, delta: &str);
}

/// Nobody watches.
impl DeltaSink for () {
    fn text(&mut self, _delta: &str) {}
    fn thinking(&mut self, _delta: &str) {}
}
