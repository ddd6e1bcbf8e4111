//! Calls that ask, with policies: a call that a person approved continues once, and a changed policy ends it.

use std::{
    error::Error,
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, Names, ServerState,
    policy::{AuditEvent, AuditSink, DecidedBy, Effect, Outcome, PendingApproval, RefusalKind},
};
use mcp_client::{Reconnect, Update, transport::BoxFuture};
use mcp_protocol::SubscriptionFilter;
use mcp_server::{inputs::StateKeys, prelude::*, store::MemoryStore};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    common::{self, Pipe, Processes, REVISIONS, SOON, client, over_http, raw},
    rounds::{Turns, asking, connect, first_round, next, reason, send},
};

#[tokio::test]
async fn an_approved_call_continues_once_and_each_round_is_recorded() {
    for up in REVISIONS {
        let events: Arc<Mutex<Vec<(DecidedBy, Outcome)>>> = Arc::default();
        let sink = Arc::clone(&events);
        let host = Host::builder("gateway", "1")
            .server("s", Pipe::new(asking(up, &Turns::default())))
            .default_effect(Effect::Ask)
            .approver(|_: PendingApproval| async { true })
            .audit(move |event: &AuditEvent| sink.lock().unwrap().push((event.decided_by, event.outcome)))
            .start()
            .await
            .unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
        let user = client().connect(&gateway).await.unwrap();
        let (key, state) = first_round(&user).await;
        let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
        assert_eq!(send(&user, round.clone()).await.unwrap(), "ada", "{up}");
        assert_eq!(reason(&send(&user, round).await.unwrap_err()), "request_state_expired", "{up}");
        let refused = Outcome::Refused(RefusalKind::NotContinued);
        let expected = [
            (DecidedBy::Default, Outcome::Approved),
            (DecidedBy::EarlierRound, Outcome::Allowed),
            (DecidedBy::EarlierRound, refused),
        ];
        assert_eq!(*events.lock().unwrap(), expected, "{up}");
    }
}

#[tokio::test]
async fn a_round_with_an_invalid_response_is_recorded_as_refused() {
    let events: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let sink = Arc::clone(&events);
    let host = Host::builder("gateway", "1")
        .server("s", Pipe::new(asking(REVISIONS[0], &Turns::default())))
        .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.outcome));
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().connect(&gateway).await.unwrap();
    let (key, state) = first_round(&user).await;
    let round = |answer: &Value| next(&json!({}), &state, &key, answer);
    let invalid = send(&user, round(&json!({ "action": 7 }))).await.unwrap_err();
    assert_eq!(invalid.code.0, -32602, "{invalid}");
    // The question stays open.
    let valid = json!({ "action": "accept", "content": { "name": "ada" } });
    assert_eq!(send(&user, round(&valid)).await.unwrap(), "ada");
    let refused = Outcome::Refused(RefusalKind::NotContinued);
    assert_eq!(*events.lock().unwrap(), [Outcome::Allowed, refused, Outcome::Allowed]);
}

#[tokio::test]
async fn a_round_whose_state_does_not_open_is_recorded_as_refused() {
    for up in REVISIONS {
        let events: Arc<Mutex<Vec<(String, Outcome)>>> = Arc::default();
        let sink = Arc::clone(&events);
        let host = Host::builder("gateway", "1")
            .server("s", Pipe::new(asking(up, &Turns::default())))
            .audit(move |event: &AuditEvent| sink.lock().unwrap().push((event.tool.clone(), event.outcome)));
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[1]]).build();
        let user = client().connect(&gateway).await.unwrap();
        let (key, state) = first_round(&user).await;
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        for (arguments, state) in [(json!({}), "forged"), (json!({ "other": 1 }), &*state)] {
            let refused = send(&user, next(&arguments, state, &key, &answer)).await.unwrap_err();
            assert_eq!((refused.code.0, reason(&refused)), (-32602, "request_state_expired"), "{up}");
        }
        let outcomes = [Outcome::Allowed, Outcome::Refused(RefusalKind::NotContinued)];
        let expected = [outcomes[0], outcomes[1], outcomes[1]].map(|outcome| ("form".to_owned(), outcome));
        assert_eq!(*events.lock().unwrap(), expected, "{up}");
    }
}

