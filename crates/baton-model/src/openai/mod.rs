//! Chat completions, as OpenAI and nearly every other server speak them. Pure: requests are built and answers read here, and sent elsewhere.

mod answer;
mod request;
mod text_calls;
mod thinking;

pub(crate) use answer::Completion;
pub(crate) use request::body;
