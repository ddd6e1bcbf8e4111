//! Input requests through a gateway: the rounds of their calls, and the servers and users of these tests.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, ServerOptions,
    filter::{ToolFilter, ToolOverride},
};
use mcp_client::{
    Client, Handler, InputContext, Reconnect, Round,
    transport::{BoxFuture, Connect},
};
use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitResult, ElicitationCapability,
    FormElicitParams, JsonObject, ProtocolVersion, Role, Root, RootsCapability, RpcError, SamplingCapability,
    SamplingMessage, UrlElicitParams, notification::ElicitationComplete,
};
use mcp_server::{
    inputs::StateKeys,
    prelude::*,
    source::{Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult},
    store::MemoryStore,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{Pipe, REVISIONS, SOON, cells, client, over_http};

pub(crate) const TOOLS: [&str; 4] = ["form", "url", "sample", "roots"];

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// Lets other tasks run, a number of times that differs between calls in a fixed order.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<AtomicU64>);

impl Turns {
    pub(crate) async fn pass(&self) {
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        for _ in 0..(mixed >> 59) {
            tokio::task::yield_now().await;
        }
    }
}

/// A server with a tool for each kind of question. A result is the answer of the user.
pub(crate) fn asking(version: ProtocolVersion, turns: &Turns) -> Server {
    let passing = turns.clone();
    let form = move |inputs: Inputs| {
        let turns = passing.clone();
        async move {
            turns.pass().await;
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            turns.pass().await;
            Ok::<_, ToolError>(name)
        }
    };
    Server::builder("asking", "1")
        .versions([version])
        .tool(tool("form", form))
        .tool(tool("url", async |inputs: Inputs| {
            inputs.elicit_url("page", "Please log in", "https://login.example/start").await?;
            Ok::<_, ToolError>("visited")
        }))
        .tool(tool("sample", async |inputs: Inputs| {
            let question = SamplingMessage::new(Role::User, "Your name?");
            let answer = inputs.sample("name", CreateMessageParams::new(vec![question], 10)).await?;
            Ok::<_, ToolError>(serde_json::to_value(&answer.content).unwrap().to_string())
        }))
        .tool(tool("roots", async |inputs: Inputs| {
            let roots = inputs.roots("roots").await?;
            Ok::<_, ToolError>(roots.into_iter().map(|root| root.uri).collect::<String>())
        }))
        .build()
}

/// Answers each question with the name of the user.
pub(crate) struct User {
    name: String,
    turns: Turns,
    /// Ends during the first question.
    kills: Mutex<Option<Pipe>>,
}

impl User {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), turns: Turns::default(), kills: Mutex::default() }
    }

    /// Sets the turns that other tasks have before each answer.
    pub(crate) fn turns(self, turns: &Turns) -> Self {
        Self { turns: turns.clone(), ..self }
    }
}

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
            .with_elicitation(ElicitationCapability::new().with_form().with_url())
            .with_sampling(SamplingCapability::default())
            .with_roots(RootsCapability::new())
    }

    fn elicit(&self, _: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async {
            self.turns.pass().await;
            if let Some(pipe) = self.kills.lock().unwrap().take() {
                pipe.kill();
            }
            Ok(ElicitResult::accept(JsonObject::new().with("name", &*self.name)))
        })
    }

    fn elicit_url(&self, page: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        assert_eq!(page.url, "https://login.example/start");
        assert_eq!(page.elicitation_id.is_some(), page.version().has_elicitation_complete());
        Box::pin(async {
            self.turns.pass().await;
            Ok(ElicitResult::accept(JsonObject::new()))
        })
    }

    fn sample(&self, _: InputContext<CreateMessageParams>) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        Box::pin(async {
            self.turns.pass().await;
            Ok(CreateMessageResult::new("model", &*self.name))
        })
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(async {
            self.turns.pass().await;
            Ok(vec![Root::new(format!("file:///{}", self.name))])
        })
    }
}

/// Starts a host with an asking server.
pub(crate) async fn host(version: ProtocolVersion, is_http: bool, turns: &Turns, options: ServerOptions) -> Host {
    let server = asking(version, turns);
    let connector: Arc<dyn Connect> = match is_http {
        true => Arc::new(mcp_client::http::Http::new(over_http(server).await).unwrap()),
        false => Arc::new(Pipe::new(server)),
    };
    Host::builder("gateway", "1").server_with("s", connector, options).start().await.unwrap()
}

