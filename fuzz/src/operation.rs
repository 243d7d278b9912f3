//! What an end may send: operations and frames.

use baton_proto::{ClientFrame, ErrorBody, Operation};
use serde_json::Value;

/// A refusal is for people to read, on a line of a terminal or a card: it doesn't repeat a whole frame.
const LONGEST_REFUSAL: usize = 4 * 1024;

/// Nothing panics; what is read is written so that it is read the same again; a refusal stays short.
pub fn check(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    operation(value.clone());
    if let Ok(frame) = serde_json::from_slice::<ClientFrame>(bytes) {
        let written = serde_json::to_value(&frame).expect("a frame can be written");
        let again: ClientFrame = serde_json::from_value(written.clone()).expect("a frame that was written can be read");
        assert_eq!(serde_json::to_value(&again).expect("a frame can be written"), written, "a frame changes by being written");
        if let ClientFrame::Op { operation: value } = frame {
            operation(value);
        }
    }
}

fn operation(value: Value) {
    match Operation::decode(value) {
        Ok(read) => {
            let written = serde_json::to_value(&read).expect("an operation can be written");
            let again = Operation::decode(written.clone()).expect("an operation that was written can be read");
            assert_eq!(serde_json::to_value(&again).expect("it can be written"), written, "an operation changes by being written");
        }
        Err(error) => refused(&error),
    }
}

pub(crate) fn refused(error: &ErrorBody) {
    let longest = error.message.len().max(error.hint.len());
    assert!(longest <= LONGEST_REFUSAL, "a refusal of {longest} bytes: {:.200}", error.message);
}
