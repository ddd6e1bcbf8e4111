//! The reason of a client for a cancellation reaches the server, in a limited length.

use std::sync::Arc;

use mcp_agent::{Gateway, Host};
use mcp_client::Handler;
use mcp_protocol::{ClientCapabilities, ElicitationCapability};
use mcp_test::peer::{Reply, ScriptedServer};

use crate::common::{REVISIONS, client, scripted};

/// The bytes of a reason that the gateway passes.
const LONGEST: usize = 1024;

/// The user of a call, with a reason for its cancellation.
#[derive(Clone)]
struct User {
    reason: Option<String>,
    can_be_asked: bool,
}

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        let capabilities = ClientCapabilities::new();
        if !self.can_be_asked {
            return capabilities;
        }
        capabilities.with_elicitation(ElicitationCapability::new().with_form())
    }

    fn cancellation_reason(&self) -> Option<String> {
        self.reason.clone()
    }
}

/// A server of the session era whose tool does not answer.
fn silent() -> ScriptedServer {
    scripted("t").on("tools/call", Reply::silence())
}

#[tokio::test]
async fn the_server_receives_the_reason_of_the_client() {
    let long = "too slow ".repeat(1000);
    for version in REVISIONS {
        // The call of a modern client that can be asked is parked.
        for can_be_asked in [false, true] {
            for (reason, expected) in [
                (Some("the user pressed Esc"), "the user pressed Esc"),
                (Some(&*long), &long[..LONGEST]),
                // The text of a client without a reason.
                (None, "the caller does not wait for it any more"),
            ] {
                let server = silent();
                let host = Host::builder("gateway", "1").server("s", server.clone()).start().await.unwrap();
                let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
                let user = User { reason: reason.map(str::to_owned), can_be_asked };
                let client = client().handler(user.clone()).connect(&gateway).await.unwrap();
                let call = client.call_tool("s__t", ()).answers(Arc::new(user));
                let call = tokio::spawn(call.into_future());
                server.wait_for("tools/call", 1).await;
                call.abort();
                let cancelled = server.wait_for("notifications/cancelled", 1).await;
                let case = format!("{version}, {can_be_asked}, {reason:?}");
                assert_eq!(cancelled[0]["params"]["reason"], expected, "{case}");
                assert_eq!(cancelled[0]["params"]["requestId"], server.seen_of("tools/call")[0]["id"], "{case}");
            }
        }
    }
}
