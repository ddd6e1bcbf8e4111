//! Servers, hosts and clients of the tests.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![allow(dead_code, reason = "each file of tests uses a part of this")]

use std::time::Duration;

use mcp_agent::{Gateway, GatewayBuilder, Host};
use mcp_client::{Client, ClientBuilder};
use mcp_protocol::ProtocolVersion;
use mcp_server::Server;

/// The longest wait of a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// A revision with sessions, and the stateless revision.
pub(crate) const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The four cells: the revision of the client, and the revision of the server.
pub(crate) fn cells() -> impl Iterator<Item = (ProtocolVersion, ProtocolVersion)> {
    REVISIONS.into_iter().flat_map(|down| REVISIONS.map(|up| (down, up)))
}

/// Starts a host with these servers, and returns the builder of its gateway.
pub(crate) async fn gateway(servers: &[(&str, &Server)]) -> GatewayBuilder {
    let mut host = Host::builder("gateway", "1");
    for (name, server) in servers {
        host = host.server(*name, *server);
    }
    Gateway::builder(host.start().await.unwrap())
}

pub(crate) fn client() -> ClientBuilder {
    Client::builder("client", "1")
}

/// Connects a client of a revision to a gateway.
pub(crate) async fn connect(gateway: GatewayBuilder, version: ProtocolVersion) -> Client {
    let server = gateway.build().unwrap().versions([version]).build();
    let client = client().connect(&server).await.unwrap();
    assert_eq!(client.version(), version);
    client
}
