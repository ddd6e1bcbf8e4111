//! The tests of input requests over newline-delimited JSON.

use crate::stream_transports::OverNdjson as ClientTransport;

#[expect(clippy::duplicate_mod, reason = "the same table over another transport")]
#[path = "inputs.rs"]
mod inputs;
