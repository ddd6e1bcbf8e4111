//! The state of a client's connection, and its observer.

use tokio::sync::watch;

/// The state of a client's connection ([`Client::state`](crate::Client::state)).
///
/// ```no_run
/// # fn example(client: &mcp_client::Client) {
/// use mcp_client::State;
///
/// match client.state() {
///     State::Ready => println!("connected"),
///     State::Connecting { attempt } => println!("attempt {attempt}"),
///     State::Down | State::Closed | _ => println!("not connected"),
/// }
/// # }
/// ```
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
    /// The authorizer waits for the user, such as for a login. Calls wait for their authorization, and their timeouts pause.
    AwaitingUser,
    /// All attempts have failed. The next call causes another one.
    Down,
    /// The client was closed, or lost its connection and does not reconnect. Calls fail.
    Closed,
}

/// An observer of the state of a client's connection ([`Client::states`](crate::Client::states)).
///
/// Observers skip states that change faster than the program reads them. The last state is [`State::Closed`]. An observer
/// does not keep the client open.
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) {
/// use mcp_client::State;
///
/// let mut states = client.states();
/// println!("{:?}", states.current());
/// states.wait_for(|state| *state == State::Ready).await;
/// while let Some(state) = states.changed().await {
///     println!("{state:?}");
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "an observer does nothing until the program reads it"]
pub struct States {
    receiver: watch::Receiver<State>,
}

impl States {
    pub(crate) fn new(receiver: watch::Receiver<State>) -> Self {
        Self { receiver }
    }

    /// Returns the current state.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn current(&self) -> State {
        *self.receiver.borrow()
    }

    /// Waits until the state changes, and returns the new state. Returns `None` when the client is closed and the program
    /// has read the last state. Cancel safe.
    ///
    /// See the [example](Self#example).
    pub async fn changed(&mut self) -> Option<State> {
        if self.current() == State::Closed && matches!(self.receiver.has_changed(), Ok(false)) {
            return None;
        }
        self.receiver.changed().await.ok()?;
        Some(*self.receiver.borrow_and_update())
    }

    /// Waits for a state that fulfils the condition, and returns it. Returns `None` if the client is closed before. The
    /// current state counts. Cancel safe.
    ///
    /// See the [example](Self#example).
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&State) -> bool) -> Option<State> {
        loop {
            let state = *self.receiver.borrow_and_update();
            if condition(&state) {
                return Some(state);
            }
            if state == State::Closed {
                return None;
            }
            self.receiver.changed().await.ok()?;
        }
    }
}