#[tokio::test]
async fn a_round_of_an_unlisted_resource_whose_state_does_not_open_is_recorded_as_refused() {
    for (names, prefix) in [(Names::Provider, "mcp://s/"), (Names::Raw, "")] {
        let events: Arc<Mutex<Vec<(String, Outcome)>>> = Arc::default();
        let sink = Arc::clone(&events);
        let notes = Server::builder("s", "1").resource_template(template("note://{id}", async || "text")).build();
        let host = Host::builder("gateway", "1")
            .server("s", &notes)
            .audit(move |event: &AuditEvent| sink.lock().unwrap().push((event.tool.clone(), event.outcome)));
        let gateway = Gateway::builder(host.start().await.unwrap()).names(names);
        let user = common::connect(gateway, REVISIONS[1]).await;
        let forged = json!({ "uri": format!("{prefix}note://7"), "requestState": "forged" });
        let refused = raw(&user, "resources/read", forged).await.unwrap_err();
        assert_eq!(reason(&refused), "request_state_expired", "{names:?}");
        let expected = [("note://7".to_owned(), Outcome::Refused(RefusalKind::NotContinued))];
        assert_eq!(*events.lock().unwrap(), expected, "{names:?}");
    }
}

#[tokio::test]
async fn a_round_whose_server_was_removed_is_recorded_as_refused() {
    for up in REVISIONS {
        let events: Arc<Mutex<Vec<Outcome>>> = Arc::default();
        let sink = Arc::clone(&events);
        let host = Host::builder("gateway", "1")
            .server("s", Pipe::new(asking(up, &Turns::default())))
            .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.outcome));
        let host = host.start().await.unwrap();
        let gateway = Gateway::builder(host.clone()).build().unwrap().versions([REVISIONS[1]]).build();
        let user = client().connect(&gateway).await.unwrap();
        let (key, state) = first_round(&user).await;
        host.remove("s").await;
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        let refused = send(&user, next(&json!({}), &state, &key, &answer)).await.unwrap_err();
        assert_eq!(refused.code.0, -32602, "{up}: {refused}");
        let expected = [Outcome::Allowed, Outcome::Refused(RefusalKind::NotContinued)];
        assert_eq!(*events.lock().unwrap(), expected, "{up}");
    }
}

#[tokio::test]
async fn a_round_that_the_node_of_its_call_refuses_is_recorded_after_its_permission() {
    let (store, events) = (Arc::new(MemoryStore::new()), Arc::<Mutex<Vec<Outcome>>>::default());
    let node = |is_recorded: bool| {
        let (store, sink) = (store.clone(), Arc::clone(&events));
        async move {
            let record = move |event: &AuditEvent| {
                if is_recorded {
                    sink.lock().unwrap().push(event.outcome);
                }
            };
            let server = Pipe::new(asking(REVISIONS[0], &Turns::default()));
            let host = Host::builder("gateway", "1").server("s", server).audit(record).start().await.unwrap();
            let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]])).build().unwrap();
            let gateway = gateway.store(store).versions([REVISIONS[1]]).build();
            (client().connect(&gateway).await.unwrap(), gateway)
        }
    };
    let ((first, _first), (second, _second)) = (node(false).await, node(true).await);
    let (key, state) = first_round(&first).await;
    let round = |answer: &Value| next(&json!({}), &state, &key, answer);
    let invalid = send(&second, round(&json!({ "action": 7 }))).await.unwrap_err();
    assert_eq!(invalid.code.0, -32602, "{invalid}");
    let valid = json!({ "action": "accept", "content": { "name": "ada" } });
    assert_eq!(send(&second, round(&valid)).await.unwrap(), "ada");
    let refused = Outcome::Refused(RefusalKind::NotContinued);
    assert_eq!(*events.lock().unwrap(), [Outcome::Allowed, refused, Outcome::Allowed]);
}

