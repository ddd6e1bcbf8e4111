//! Scripted peers: a server that does to a client what servers and networks do, and a client that says to a server
//! whatever a test wants it to say.
//!
//! A [`ScriptedServer`] answers by a script, method by method, and keeps what it was sent. A client connects to it over
//! pipes (it is a [`Connect`](mcp_transport::Connect): bytes in memory, framed as on stdio) or over HTTP
//! ([`ScriptedServer::listen`]). The state of the script is shared by all connections, so that "silent at first, right
//! after a restart" can be written.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_protocol::ProtocolVersion;
//! use mcp_test::peer::{Reply, ScriptedServer};
//! use serde_json::json;
//!
//! let server = ScriptedServer::speaking(ProtocolVersion::V2025_11_25)
//!     .on("tools/list", Reply::result(json!({"tools": []})))
//!     // The first call is answered late and with an id that nobody asked for, the second twice, every later one never.
//!     .on("tools/call", Reply::result(json!({"content": []})).with_id(json!(99)).after(Duration::from_millis(5)))
//!     .on("tools/call", Reply::result(json!({"content": []})).twice())
//!     .on("tools/call", Reply::silence());
//! # let _ = server;
//! ```
//!
//! A [`ScriptedClient`] is the other side: it sends text, whatever it is, and reads what comes.

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

/// How long anything is waited for before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that follows a script. Clones share the script, its state, and what was sent to it.
#[derive(Debug, Clone)]
pub struct ScriptedServer {
    script: Arc<Script>,
}

impl ScriptedServer {
    /// A server that reads everything and answers nothing, except where it is told to by [`ScriptedServer::on`].
    #[must_use]
    pub fn silent() -> Self {
        Self { script: Arc::new(Script::default()) }
    }

    /// A server that opens as one of this revision does, and offers tools, resources and prompts that the script has to
    /// answer for: it answers `initialize` and `ping`, or `server/discover`, and whatever the other era opens with as a
    /// server does that has never heard of it.
    #[must_use]
    pub fn speaking(version: ProtocolVersion) -> Self {
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

    /// What it does with the next request of this method (and with a notification of it: there, what the reply sends on
    /// its own account). Replies to one method are used in the order in which they were given; the last one stays.
    ///
    /// # Panics
    /// When the server is connected already.
    #[must_use]
    pub fn on(mut self, method: &str, reply: Reply) -> Self {
        let script = Arc::get_mut(&mut self.script).unwrap_or_else(|| panic!("the script is being played already"));
        script.add(method, reply);
        self
    }

    /// Every message that was sent to it so far, over all connections. What is no JSON is a string.
    #[must_use]
    pub fn seen(&self) -> Vec<Value> {
        self.script.seen()
    }

    /// The messages of this method that were sent to it so far.
    #[must_use]
    pub fn seen_of(&self, method: &str) -> Vec<Value> {
        self.seen().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// Waits until it was sent `count` messages of this method, and gives them.
    ///
    /// # Panics
    /// After ten seconds, showing what was sent instead.
    pub async fn wait_for(&self, method: &str, count: usize) -> Vec<Value> {
        let what = format!("{count} message(s) `{method}`");
        self.script.until(&what, || Some(self.seen_of(method)).filter(|seen| seen.len() >= count)).await
    }

    /// How many connections were opened so far: pipes, or sockets.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.script.connections()
    }

    /// How many of them are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.script.open_connections()
    }

    /// Waits until no connection is open: the client has left nothing behind.
    ///
    /// # Panics
    /// After ten seconds.
    pub async fn wait_until_left(&self) {
        self.script.until("the end of every connection", || (self.open_connections() == 0).then_some(())).await;
    }

    /// Breaks every open connection, as a crash of the server does. New ones are served.
    pub fn crash(&self) {
        self.script.crash();
    }

    /// Serves HTTP on a free port of 127.0.0.1; every path is the endpoint.
    ///
    /// # Errors
    /// What the system says.
    #[cfg(feature = "http")]
    pub async fn listen(&self) -> std::io::Result<HttpPeer> {
        HttpPeer::bind(Arc::clone(&self.script)).await
    }
}