/// Returns the text of the answer of `ada` to the question of a tool.
pub(crate) fn answer_of_ada(tool: &str) -> &'static str {
    match tool {
        "form" => "ada",
        "url" => "visited",
        "sample" => r#"{"type":"text","text":"ada"}"#,
        _ => "file:///ada",
    }
}

/// Connects a user to a gateway in memory.
pub(crate) async fn connect(gateway: &Server, name: &str) -> Client {
    client().handler(User::new(name)).connect(gateway).await.unwrap()
}

#[tokio::test]
async fn each_kind_of_question_reaches_the_user_in_each_cell() {
    let mut passed = 0;
    for (down, up) in cells() {
        for is_http in [true, false] {
            let host = host(up, is_http, &Turns::default(), ServerOptions::new()).await;
            let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
            let user = client().handler(User::new("ada")).connect(over_http(gateway).await).await.unwrap();
            assert_eq!(user.version(), down);
            for tool in TOOLS {
                let call = user.call_tool(format!("s__{tool}"), ());
                let result = timeout(SOON, call.into_future()).await.unwrap().unwrap();
                assert_eq!(result.text(), answer_of_ada(tool), "{tool}: {down} to {up}, over HTTP: {is_http}");
                passed += 1;
            }
        }
    }
    assert_eq!(passed, 32);
}