#[tokio::test]
async fn an_approved_call_continues_once_on_all_nodes_of_a_fleet() {
    let url = over_http(asking(REVISIONS[1], &Turns::default())).await;
    let store = Arc::new(MemoryStore::new());
    let node = || async {
        let host = Host::builder("gateway", "1").server("s", url.as_str()).default_effect(Effect::Ask);
        let host = host.approver(|_: PendingApproval| async { true }).start().await.unwrap();
        let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]])).build().unwrap();
        let gateway = gateway.store(store.clone()).versions([REVISIONS[1]]).build();
        (client().connect(&gateway).await.unwrap(), gateway)
    };
    let ((first, _first), (second, _second)) = (node().await, node().await);
    let (key, state) = first_round(&first).await;
    let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
    assert_eq!(send(&second, round.clone()).await.unwrap(), "ada");
    // A rejected round does not remove the mark of the round that ran.
    for node in [&first, &first, &second] {
        assert_eq!(reason(&send(node, round.clone()).await.unwrap_err()), "request_state_expired");
    }
}

#[tokio::test]
async fn a_policy_that_denies_a_call_meanwhile_ends_its_rounds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    std::fs::write(&path, "").unwrap();
    let server = asking(REVISIONS[1], &Turns::default());
    let host = Host::builder("gateway", "1").server("s", &server).policy_file(&path).watch(Duration::from_millis(5));
    let host = host.start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
    let ada = connect(&gateway, "ada").await;
    let (key, state) = first_round(&ada).await;
    let answer = json!({ "action": "accept", "content": { "name": "ada" } });
    let round = || next(&json!({}), &state, &key, &answer);
    assert_eq!(send(&ada, round()).await.unwrap(), "ada");
    let ask = "a policy during the call requires an approval for the call of \"form\" of \"s\" (`ask`), and the gateway has no approver: r";
    for (effect, text) in [("deny", "a policy denies the request meanwhile"), ("ask", ask)] {
        std::fs::write(&path, "").unwrap();
        let lists = async || ada.list_tools().await.unwrap().iter().any(|tool| tool.name == "s__form");
        timeout(SOON, async { while !lists().await {} }).await.unwrap();
        std::fs::write(&path, format!("[[rule]]\ntool = \"form\"\neffect = \"{effect}\"\nreason = \"r\"\n")).unwrap();
        timeout(SOON, async { while lists().await {} }).await.unwrap();
        let denied = send(&ada, round()).await.unwrap_err();
        assert_eq!((denied.code.0, &*denied.message), (-32600, text));
    }
}

#[tokio::test]
async fn a_denied_round_does_not_wait_for_a_server_that_does_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    std::fs::write(&path, "").unwrap();
    let processes = Processes::new(|_| asking(REVISIONS[1], &Turns::default()));
    let host = Host::builder("gateway", "1")
        .reconnect(Reconnect::never())
        .call_wait(Duration::from_secs(1))
        .server("s", processes.clone())
        .policy_file(&path)
        .watch(Duration::from_millis(5));
    let host = host.start().await.unwrap();
    let gateway = Gateway::builder(host.clone()).build().unwrap().versions([REVISIONS[1]]).build();
    let ada = connect(&gateway, "ada").await;
    let mut changes = ada.listen(SubscriptionFilter::lists()).await.unwrap();
    let (key, state) = first_round(&ada).await;
    std::fs::write(&path, "[[rule]]\ntool = \"form\"\neffect = \"deny\"\n").unwrap();
    let announced = async { while changes.next().await.unwrap().unwrap() != Update::ToolsChanged {} };
    timeout(SOON, announced).await.unwrap();
    processes.stick();
    processes.kill(0);
    let mut states = host.status_events();
    let lost = async { while states.next().await.unwrap().state != ServerState::Failed {} };
    timeout(SOON, lost).await.unwrap();
    let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
    let denied = send(&ada, round).await.unwrap_err();
    assert_eq!((denied.code.0, &*denied.message), (-32600, "a policy denies the request meanwhile"));
}

