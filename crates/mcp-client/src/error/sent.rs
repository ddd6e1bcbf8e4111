//! Whether the server can have received the call of an error.

use super::{Error, Kind};

impl Error {
    /// Returns true if the server can have received the call, so that a repetition can repeat an effect.
    ///
    /// Returns false if the client knows that the server did not process the call. For example, the client was closed before, no
    /// connection could be opened, the authorization server was away, the server did not know the session, or the arguments are
    /// invalid. An attempt that the client repeated does not count, because the client repeats only safe calls and rejected calls.
    ///
    /// ```
    /// use mcp_client::Client;
    /// use mcp_server::{Server, tool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// # let server = Server::builder("s", "1").tool(tool("pay", async || "paid")).build();
    /// let client = Client::connect(&server).await?;
    /// client.close().await;
    /// let error = client.call_tool("pay", ()).await.unwrap_err();
    /// assert!(error.is_closed() && !error.was_sent());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn was_sent(&self) -> bool {
        self.is_after_sending
            || match &*self.kind {
                Kind::Closed
                | Kind::Lost(_)
                | Kind::NotOpened(_)
                | Kind::NotAServer { .. }
                | Kind::Unreachable { .. }
                | Kind::Version { .. }
                | Kind::Unsupported(_)
                | Kind::Request(_)
                | Kind::Unsendable(_)
                | Kind::Arguments(_) => false,
                #[cfg(feature = "http")]
                Kind::Address(_) => false,
                Kind::Transport(fault) => {
                    !(fault.is_unreachable() || fault.is_unauthorized() || fault.is_session_lost())
                }
                _ => true,
            }
    }

    /// Returns the error of a call that the client has sent.
    pub(crate) fn after_sending(self) -> Self {
        Self { is_after_sending: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_protocol::RpcError;
    use mcp_transport::TransportError;

    use super::*;

    #[test]
    fn only_a_call_that_the_client_did_not_send_cannot_have_an_effect() {
        let transport = |fault| Error::from(Kind::Transport(fault));
        let unreachable = Kind::Unreachable { peer: "x".into(), source: TransportError::closed() };
        for (error, expected) in [
            (Error::closed(), false),
            (Error::closed().after_sending(), true),
            (Kind::Lost(None).into(), false),
            (Error::from(Kind::Lost(None)).after_sending(), true),
            (unreachable.into(), false),
            (transport(TransportError::unreachable("x")), false),
            (transport(TransportError::unanswered()), true),
            (transport(TransportError::http(503, None, "")), true),
            (transport(TransportError::unauthorized("x")), false),
            (transport(TransportError::unauthorized("x").lasting()), false),
            (transport(TransportError::session_lost()), false),
            (transport(TransportError::session_lost()).after_sending(), true),
            (Error::request("x"), false),
            (Error::unsupported("x"), false),
            (Kind::Unsendable(TransportError::other("x").lasting()).into(), false),
            (Error::timeout("x", Duration::ZERO), true),
            (Kind::Cancelled.into(), true),
            (Kind::Rpc(RpcError::internal("x")).into(), true),
            (Error::invalid("x"), true),
        ] {
            assert_eq!(error.was_sent(), expected, "{error:?}");
        }
    }
}
