//! The input requests of a call: their delivery in each era, their answers, and their limits.

mod collector;
mod once;
mod round;
mod seal;
mod sealed_id;
mod sealed_text;
mod task;

use std::time::Duration;

pub(crate) use self::{
    collector::{InputCollector, InputServices, Origin},
    once::{run as run_once, serve_nodes},
};
pub use self::{round::InputRound, seal::StateKeys, sealed_text::StateBinding};

/// The limits of input requests. No duration may be zero.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::Server;
///
/// let builder = Server::builder("forms", "1.0").limits(|limits| limits.inputs.elicitation = Duration::from_secs(60));
/// let server = builder.build();
/// assert_eq!(server.limits().inputs.elicitation, Duration::from_secs(60));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InputLimits {
    /// The time for an answer of the user, in a session. Default 10 minutes.
    pub elicitation: Duration,
    /// The time for an answer of the model, in a session. Default 2 minutes.
    pub sampling: Duration,
    /// The time for an answer of the client itself, in a session. Default 30 seconds.
    pub roots: Duration,
    /// The lifetime of the request state between two rounds. Default 10 minutes.
    pub state: Duration,
    /// The most bytes of request state that travel through the client. A larger state goes into the store; with zero,
    /// every state does. Default 64 KiB.
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
