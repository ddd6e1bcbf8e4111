//! The callers that share a connection to a server.

/// The callers that share a connection to a server. Callers with different declared capabilities never share one.
///
/// ```
/// use mcp_agent::{ServerOptions, Sharing};
///
/// let browser = ServerOptions::new().sharing(Sharing::Session).max_connections(8);
/// assert_eq!(browser.sharing, Sharing::Session);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sharing {
    /// All callers share a connection, also those of different principals. For servers without state.
    All,
    /// The callers of a principal share a connection.
    #[default]
    Principal,
    /// Each session has a connection of its own. For servers with state, such as a browser.
    Session,
}

impl std::str::FromStr for Sharing {
    type Err = UnknownSharing;

    fn from_str(text: &str) -> Result<Self, UnknownSharing> {
        match text {
            "all" => Ok(Self::All),
            "principal" => Ok(Self::Principal),
            "session" => Ok(Self::Session),
            _ => Err(UnknownSharing),
        }
    }
}

/// A text that names no [`Sharing`].
///
/// ```
/// use mcp_agent::{Sharing, UnknownSharing};
///
/// assert_eq!("session".parse(), Ok(Sharing::Session));
/// let unknown: UnknownSharing = "none".parse::<Sharing>().unwrap_err();
/// assert!(unknown.to_string().contains("`principal`"));
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sharing of connections is `all`, `principal` or `session`")]
pub struct UnknownSharing;
