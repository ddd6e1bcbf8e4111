//! Log records of the server: those of a call reach its handler, and those of the connection the handler of the client.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_client::{
    Client, Handler,
    protocol::{ClientCapabilities, LoggingMessageParams, ProtocolVersion},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::advance};

use crate::common::{
    Peer, builder, start,
    transports::{Properties, connected_over},
};

/// The receiver of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Call,
    Client,
}

const NONE: [Receiver; 0] = [];

/// Stores the receivers of the records.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Receiver>>>);

impl Handler for Recorder {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
    }

    fn log(&self, _: LoggingMessageParams) {
        self.0.lock().unwrap().push(Receiver::Call);
    }

    fn log_without_call(&self, _: LoggingMessageParams) {
        self.0.lock().unwrap().push(Receiver::Client);
    }
}

/// A client of a session, and the server's end of its connection.
struct Session {
    client: Client,
    peer: Peer,
    recorder: Recorder,
}

impl Session {
    async fn new(has_request_streams: bool) -> Self {
        let (recorder, properties) = (Recorder::default(), Properties { has_request_streams, ..Properties::default() });
        let builder = builder().handler(recorder.clone());
        let (client, peer) = connected_over(&properties, builder, ProtocolVersion::V2025_11_25).await;
        Self { client, peer, recorder }
    }

    /// Starts a call whose handler receives its records. Returns its id too.
    async fn call(&mut self) -> (JoinHandle<()>, Value) {
        let call = self.client.call_tool("t", ()).answers(Arc::new(self.recorder.clone()));
        let call = start(async { drop(call.await) });
        (call, self.peer.expect("tools/call").await)
    }

    /// Ends a call without its answer.
    async fn cancel(&mut self, call: JoinHandle<()>) {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }

    /// Sends a record on the stream of a request, or on that of the connection. Returns its receivers.
    async fn receivers(&mut self, request: Option<&Value>) -> Vec<Receiver> {
        let record = json!({ "level": "info", "data": "record" });
        match request {
            Some(id) => self.peer.notify_on(id, "notifications/message", record).await,
            None => self.peer.notify("notifications/message", record).await,
        }
        // The client reads the record before it answers.
        self.peer.exchange(json!("ping"), "ping", json!({})).await;
        std::mem::take(&mut *self.recorder.0.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_on_a_connection_without_streams_belongs_to_the_only_call() {
    let mut session = Session::new(false).await;
    assert_eq!(session.receivers(None).await, [Receiver::Client]);
    let (_one, _) = session.call().await;
    assert_eq!(session.receivers(None).await, [Receiver::Call]);
    let (two, _) = session.call().await;
    assert_eq!(session.receivers(None).await, [Receiver::Client]);
    session.cancel(two).await;
    assert_eq!(session.peer.recv().await["method"], "notifications/cancelled");
    // The cancelled call can have caused the record.
    assert_eq!(session.receivers(None).await, [Receiver::Client]);
    advance(Duration::from_secs(30)).await;
    assert_eq!(session.receivers(None).await, [Receiver::Call]);
}

#[tokio::test(start_paused = true)]
async fn a_record_on_the_stream_of_a_request_belongs_to_this_request_alone() {
    let mut session = Session::new(true).await;
    let _listing = start(session.client.list_tools());
    let list = session.peer.expect("tools/list").await;
    assert_eq!(session.receivers(Some(&list)).await, NONE);
    let ((_one, first), (two, second)) = (session.call().await, session.call().await);
    for id in [&first, &second] {
        assert_eq!(session.receivers(Some(id)).await, [Receiver::Call]);
    }
    session.cancel(two).await;
    assert_eq!(session.peer.recv().await["method"], "notifications/cancelled");
    assert_eq!(session.receivers(Some(&second)).await, NONE);
    // The stream of the session, also while one call runs.
    assert_eq!(session.receivers(None).await, [Receiver::Client]);
}
