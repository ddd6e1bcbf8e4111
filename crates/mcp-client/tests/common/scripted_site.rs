//! A scripted server over pipes or HTTP, and the check that a closed client leaves no request, connection or task.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_client::{Client, ClientBuilder, Error, Reconnect, ToolResult, protocol::ProtocolVersion};
use mcp_test::peer::{HttpPeer, Reply, ScriptedServer};
use tokio::{runtime::Handle, time::timeout};

use super::{builder, tool_result};

/// One revision of each era.
pub(crate) const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The longest wait for an operation that does not wait for a limit, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// How the client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Pipes,
    Http,
}

pub(crate) const ALL_TRANSPORTS: &[TransportKind] = &[TransportKind::Pipes, TransportKind::Http];

/// A scripted server where a client finds it.
pub(crate) struct ScriptedSite {
    pub(crate) server: ScriptedServer,
    pub(crate) http: Option<HttpPeer>,
    /// The tasks of the runtime without those of the server and its clients.
    tasks: usize,
}

impl ScriptedSite {
    pub(crate) async fn open(server: ScriptedServer, over: TransportKind) -> Self {
        let tasks = alive();
        let http = match over {
            TransportKind::Pipes => None,
            TransportKind::Http => Some(server.listen().await.unwrap()),
        };
        Self { server, http, tasks }
    }

    pub(crate) async fn connect(&self, builder: ClientBuilder) -> Result<Client, Error> {
        match &self.http {
            Some(http) => builder.connect(http.url()).await,
            None => builder.connect(&self.server).await,
        }
    }

    /// A client of this revision.
    pub(crate) async fn client(&self, version: ProtocolVersion) -> Client {
        self.connect(quick(&[version])).await.unwrap()
    }

    /// Closes all connections, as a server process does when it exits, and starts a new server without state.
    pub(crate) async fn restart(&self) {
        match &self.http {
            Some(http) => {
                http.stop().await;
                http.forget_sessions();
                http.start().unwrap();
            }
            None => self.server.crash(),
        }
    }

    /// Closes the client and checks that no request, connection or task of it is left.
    pub(crate) async fn assert_clean_close(self, client: Client, what: &str) {
        assert_eq!(client.pending(), 0, "{what}");
        timeout(DEADLINE, client.close()).await.unwrap();
        drop(client);
        self.end(what).await;
    }

    /// Checks that no connection and no task is left.
    pub(crate) async fn end(self, what: &str) {
        self.server.wait_until_disconnected().await;
        let Self { server, http, tasks } = self;
        drop((server, http));
        no_tasks_above(tasks, what).await;
    }
}

/// How many tasks the runtime has.
pub(crate) fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Waits until the runtime has no more tasks than it had.
pub(crate) async fn no_tasks_above(tasks: usize, what: &str) {
    let ended = timeout(DEADLINE, async {
        while alive() > tasks {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(ended.await.is_ok(), "{} task(s) still run: {what}", alive() - tasks);
}

/// A client that waits long for answers and not at all for another attempt.
pub(crate) fn quick(versions: &[ProtocolVersion]) -> ClientBuilder {
    let policy = Reconnect::default().first(Duration::from_millis(5));
    builder().versions(versions.iter().copied()).idle_timeout(DEADLINE).connect_timeout(DEADLINE).reconnect(policy)
}

/// The tool result with this text.
pub(crate) fn text(text: &str) -> Reply {
    Reply::result(tool_result(text))
}

/// The outcome of a call for a table: the text, or the true predicates of the error.
pub(crate) fn outcome(result: Result<ToolResult, Error>) -> String {
    match result {
        Ok(result) => format!("ok: {}", result.text()),
        Err(error) => predicates(&error),
    }
}

/// The predicates that hold.
pub(crate) fn predicates(error: &Error) -> String {
    let status = error.http_status().map(|status| status.to_string());
    let wait = error.retry_after().map(|wait| format!("after {wait:?}"));
    let found = [
        (error.is_timeout(), "timeout"),
        (error.is_closed(), "closed"),
        (error.is_unreachable(), "unreachable"),
        (error.is_unauthorized(), "unauthorized"),
        (error.is_forbidden(), "forbidden"),
        (error.is_invalid_response(), "invalid"),
        (error.is_too_large(), "large"),
        (error.is_retryable(), "retryable"),
        (error.is_invalid_request(), "request"),
    ];
    let names = found.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name.to_owned());
    status.into_iter().chain(wait).chain(names).collect::<Vec<_>>().join(" ")
}
