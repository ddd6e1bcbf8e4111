//! The members of questions and answers that the library does not know, through a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_client::{Handler, InputContext, RawRequest, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, ElicitationCapability, InputRequest, JsonObject, ProgressParams, RootsCapability, RpcError,
    SamplingCapability,
};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, client, complete, gateway, page};

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
