//! The members of questions and answers that the library does not know, through a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_client::{Handler, InputContext, RawRequest, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, ElicitationCapability, InputRequest, JsonObject, ProgressParams, RootsCapability, RpcError,
    SamplingCapability,
};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, client, complete, gateway, page, raw};

type Progress = Arc<Mutex<Vec<ProgressParams>>>;

/// A server of the session era. Its tool sends the question in its arguments, and returns the answer. It requests the progress of a
/// question with metadata.
struct Asking(Progress);

impl Source for Asking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Tools).then_some(r#"{"name":"ask","inputSchema":{"type":"object"}}"#))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let params: Value = serde_json::from_str(call.params().get()).unwrap();
            let (method, question) = (&params["arguments"]["method"], params["arguments"]["params"].clone());
            let asked = InputRequest::new(method.as_str().unwrap(), Some(question));
            let (progress, has_meta) = (Arc::clone(&self.0), params["arguments"]["params"].get("_meta").is_some());
            let answer = match has_meta {
                true => call.ask_with_progress(asked, move |notice| progress.lock().unwrap().push(notice)).await?,
                false => call.ask(asked).await?,
            };
            let result = json!({ "content": [], "structuredContent": answer });
            complete(result.to_string(), call.context().version()).await
        })
    }
}

/// Reports progress, and returns one answer to each question.
struct User {
    answer: Value,
    asked: Arc<Mutex<Value>>,
}

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
            .with_elicitation(ElicitationCapability::form_and_url())
            .with_sampling(SamplingCapability::new())
            .with_roots(RootsCapability::new())
    }

    fn relays(&self) -> bool {
        true
    }

    fn request(&self, question: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        let params = question.raw_params().map_or("null", |params| params.get());
        *self.asked.lock().unwrap() = serde_json::from_str(params).unwrap();
        // The server receives the newest report that waits, and the last report of each answer.
        for step in 0..REPORTS {
            question.forward_progress(ProgressParams::new(0, f64::from(step) / 1000.0));
        }
        question.forward_progress(progress());
        Box::pin(async { Ok(self.answer.clone()) })
    }
}

/// The reports before the last report: more than a queue has capacity for.
const REPORTS: u32 = 400;

fn progress() -> ProgressParams {
    let notice = json!({ "progressToken": 0, "progress": 0.5, "total": 1, "message": "half", "later": 1, "_meta": { "com.example/c": 4 } });
    serde_json::from_value(notice).unwrap()
}

#[tokio::test]
async fn questions_progress_and_answers_pass_unchanged() {
    let properties = json!({ "name": { "type": "string", "default": "Ada" }, "n": { "type": "integer" } });
    let schema = json!({ "type": "object", "properties": properties, "required": ["n"], "later": 1 });
    let message = json!({ "role": "user", "content": { "type": "text", "text": "Hello", "later": 2 }, "later": 3 });
    let meta = json!({ "com.example/a": 1 });
    for (method, question, answer) in [
        (
            "elicitation/create",
            json!({ "message": "?", "requestedSchema": schema, "later": [1.5], "_meta": meta }),
            // The server decides about an answer that does not fit the form.
            json!({ "action": "accept", "content": { "n": "one" }, "later": 4, "_meta": { "com.example/b": 2 } }),
        ),
        (
            "elicitation/create",
            json!({ "mode": "url", "message": "?", "url": "https://a.example/", "later": 5 }),
            json!({ "action": "decline", "later": 6 }),
        ),
        (
            "sampling/createMessage",
            json!({ "messages": [message], "maxTokens": 1, "later": 7, "_meta": meta }),
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Hi", "later": 8 }, "later": 9 }),
        ),
        (
            "roots/list",
            json!({ "_meta": meta }),
            json!({ "roots": [{ "uri": "file:///a", "later": 1 }], "later": 2, "_meta": { "com.example/b": 3 } }),
        ),
    ] {
        for down in REVISIONS {
            let received = Progress::default();
            let source = Asking(Arc::clone(&received));
            let server = Server::builder::<()>("s", "1").versions([REVISIONS[0]]).source(source).build();
            let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([down]).build();
            let asked = Arc::new(Mutex::new(Value::Null));
            let user = User { answer: answer.clone(), asked: Arc::clone(&asked) };
            let user = client().handler(user).connect(&gateway).await.unwrap();
            let arguments = JsonObject::new().with("method", method).with("params", question.clone());
            let call = user.call_tool("s__ask", arguments);
            let result = timeout(SOON, call.into_future()).await.unwrap().unwrap();
            assert_eq!(result.structured_content.as_ref(), Some(&answer), "{method} {down}");
            let mut seen = asked.lock().unwrap().clone();
            // Each page of a session has an id, also if the server names none.
            seen.as_object_mut().unwrap().shift_remove("elicitationId");
            // A question of a session has a token of the gateway. The revision 2026-07-28 has no progress of answers.
            let meta = seen.get_mut("_meta").and_then(Value::as_object_mut);
            let token = meta.and_then(|meta| meta.shift_remove("progressToken"));
            assert_eq!(seen, question, "{method} {down}");
            let reports = question.get("_meta").is_some() && down == REVISIONS[0];
            assert_eq!(token.is_some(), reports, "{method} {down}");
            let mut received = received.lock().unwrap().clone();
            for notice in &mut received {
                assert_ne!(Some(json!(notice.progress_token)), token, "the server receives its own token");
                notice.progress_token = progress().progress_token;
            }
            assert_eq!(received, vec![progress(); usize::from(reports)], "{method} {down}");
        }
    }
}

