//! The lists of tasks of a gateway: a caller receives the tasks of its own credentials only.

use std::sync::Arc;

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::transport::{BoxFuture, Connect};
use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourcePage, SourceResult},
};

use crate::common::{Pipe, connect_as, page};

/// A server whose list has the tasks of all callers of its credentials.
struct Tasks;

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#])
    }

    fn list_tasks(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z""#;
        let json = format!(r#"{{"tasks":[{{"taskId":"up-1","status":"working","ttl":null,{times}}}]}}"#);
        Box::pin(std::future::ready(Ok(SourceResult::new(json, ProtocolVersion::V2025_11_25))))
    }
}

#[tokio::test]
async fn a_caller_with_shared_credentials_receives_no_tasks_of_other_callers() {
    let version = ProtocolVersion::V2025_11_25;
    let server = || Server::builder::<()>("s", "1").versions([version]).source(Tasks).build();
    let of_ada: Arc<dyn Connect> = Arc::new(Pipe::new(server()));
    let options = ServerOptions::new().connector_of(move |name| (name == "ada").then(|| Arc::clone(&of_ada)));
    let host = Host::builder("gateway", "1").server_with("s", Pipe::new(server()), options).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
    for (user, tasks) in [("ada", 1), ("grace", 0)] {
        let listed = connect_as(&gateway, user).await.list_tasks().await.unwrap();
        assert_eq!(listed.len(), tasks, "{user}");
    }
}
