//! A source that relays the calls of a server to another server. It joins the interfaces of clients and servers for relays.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_client::{
    Client, Handler, InputContext, Round,
    protocol::{
        ClientCapabilities, ElicitParams, ElicitResult, ElicitationCapability, FormElicitParams, InputRequest,
        JsonObject, ProtocolVersion, RpcError,
    },
    transport::BoxFuture,
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::{net::TcpListener, time::timeout};

use crate::{common::builder, raw_inputs::ask};

const SOON: Duration = Duration::from_secs(20);
const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// Serves one tool with members that the library does not know, and relays its calls to the upstream server.
struct Relay {
    upstream: Client,
}

impl Source for Relay {
    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let params = call.cursor().map_or_else(JsonObject::new, |cursor| JsonObject::new().with("cursor", cursor));
        Box::pin(async move {
            let listed =
                self.upstream.request_raw(list.method(), params).raw_result().await.map_err(|error| failed(&error))?;
            SourcePage::read(list, listed.bytes()).map_err(|error| RpcError::internal(error.to_string()))
        })
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let mut params: Value = serde_json::from_str(call.params().get()).unwrap();
            let members = params.as_object_mut().unwrap();
            let (responses, state) = (members.remove("inputResponses"), members.remove("requestState"));
            members.remove("_meta");
            let (sender, mut progress) = tokio::sync::mpsc::unbounded_channel();
            let mut upstream = self
                .upstream
                .request_raw(call.method(), to_raw_value(&params).unwrap())
                .raw_result()
                .answers(Arc::new(Downstream(call.clone())))
                .capabilities(call.context().client_capabilities().clone())
                .on_progress(move |notice| drop(sender.send(notice)))
                .raw_inputs();
            if responses.is_some() || state.is_some() {
                let responses = responses.and_then(JsonObject::from_value).unwrap_or_default();
                upstream = upstream.resume(responses, state.and_then(|state| state.as_str().map(str::to_owned)));
            }
            let relayed = async {
                while let Some(notice) = progress.recv().await {
                    call.context().progress().report(notice.progress, notice.total, notice.message.as_deref()).await;
                }
            };
            let (round, ()) = tokio::join!(upstream.into_future(), relayed);
            Ok(match round.map_err(|error| failed(&error))? {
                Round::Complete(result) => {
                    let version = result.version();
                    SourceOutcome::Complete(SourceResult::new(result.into_bytes(), version))
                }
                Round::InputRequired(asked) => {
                    let latest = ProtocolVersion::LATEST;
                    SourceOutcome::InputRequired(SourceResult::new(asked.bytes().clone(), latest))
                }
                Round::Task(_) => return Err(RpcError::internal("the call did not accept a task")),
            })
        })
    }
}

fn failed(error: &mcp_client::Error) -> RpcError {
    error.rpc().cloned().unwrap_or_else(|| RpcError::internal(error.to_string()))
}

/// Passes the questions of an upstream session to the client of the call.
struct Downstream(SourceCall);

impl Handler for Downstream {
    fn capabilities(&self) -> ClientCapabilities {
        self.0.context().client_capabilities().clone()
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async move {
            let request = InputRequest::elicit(&ElicitParams::Form(form.into_params())).unwrap();
            Ok(serde_json::from_value(self.0.ask(request).await?).unwrap())
        })
    }
}

/// A user with a name.
struct User(&'static str);

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", self.0))) })
    }
}

/// The upstream server.
fn upstream(version: ProtocolVersion) -> Server {
    Server::builder("upstream", "1")
        .versions([version])
        .tool(tool("ask", ask))
        .tool(tool("steps", async |progress: Progress| {
            progress.report(1, 2, "half").await;
            "done"
        }))
        .tool(tool("hold", async || std::future::pending::<String>().await))
        .build()
}

async fn over_http(server: Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await });
    format!("http://{address}/mcp")
}