/// A server of 2026-07-28. Its call or its task asks with a token and an id that it chose, or the error of its task has the id.
struct Choosing {
    kind: Kind,
    is_answered: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Task,
    FailedTask,
}

impl Choosing {
    fn questions() -> Value {
        let page = json!({
            "mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "github/123",
            "_meta": { "progressToken": "server-17" },
        });
        let roots = json!({ "_meta": { "progressToken": "server-18", "com.example/a": 1 } });
        json!({
            "page": { "method": "elicitation/create", "params": page },
            "roots": { "method": "roots/list", "params": roots },
        })
    }

    /// Returns a state of the task with a further member.
    fn task(result_type: &str, status: &str, (name, value): (&str, Value)) -> SourceResult {
        let mut task = json!({
            "resultType": result_type, "taskId": "up-1", "status": status, "ttlMs": null, "pollIntervalMs": 20,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        });
        task[name] = value;
        Self::answer(&task)
    }

    fn answer(result: &Value) -> SourceResult {
        SourceResult::new(result.to_string(), REVISIONS[1])
    }
}

impl Source for Choosing {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"ask","inputSchema":{"type":"object"}}"#])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let params: Value = serde_json::from_str(call.params().get()).unwrap();
        let outcome = if self.kind != Kind::Call {
            SourceOutcome::Task(Self::task("task", "working", ("vendor", json!(1))))
        } else if params.get("inputResponses").is_some() {
            SourceOutcome::Complete(Self::answer(&json!({ "resultType": "complete", "content": [] })))
        } else {
            let asked = json!({ "resultType": "input_required", "inputRequests": Self::questions() });
            SourceOutcome::InputRequired(Self::answer(&asked))
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn get_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let state = match (self.kind, self.is_answered.load(Ordering::SeqCst)) {
            (Kind::FailedTask, _) => {
                let page = Self::questions()["page"]["params"].clone();
                let error = json!({ "code": -32042, "message": "visit", "data": { "elicitations": [page] } });
                Self::task("complete", "failed", ("error", error))
            }
            (_, true) => {
                let result = json!({ "resultType": "complete", "content": [] });
                Self::task("complete", "completed", ("result", result))
            }
            (_, false) => Self::task("complete", "input_required", ("inputRequests", Self::questions())),
        };
        Box::pin(std::future::ready(Ok(state)))
    }

    fn update_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.is_answered.store(true, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Self::answer(&json!({ "resultType": "complete" })))))
    }
}

/// Keeps the parameters of each question, with its method.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<HashMap<String, Value>>>);

impl Handler for Asked {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
            .with_elicitation(ElicitationCapability::form_and_url())
            .with_roots(RootsCapability::new())
    }

    fn relays(&self) -> bool {
        true
    }

    fn request(&self, question: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        let params = question.raw_params().map_or("null", |params| params.get());
        let params = serde_json::from_str(params).unwrap();
        self.0.lock().unwrap().insert(question.method().to_owned(), params);
        let is_page = question.method() == "elicitation/create";
        let answer = if is_page { json!({ "action": "decline" }) } else { json!({ "roots": [] }) };
        Box::pin(async { Ok(answer) })
    }
}

#[tokio::test]
async fn the_gateway_replaces_the_tokens_and_the_page_ids_of_a_modern_server_for_a_session() {
    for kind in [Kind::Call, Kind::Task, Kind::FailedTask] {
        let source = Choosing { kind, is_answered: AtomicBool::new(false) };
        let server = Server::builder::<()>("s", "1").versions([REVISIONS[1]]).source(source).build();
        let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([REVISIONS[0]]).build();
        let asked = Asked::default();
        let user = client().handler(asked.clone()).connect(&gateway).await.unwrap();
        if kind == Kind::Call {
            raw(&user, "tools/call", json!({ "name": "s__ask" })).await.unwrap();
        } else {
            let created = raw(&user, "tools/call", json!({ "name": "s__ask", "task": {} })).await.unwrap();
            let result = raw(&user, "tasks/result", json!({ "taskId": created["task"]["taskId"] })).await;
            if kind == Kind::FailedTask {
                let data = result.unwrap_err().data.unwrap();
                assert_eq!(data["elicitations"][0]["elicitationId"], "s/github/123", "{data}");
                continue;
            }
            result.unwrap();
        }
        let asked = asked.0.lock().unwrap();
        let (page, roots) = (&asked["elicitation/create"], &asked["roots/list"]);
        // The gateway gives each page of the session an id.
        let id = page["elicitationId"].as_str().unwrap();
        assert!(!id.contains("github") && page["_meta"].get("progressToken").is_none(), "{kind:?} {page}");
        let meta = &roots["_meta"];
        assert!(meta.get("progressToken").is_none() && meta["com.example/a"] == 1, "{kind:?} {roots}");
    }
}
