//! How a client's connection stands, for whoever wants to show it.

/// How a client's connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// It is being opened. Calls wait.
    Connecting {
        /// The first attempt in a row is 1.
        attempt: u32,
    },
    /// It is open.
    Ready,
    /// Every attempt to open it again has failed. The next call makes another one.
    Down,
    /// The client was closed, or lost its connection and was told not to open another one. Calls fail.
    Closed,
}