/// A receiver of audit events that can be full.
#[derive(Clone, Default)]
struct Storage(Arc<AtomicBool>);

impl AuditSink for Storage {
    fn record(&self, _: &AuditEvent) {}

    fn store<'a>(&'a self, _: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        let is_full = self.0.load(Ordering::SeqCst);
        Box::pin(ready(if is_full { Err("the disk is full".into()) } else { Ok(()) }))
    }
}

#[tokio::test]
async fn a_round_that_the_audit_refuses_can_be_repeated() {
    for (up, has_store) in REVISIONS.into_iter().flat_map(|up| [(up, false), (up, true)]) {
        let storage = Storage::default();
        let host = Host::builder("gateway", "1")
            .server("s", Pipe::new(asking(up, &Turns::default())))
            .default_effect(Effect::Ask)
            .approver(|_: PendingApproval| async { true })
            .audit(storage.clone())
            .require_audit();
        let gateway = Gateway::builder(host.start().await.unwrap()).state_keys(StateKeys::new([[1; 32]]));
        let gateway = gateway.build().unwrap().versions([REVISIONS[1]]);
        let gateway = if has_store { gateway.store(Arc::new(MemoryStore::new())) } else { gateway }.build();
        let user = client().connect(&gateway).await.unwrap();
        let (key, state) = first_round(&user).await;
        let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
        storage.0.store(true, Ordering::SeqCst);
        let refused = send(&user, round.clone()).await.unwrap_err();
        assert_eq!(refused.code.0, -32600, "{up}: {refused}");
        storage.0.store(false, Ordering::SeqCst);
        assert_eq!(send(&user, round.clone()).await.unwrap(), "ada", "{up}");
        assert_eq!(reason(&send(&user, round).await.unwrap_err()), "request_state_expired", "{up}");
    }
}

/// A receiver of audit events that can become stuck.
#[derive(Clone, Default)]
struct Stuck {
    is_stuck: Arc<AtomicBool>,
    waits: Arc<Notify>,
}

impl AuditSink for Stuck {
    fn record(&self, _: &AuditEvent) {}

    fn store<'a>(&'a self, _: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async {
            if self.is_stuck.load(Ordering::SeqCst) {
                self.waits.notify_one();
                pending::<()>().await;
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_round_that_the_client_cancels_before_its_record_can_be_repeated_on_all_nodes() {
    let url = over_http(asking(REVISIONS[1], &Turns::default())).await;
    let (store, audit) = (Arc::new(MemoryStore::new()), Stuck::default());
    let node = || async {
        let host = Host::builder("gateway", "1").server("s", url.as_str()).default_effect(Effect::Ask);
        let host = host.approver(|_: PendingApproval| async { true }).audit(audit.clone()).require_audit();
        let gateway = Gateway::builder(host.start().await.unwrap()).state_keys(StateKeys::new([[1; 32]]));
        let gateway = gateway.build().unwrap().store(store.clone()).versions([REVISIONS[1]]).build();
        (client().connect(&gateway).await.unwrap(), gateway)
    };
    let nodes = [node().await, node().await];
    for (cancelled, _) in &nodes {
        for (repeated, _) in &nodes {
            let (key, state) = first_round(cancelled).await;
            let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
            audit.is_stuck.store(true, Ordering::SeqCst);
            let (user, sent) = (cancelled.clone(), round.clone());
            let sent = tokio::spawn(async move { send(&user, sent).await });
            timeout(SOON, audit.waits.notified()).await.unwrap();
            sent.abort();
            audit.is_stuck.store(false, Ordering::SeqCst);
            // The gateway removes the mark of the cancelled round in a task of its own.
            let continued = async {
                loop {
                    match send(repeated, round.clone()).await {
                        Ok(text) => return text,
                        Err(_) => sleep(Duration::from_millis(5)).await,
                    }
                }
            };
            assert_eq!(timeout(SOON, continued).await.unwrap(), "ada");
            for (node, _) in &nodes {
                assert_eq!(reason(&send(node, round.clone()).await.unwrap_err()), "request_state_expired");
            }
        }
    }
}
