//! Several nodes with one store behind a balancer that sends each request to the next node.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

mod changes;
mod events;
mod lost_leases;
mod outage;
mod questions;
mod records;
mod sessions;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp_server_core::{Server, ServerBuilder};
use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
use mcp_store::{MemoryStore, Store};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    common::{self, Answer, initialize, notification, request, send, within},
    resume::{Event, take_events},
};

/// Nodes behind a balancer.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<McpService>,
    pub(crate) servers: Vec<Server>,
    next: AtomicUsize,
}

impl Fleet {
    /// Starts nodes of the same server with one store.
    pub(crate) fn new(count: usize, build: impl Fn(ServerBuilder) -> ServerBuilder) -> Self {
        Self::with(count, Arc::new(MemoryStore::new()), HttpConfig::new(), build)
    }

    pub(crate) fn with(
        count: usize,
        store: Arc<dyn Store>,
        config: HttpConfig,
        build: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::of_stores(vec![store; count], config, build)
    }

    /// Starts one node for each handle of a store.
    pub(crate) fn of_stores(
        stores: Vec<Arc<dyn Store>>,
        config: HttpConfig,
        build: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let node = |store| build(Server::builder("fleet", "1.0").store(store)).build();
        let servers: Vec<Server> = stores.into_iter().map(node).collect();
        let nodes = servers.iter().map(|server| server.clone().into_service(config.clone())).collect();
        Self { nodes, servers, next: AtomicUsize::new(0) }
    }

    /// Returns the node of the next request.
    pub(crate) fn next(&self) -> &McpService {
        &self.nodes[self.next.fetch_add(1, Ordering::Relaxed) % self.nodes.len()]
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        send(self.next(), request).await
    }

    /// Opens a session with two requests, each at the next node.
    pub(crate) async fn open(&self, capabilities: Value) -> String {
        self.open_as("2025-11-25", capabilities).await
    }

    pub(crate) async fn open_as(&self, version: &str, capabilities: Value) -> String {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" }
        });
        let answer = self.send(common::legacy(None, "initialize", params)).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        let answer = self.send(notification(&session, "notifications/initialized", json!({}))).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
        // The first node receives the end of the handshake.
        common::settle().await;
        session
    }
}

/// Returns the name of the events of a session in the store.
pub(crate) fn events_of(session: &str) -> String {
    format!("mcp/fleet/session/{}/events", digest(session))
}

/// Returns the name of a session in the store.
pub(crate) fn digest(session: &str) -> String {
    Sha256::digest(session).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the next events of an open stream. Empty at its end.
pub(crate) async fn next_events(body: &mut Body) -> Vec<Event> {
    loop {
        let Some(frame) = within("an event", body.frame()).await else { return Vec::new() };
        let events = take_events(&mut BytesMut::from(&frame.unwrap().into_data().unwrap()[..]));
        if !events.is_empty() {
            return events;
        }
    }
}

/// Returns the only message of the next events of a stream.
pub(crate) async fn next_message(body: &mut Body) -> Value {
    let events = next_events(body).await;
    let [event] = &events[..] else { panic!("one event: {events:?}") };
    event.message.clone().unwrap()
}