/// Connects a user to a relay in front of the upstream server, each over HTTP or in memory.
async fn relayed(down: ProtocolVersion, up: ProtocolVersion, is_http: bool) -> Client {
    // The client of a session declares all that its users support.
    let relaying = builder().handler(User("the relay"));
    let upstream = match is_http {
        true => relaying.connect(over_http(upstream(up)).await).await.unwrap(),
        false => relaying.connect(&upstream(up)).await.unwrap(),
    };
    let relay = Server::builder::<()>("relay", "1").versions([down]).source(Relay { upstream }).build();
    match is_http {
        true => builder().handler(User("user")).connect(over_http(relay).await).await.unwrap(),
        false => builder().handler(User("user")).connect(&relay).await.unwrap(),
    }
}

#[tokio::test]
async fn questions_reach_the_user_through_a_relay() {
    for is_http in [true, false] {
        for (down, up) in [(REVISIONS[0], REVISIONS[0]), (REVISIONS[0], REVISIONS[1]), (REVISIONS[1], REVISIONS[1])] {
            let client = relayed(down, up, is_http).await;
            assert_eq!(client.version(), down);
            let answered = timeout(SOON, client.call_tool("ask", ()).into_future()).await.unwrap();
            assert_eq!(answered.unwrap().text(), "user", "{down} {up} {is_http}");
        }
        // The question of a session cannot reach a stateless client within the call, so it fails at once.
        let client = relayed(REVISIONS[1], REVISIONS[0], is_http).await;
        let refused = timeout(SOON, client.call_tool("ask", ()).into_future()).await.unwrap().unwrap();
        assert!(refused.is_error(), "{refused:?}");
    }
}

#[tokio::test]
async fn progress_and_cancellation_pass_a_relay() {
    for (down, up) in REVISIONS.into_iter().flat_map(|down| REVISIONS.map(|up| (down, up))) {
        let client = relayed(down, up, true).await;
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let call = client.call_tool("steps", ()).on_progress(move |notice| sender.send(notice.progress).unwrap());
        let result = timeout(SOON, call.into_future()).await.unwrap().unwrap();
        assert_eq!((result.text(), seen.recv().await), ("done".to_owned(), Some(1.0)), "{down} {up}");
        let cancelled = client.call_tool("hold", ()).cancelled_by(tokio::time::sleep(Duration::from_millis(20)));
        assert!(timeout(SOON, cancelled.into_future()).await.unwrap().unwrap_err().is_cancelled());
    }
}

/// A definition with members that the library does not know.
const TOOL: &str = r#"{"vendor":{"price":1.50},"name":"plain","inputSchema":{"type":"object"},"later":[1]}"#;

/// Serves one tool from JSON.
struct Plain;

impl Source for Plain {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let tools = (list == SourceList::Tools).then(|| SourceDefinition::new(TOOL).unwrap());
        Box::pin(std::future::ready(Ok(SourcePage::new(tools))))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = format!(r#"{{"content":[{{"type":"text","text":"{}"}}],"vendor":1.50}}"#, "a".repeat(1 << 20));
        let result = SourceResult::new(json, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }
}

#[tokio::test]
async fn unknown_members_pass_two_servers_in_each_revision() {
    for (down, up) in
        ProtocolVersion::ALL.iter().flat_map(|down| ProtocolVersion::ALL.iter().map(move |up| (*down, *up)))
    {
        let plain = Server::builder::<()>("plain", "1").versions([up]).source(Plain).build();
        let upstream = builder().connect(over_http(plain).await).await.unwrap();
        let relay = Server::builder::<()>("relay", "1").versions([down]).source(Relay { upstream }).build();
        let client = builder().connect(&relay).await.unwrap();
        assert_eq!(client.version(), down);
        let page = client.request_raw("tools/list", ()).raw_result().await.unwrap();
        let page = std::str::from_utf8(page.bytes()).unwrap().to_owned();
        assert!(page.contains(TOOL), "{down} {up} {page}");
        let result = client.call_tool("plain", ()).raw_result().await.unwrap();
        let raw: &RawValue = serde_json::from_slice(result.bytes()).unwrap();
        assert!(raw.get().contains(r#""vendor":1.50"#) && raw.get().len() > 1 << 20, "{down} {up}");
    }
}
