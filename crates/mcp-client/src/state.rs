//! The state of a client's connection.

/// The state of a client's connection ([`Client::state`](crate::Client::state)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The client opens a connection. Calls wait.
    Connecting {
        /// The number of the attempt. The first one is 1.
        attempt: u32,
    },
    /// The connection is open.
    Ready,
    /// All attempts have failed. The next call causes another one.
    Down,
    /// The client was closed, or lost its connection and does not reconnect. Calls fail.
    Closed,
}
