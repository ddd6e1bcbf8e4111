//! A server in memory that answers with any messages, and the first answers of a server.

use std::sync::Arc;

use mcp_protocol::{Message, ProtocolVersion};
use mcp_transport::{BoxFuture, Connect, Frame, Transport, TransportError, memory::duplex, recv};
use serde_json::{Value, json};

type Answer = dyn Fn(&str, &str) -> Vec<Vec<u8>> + Send + Sync;

/// Answers the requests of each connection with messages.
#[derive(Clone)]
pub struct Peer {
    answer: Arc<Answer>,
}

impl Peer {
    /// The function receives the method of a request, and its id in JSON.
    pub fn new(answer: impl Fn(&str, &str) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer) }
    }
}

impl Connect for Peer {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let (ours, mut theirs) = duplex(64);
        let answer = Arc::clone(&self.answer);
        tokio::spawn(async move {
            let sender = theirs.sender();
            while let Some(Ok(frame)) = recv(&mut theirs).await {
                let Ok(Message::Request(request)) = Message::parse(&frame.message) else { continue };
                let id = serde_json::to_string(&request.id).unwrap();
                for message in answer(&request.method, &id) {
                    if sender.send(Frame::new(message)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Box::pin(async { Ok(Box::new(ours) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "a scripted server".to_owned()
    }
}

/// Returns the answer of a server of a revision to a request that opens a connection; `None` for any other request.
pub fn opening(version: ProtocolVersion, method: &str, id: &str) -> Option<String> {
    let capabilities = json!({
        "completions": {}, "logging": {}, "prompts": { "listChanged": true }, "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } },
        "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    let info = json!({ "name": "peer", "version": "1" });
    let result = match (method, version.is_stateless()) {
        ("server/discover", true) => json!({
            "resultType": "complete", "supportedVersions": [version.as_str()], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": info },
        }),
        ("initialize", false) => {
            json!({ "protocolVersion": version.as_str(), "capabilities": capabilities, "serverInfo": info })
        }
        ("server/discover" | "initialize", _) => return Some(error(id, -32601, "method not found")),
        ("ping" | "logging/setLevel", _) => json!({}),
        _ => return None,
    };
    Some(response(id, &result))
}

/// Returns a response with a result.
pub fn response(id: &str, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}
