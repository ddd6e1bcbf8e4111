//! The input requests of a call: where they go in each era, how their answers come back, and what bounds them.

mod collector;
mod once;
mod seal;
mod task;

use std::time::Duration;

pub use self::seal::StateKeys;
pub(crate) use self::{
    collector::{InputCollector, InputServices, Origin},
    once::run as run_once,
};

/// How long the client may take to answer, in a session. No time may be zero.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InputLimits {
    /// A question to the user. Default 10 minutes.
    pub elicitation: Duration,
    /// A question to the model. Default 2 minutes.
    pub sampling: Duration,
    /// A question to the client itself. Default 30 seconds.
    pub roots: Duration,
    /// How long the state of a stateless round is good. Default 10 minutes.
    pub state: Duration,
    /// The most bytes of state that travel through the client; more stays in the store, with zero all of it. Default 64 KiB.
    pub state_bytes: usize,
}

impl Default for InputLimits {
    fn default() -> Self {
        Self {
            elicitation: Duration::from_secs(600),
            sampling: Duration::from_secs(120),
            roots: Duration::from_secs(30),
            state: Duration::from_secs(600),
            state_bytes: 64 << 10,
        }
    }
}