/// The parameters of the next round.
/// A filter changes the name, and a later round finds the tool by its name at the server.
#[tokio::test]
async fn a_renamed_tool_continues_after_its_question() {
    for (down, up) in cells() {
        let renamed = ToolFilter::new().change("form", ToolOverride::new().name("renamed"));
        let connector: Arc<dyn Connect> = Arc::new(Pipe::new(asking(up, &Turns::default())));
        let host = Host::builder("gateway", "1").server_with("s", connector, ServerOptions::new().filter(renamed));
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
        let ada = connect(&gateway, "ada").await;
        let called = timeout(SOON, ada.call_tool("s__renamed", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(called.text(), "ada", "{down} {up}");
    }
}

pub(crate) fn next(arguments: &Value, state: &str, key: &str, response: &Value) -> Value {
    json!({ "name": "s__form", "arguments": arguments, "requestState": state, "inputResponses": { key: response } })
}

/// Sends the first round of a call, and returns the key of its question and the state.
pub(crate) async fn first_round(user: &Client) -> (String, String) {
    asked(user, json!({ "name": "s__form", "arguments": {} })).await
}

/// Sends a round that ends with a question. Returns the key of the question and the state.
pub(crate) async fn asked(user: &Client, params: Value) -> (String, String) {
    let call =
        user.request_raw("tools/call", params).raw_result().capabilities(User::new("").capabilities()).raw_inputs();
    let Round::InputRequired(asked) = timeout(SOON, call.into_future()).await.unwrap().unwrap() else {
        panic!("the tool asks")
    };
    let result = asked.into_result();
    (result.input_requests.unwrap().keys().next().unwrap().clone(), result.request_state.unwrap())
}

/// Sends a round with these parameters, and returns the text of its result, or its error.
pub(crate) async fn send(user: &Client, params: Value) -> Result<String, RpcError> {
    let call =
        user.request_raw("tools/call", params).raw_result().capabilities(User::new("").capabilities()).raw_inputs();
    match timeout(SOON, call.into_future()).await.unwrap() {
        Ok(Round::Complete(result)) => {
            let result: Value = serde_json::from_slice(result.bytes()).unwrap();
            Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
        }
        Ok(Round::InputRequired(_)) => Ok("asks again".to_owned()),
        Ok(Round::Task(_)) => panic!("the call accepted no task"),
        Err(error) => Err(error.rpc().unwrap().clone()),
    }
}

pub(crate) fn reason(error: &RpcError) -> &str {
    error.data.as_ref().and_then(|data| data["reason"].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn a_state_does_not_lead_to_another_server_with_the_name() {
    let turns = Turns::default();
    let host = host(REVISIONS[1], false, &turns, ServerOptions::new()).await;
    let gateway = Gateway::builder(host.clone()).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().connect(&gateway).await.unwrap();
    let (key, state) = first_round(&user).await;
    let other = over_http(asking(REVISIONS[1], &turns)).await;
    host.remove("s").await;
    let other: Arc<dyn Connect> = Arc::new(mcp_client::http::Http::new(&other).unwrap());
    host.add("s", other, ServerOptions::new()).unwrap();
    let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
    assert_eq!(reason(&send(&user, round).await.unwrap_err()), "request_state_expired");
}

/// A stateless server that sends these input requests to each client.
struct Rude(&'static str);

impl Source for Rude {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let tool = r#"{"name":"form","inputSchema":{"type":"object"}}"#;
        let tools = (list == SourceList::Tools).then(|| SourceDefinition::new(tool).unwrap());
        Box::pin(std::future::ready(Ok(SourcePage::new(tools))))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let asked = format!(r#"{{"resultType":"input_required","inputRequests":{}}}"#, self.0);
        let result = SourceResult::new(asked, REVISIONS[1]);
        Box::pin(std::future::ready(Ok(SourceOutcome::InputRequired(result))))
    }
}

/// Calls the tool of a server with these input requests, and returns the input requests that the client receives.
async fn asked_by(requests: &'static str) -> Result<String, RpcError> {
    let upstream = Server::builder::<()>("rude", "1").versions([REVISIONS[1]]).source(Rude(requests)).build();
    let host = Host::builder("gateway", "1").server("s", &upstream).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().connect(&gateway).await.unwrap();
    let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form());
    let call = user.request_raw("tools/call", json!({ "name": "s__form", "arguments": {} })).raw_result();
    match timeout(SOON, call.capabilities(forms).raw_inputs().into_future()).await.unwrap() {
        Ok(Round::InputRequired(asked)) => Ok(String::from_utf8(asked.bytes().to_vec()).unwrap()),
        Ok(_) => panic!("the tool asks"),
        Err(error) => Err(error.rpc().unwrap().clone()),
    }
}

#[tokio::test]
async fn a_question_that_the_client_did_not_declare_is_an_error() {
    let error = asked_by(r#"{"k":{"method":"roots/list"}}"#).await.unwrap_err();
    assert_eq!(error.code.0, -32603);
    assert!(error.message.contains("did not declare"), "{error}");
}

#[tokio::test]
async fn the_client_reads_the_questions_that_the_gateway_checked() {
    const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"a","requestedSchema":{"type":"object","properties":{}}},"vendor":1.50}"#;
    let plain = format!(r#"{{"k":{FORM}}}"#).leak();
    assert!(asked_by(plain).await.unwrap().contains(&*plain));
    // Each name that occurs twice hides a request that the client did not declare.
    for hiding in [
        format!(r#"{{"k":{{"method":"roots/list"}},"k":{FORM}}}"#),
        format!(r#"{{"k":{{"method":"roots/list"}},"\u006b":{FORM}}}"#),
        plain.replace(r#"{"message""#, r#"{"mode":"url","mode":"form","message""#),
    ] {
        let received = asked_by(hiding.leak()).await.unwrap();
        assert!(!received.contains("roots/list") && !received.contains(r#""url""#), "{received}");
        assert!(received.contains(r#""method":"elicitation/create""#), "{received}");
    }
}

#[tokio::test]
async fn a_state_of_the_gateway_opens_on_each_node_but_a_parked_call_stays_on_its_own() {
    for up in REVISIONS {
        let node = |keys: StateKeys| async move {
            let host = host(up, false, &Turns::default(), ServerOptions::new()).await;
            let gateway = Gateway::builder(host).state_keys(keys).build().unwrap();
            client().connect(&gateway.versions([REVISIONS[1]]).build()).await.unwrap()
        };
        let (first, second) = (node(StateKeys::new([[1; 32]])).await, node(StateKeys::new([[1; 32]])).await);
        let stranger = node(StateKeys::new([[2; 32]])).await;
        let (key, state) = first_round(&first).await;
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        let round = || next(&json!({}), &state, &key, &answer);
        let foreign = send(&stranger, round()).await.unwrap_err();
        assert_eq!((foreign.code.0, reason(&foreign)), (-32602, "request_state_expired"), "{up}");
        let other = send(&first, next(&json!({ "x": 1 }), &state, &key, &answer)).await.unwrap_err();
        assert_eq!(reason(&other), "request_state_expired", "{up}");
        // The server rejects a response to an input request that it has not sent.
        let unasked = json!({ "name": "s__form", "arguments": {}, "inputResponses": { key.clone(): answer.clone() } });
        assert_eq!(send(&first, unasked).await.unwrap(), "asks again", "{up}");
        let elsewhere = send(&second, round()).await;
        if up.is_stateless() {
            // The servers of the nodes have keys of their own here, so the state of the server does not open.
            assert_eq!(reason(&elsewhere.unwrap_err()), "request_state_expired");
            assert_eq!(send(&first, round()).await.unwrap(), "ada");
        } else {
            let error = elsewhere.unwrap_err();
            assert_eq!((error.code.0, reason(&error)), (-32603, "other_node"));
            assert_eq!(error.data.as_ref().unwrap()["retryable"], true);
            let invalid = send(&first, next(&json!({}), &state, &key, &json!({ "action": 1 }))).await.unwrap_err();
            assert_eq!(invalid.code.0, -32602);
            assert_eq!(send(&first, round()).await.unwrap(), "ada");
            let (key, state) = first_round(&first).await;
            let again = next(&json!({}), &state, &key, &answer);
            assert_eq!(send(&first, again.clone()).await.unwrap(), "ada");
            assert_eq!(reason(&send(&first, again).await.unwrap_err()), "request_state_expired");
        }
    }
}

#[tokio::test]
async fn a_server_receives_the_responses_of_a_first_round() {
    async fn form(inputs: Inputs) -> Result<String, ToolError> {
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        Ok(name)
    }
    // The key of a question of a server with sessions is not known before the question.
    for (up, expected) in REVISIONS.into_iter().zip(["asks again", "ada"]) {
        let server = Server::builder("s", "1").versions([up]).accept_unsolicited_answers().tool(tool("form", form));
        let host = Host::builder("gateway", "1").server("s", &server.build()).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
        let user = client().connect(&gateway).await.unwrap();
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        let responses = json!({ "name": answer, "question-1": answer, "other": answer });
        let call = json!({ "name": "s__form", "arguments": {}, "inputResponses": responses });
        assert_eq!(send(&user, call).await.unwrap(), expected, "{up}");
    }
}

#[tokio::test]
async fn a_node_of_a_fleet_passes_a_round_to_the_node_of_the_parked_call() {
    let store = Arc::new(MemoryStore::new());
    let node = || async {
        let host = host(REVISIONS[0], false, &Turns::default(), ServerOptions::new()).await;
        let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]])).build().unwrap();
        let gateway = gateway.store(store.clone()).versions([REVISIONS[1]]).build();
        (client().connect(&gateway).await.unwrap(), gateway)
    };
    let ((first, _first), (second, _second)) = (node().await, node().await);
    for _ in 0..3 {
        let (key, state) = first_round(&first).await;
        // A round without responses shows the question again.
        let without = json!({ "name": "s__form", "arguments": {}, "requestState": state });
        assert_eq!(send(&second, without).await.unwrap(), "asks again");
        let invalid = next(&json!({}), &state, &key, &json!({ "action": 1 }));
        assert_eq!(send(&second, invalid).await.unwrap_err().code.0, -32602);
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        let round = next(&json!({}), &state, &key, &answer);
        // The client repeats a round whose reply it did not receive.
        for node in [&second, &second, &first] {
            assert_eq!(send(node, round.clone()).await.unwrap(), "ada");
        }
        // The call has ended on all nodes.
        for node in [&first, &second] {
            assert_eq!(reason(&send(node, round.clone()).await.unwrap_err()), "request_state_expired");
        }
    }
}

/// Checks the error of a tool that asks a client without the capability.
pub(crate) fn assert_not_asked(
    result: Result<&mcp_client::ToolResult, &mcp_client::Error>,
    up: ProtocolVersion,
    tool: &str,
) {
    let error = result.unwrap_err().rpc().unwrap();
    assert_eq!(error.code.0, -32021, "{tool} at {up}: {error}");
}

#[tokio::test]
async fn a_server_does_not_ask_a_client_without_capabilities() {
    for (down, up) in cells() {
        let host = host(up, false, &Turns::default(), ServerOptions::new()).await;
        let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
        let plain = client().connect(&gateway).await.unwrap();
        for tool in TOOLS {
            let result = timeout(SOON, plain.call_tool(format!("s__{tool}"), ()).into_future()).await.unwrap();
            assert_not_asked(result.as_ref(), up, tool);
        }
    }
}

#[tokio::test]
async fn progress_of_a_parked_call_reaches_each_round_that_wants_it() {
    let steps = async |inputs: Inputs, progress: Progress| {
        progress.report(1, 2, "before").await;
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        progress.report(2, 2, "after").await;
        Ok::<_, ToolError>(name)
    };
    // A client requests the progress of each call of a tool, and that of a prompt only for a callback.
    let server = Server::builder("s", "1").versions([REVISIONS[0]]).prompt(prompt("steps", steps)).build();
    let host = Host::builder("gateway", "1").server("s", &server).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().handler(User::new("ada")).connect(&gateway).await.unwrap();
    for (wants, expected) in [
        ([true, true], &["before", "after"][..]),
        ([false, true], &["after"]),
        ([true, false], &["before"]),
        ([false, false], &[]),
    ] {
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let send = async |params: Value, wants_progress: bool| {
            let call = user.request_raw("prompts/get", params).raw_result().capabilities(User::new("").capabilities());
            let sender = sender.clone();
            let call = match wants_progress {
                true => call.on_progress(move |notice| sender.send(notice.message.unwrap_or_default()).unwrap()),
                false => call,
            };
            timeout(SOON, call.raw_inputs().into_future()).await.unwrap().unwrap()
        };
        let first = json!({ "name": "s__steps", "arguments": {} });
        let Round::InputRequired(asked) = send(first.clone(), wants[0]).await else { panic!("the prompt asks") };
        let asked = asked.into_result();
        let key = asked.input_requests.unwrap().keys().next().unwrap().clone();
        let mut second = first;
        second["requestState"] = json!(asked.request_state);
        second["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": "ada" } } });
        assert!(matches!(send(second, wants[1]).await, Round::Complete(_)), "{wants:?}");
        let messages: Vec<String> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
        assert_eq!(messages, expected, "{wants:?}");
    }
}

#[tokio::test]
async fn the_completion_of_a_page_reaches_the_session_of_its_call() {
    let visit = async |inputs: Inputs| {
        inputs.elicit_page("page", "Please log in", "https://login.example/start", "page-7").await?;
        Ok::<_, ToolError>("agreed")
    };
    for is_http in [true, false] {
        let server = Server::builder("s", "1").versions([REVISIONS[0]]).tool(tool("visit", visit)).build();
        let connector: Arc<dyn Connect> = match is_http {
            true => Arc::new(mcp_client::http::Http::new(over_http(server.clone()).await).unwrap()),
            false => Arc::new(Pipe::new(server.clone())),
        };
        let host =
            Host::builder("gateway", "1").server_with("s", connector, ServerOptions::new()).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[0]]).build();
        let (ada, grace) = (connect(&gateway, "ada").await, connect(&gateway, "grace").await);
        let (mut of_ada, mut of_grace) = (ada.notifications(), grace.notifications());
        let visited = timeout(SOON, ada.call_tool("s__visit", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(visited.text(), "agreed");
        // The user is done after the end of the call. Another server cannot complete the page, and another page has no effect.
        gateway.notify().elicitation_complete("page-7");
        server.notify().elicitation_complete("page-8");
        server.notify().elicitation_complete("page-7");
        let notice = timeout(SOON, of_ada.next()).await.unwrap().unwrap();
        assert_eq!(notice.method(), "notifications/elicitation/complete");
        assert_eq!(notice.params::<ElicitationComplete>().unwrap().unwrap().elicitation_id, "s/page-7");
        gateway.notify().log(LoggingLevel::Error, "last");
        assert_eq!(timeout(SOON, of_grace.next()).await.unwrap().unwrap().method(), "notifications/message");
        assert_eq!(timeout(SOON, of_ada.next()).await.unwrap().unwrap().method(), "notifications/message");
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_server_that_dies_during_a_question_fails_this_call_alone() {
    for (down, up) in cells() {
        let (server, healthy) = (asking(up, &Turns::default()), asking(up, &Turns::default()));
        let pipe = Pipe::new(server);
        let connector: Arc<dyn Connect> = Arc::new(pipe.clone());
        let host = Host::builder("gateway", "1")
            .reconnect(Reconnect::default().first(Duration::from_millis(1)))
            .server_with("s", connector, ServerOptions::new())
            .server("healthy", &healthy)
            .start()
            .await
            .unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
        let user = client().handler(User { kills: Mutex::new(Some(pipe)), ..User::new("ada") });
        let user = user.connect(&gateway).await.unwrap();
        let call = |name: &str| timeout(SOON, user.call_tool(name, ()).into_future());
        let (killed, other) = tokio::join!(call("s__form"), call("healthy__roots"));
        assert_eq!(other.unwrap().unwrap().text(), "file:///ada", "{down} to {up}");
        match killed.unwrap() {
            // The next round of a stateless call needs no process that remembers the first one.
            Ok(result) => assert_eq!((result.text(), up.is_stateless()), ("ada".to_owned(), true), "{down} to {up}"),
            Err(error) => assert_eq!(error.rpc().map(|error| error.code.0), Some(-32603), "{down} to {up}"),
        }
        let next = timeout(SOON, async {
            loop {
                match call("s__form").await.unwrap() {
                    Ok(result) => return result.text(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        assert_eq!(next.await.unwrap(), "ada", "{down} to {up}");
    }
}
