//! Scripted peers: a server that reproduces faults of servers and networks, and a client that sends any text.
//!
//! A [`ScriptedServer`] answers each method by a script, and stores the messages that it receives. A client connects to it
//! over HTTP ([`ScriptedServer::listen`]), or over pipes in memory with the framing of stdio: the server is a
//! [`Connect`](mcp_transport::Connect). All connections share the state of the script. A script can therefore describe a
//! server that is silent at first and answers after a restart.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_protocol::ProtocolVersion;
//! use mcp_test::peer::{Reply, ScriptedServer};
//! use serde_json::json;
//!
//! let server = ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
//!     .on("tools/list", Reply::result(json!({"tools": []})))
//!     // The first call is answered late and with an unknown id, the second twice. Later calls get no response.
//!     .on("tools/call", Reply::result(json!({"content": []})).with_id(json!(99)).after(Duration::from_millis(5)))
//!     .on("tools/call", Reply::result(json!({"content": []})).twice())
//!     .on("tools/call", Reply::silence());
//! # let _ = server;
//! ```
//!
//! A [`ScriptedClient`] tests a server: it sends any text, and reads the messages of the server.

mod client;
#[cfg(feature = "http")]
mod http;
mod pipe;
mod reply;
mod script;

use std::{sync::Arc, time::Duration};

use mcp_protocol::ProtocolVersion;
use serde_json::{Value, json};

#[cfg(feature = "http")]
pub use self::http::{HttpPeer, HttpRequest};
use self::script::Script;
pub use self::{client::ScriptedClient, reply::Reply};

/// The timeout of every wait. After it the test fails.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server that follows a script. Clones share the script, its state and the stored messages.
#[derive(Debug, Clone)]
pub struct ScriptedServer {
    script: Arc<Script>,
}

impl ScriptedServer {
    /// Creates a server that answers only the methods of [`ScriptedServer::on`].
    ///
    /// ```
    /// use mcp_test::peer::{Reply, ScriptedServer};
    /// use serde_json::json;
    ///
    /// let server = ScriptedServer::silent().on("ping", Reply::result(json!({})));
    /// assert!(server.seen().is_empty());
    /// ```
    #[must_use]
    pub fn silent() -> Self {
        Self { script: Arc::new(Script::default()) }
    }

    /// Creates a server that opens connections of this revision.
    ///
    /// The server answers `initialize`, `ping` and `logging/setLevel`, or `server/discover`. It rejects the first request
    /// of the other era as an unknown method or revision. It declares tools, resources and prompts: the script answers
    /// their requests.
    #[must_use]
    pub fn for_revision(version: ProtocolVersion) -> Self {
        let capabilities = json!({
            "completions": {}, "logging": {}, "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true}, "tools": {"listChanged": true},
        });
        let name = json!({"name": "scripted", "version": "1.0"});
        let unknown = || Reply::error(-32601, "method not found");
        if version.is_stateless() {
            let discovered = json!({
                "resultType": "complete", "supportedVersions": [version.as_str()], "capabilities": capabilities,
                "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": name},
            });
            return Self::silent().on("server/discover", Reply::result(discovered)).on(
                "initialize",
                Reply::error(-32022, "unsupported protocol version").data(json!({
                    "supported": [version.as_str()], "requested": "",
                })),
            );
        }
        let opened = json!({"protocolVersion": version.as_str(), "capabilities": capabilities, "serverInfo": name});
        Self::silent()
            .on("initialize", Reply::result(opened))
            .on("ping", Reply::result(json!({})))
            .on("logging/setLevel", Reply::result(json!({})))
            .on("server/discover", unknown())
    }

    /// Adds a reply to a method. The server uses the replies of a method in their order, and repeats the last one.
    ///
    /// A notification uses a reply too: the server sends the messages of the reply, but no response.
    ///
    /// # Panics
    ///
    /// Panics if the server is already connected.
    #[must_use]
    pub fn on(mut self, method: &str, reply: Reply) -> Self {
        let script = Arc::get_mut(&mut self.script).unwrap_or_else(|| panic!("the script is already in use"));
        script.add(method, reply);
        self
    }

    /// Returns every received message of all connections. Text that is not JSON is a string.
    #[must_use]
    pub fn seen(&self) -> Vec<Value> {
        self.script.seen()
    }

    /// Returns the received messages of this method.
    #[must_use]
    pub fn seen_of(&self, method: &str) -> Vec<Value> {
        self.seen().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Waits for `count` messages of this method, and returns them.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds, with the received messages.
    pub async fn wait_for(&self, method: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} message(s) `{method}`");
        self.script.wait_for_script(&what, || Some(self.seen_of(method)).filter(|seen| seen.len() >= count)).await
    }

    /// Returns the number of connections that were opened: pipes or sockets.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.script.connections()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.script.open_connections()
    }

    /// Waits until no connection is open.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds.
    pub async fn wait_until_disconnected(&self) {
        self.script
            .wait_for_script("the end of every connection", || (self.open_connections() == 0).then_some(()))
            .await;
    }

    /// Breaks every open connection, as a crash of the server does. The server accepts new connections.
    pub fn crash(&self) {
        self.script.crash();
    }

    /// Serves HTTP on a free port of 127.0.0.1. Every path is the endpoint.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot open the port.
    #[cfg(feature = "http")]
    pub async fn listen(&self) -> std::io::Result<HttpPeer> {
        HttpPeer::bind(Arc::clone(&self.script)).await
    }
}
