//! Calls: names, generations, arguments, limits, results, progress and input requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{CallError, Caller, Host, HostBuilder, ServerOptions};
use mcp_client::{CancellationToken, Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, CompleteParams, CompletionArgument, CompletionReference, ElicitResult, ElicitationCapability,
    FormElicitParams, JsonObject, ProgressParams, ProtocolVersion, RpcError,
};
use mcp_server::prelude::*;
use mcp_tool_format::{Options, Provider, render};
use serde_json::json;
use tokio::time::timeout;

use crate::common::{TEST_TIMEOUT, scripted, server, text};

fn builder() -> HostBuilder {
    Host::builder("test", "1")
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    text: String,
    #[serde(default)]
    limit: Option<u8>,
}

#[tokio::test]
async fn a_tool_has_a_display_name_and_a_provider_name() {
    let host = builder()
        .server("git.local", scripted(&["read file"]).on("tools/call", text("read")))
        .server("a", scripted(&["x:y"]).on("tools/call", text("x:y")))
        .start()
        .await
        .unwrap();
    let provider_name = host.catalog().tools()[0].provider_name().to_owned();
    for provider in [Provider::Anthropic, Provider::OpenAiChat, Provider::Gemini] {
        let catalog = host.catalog();
        let rendered = render(catalog.definitions(), &Options::new(provider));
        assert!(rendered.value.to_string().contains(&provider_name) && rendered.diagnostics.is_empty(), "{provider:?}");
    }
    assert!(provider_name.len() <= 64 && provider_name.starts_with("git_local__read_file_0"));
    for name in ["git.local:read file", &provider_name] {
        assert_eq!(host.call(name, ()).await.unwrap().tool(), "git.local:read file");
    }
    assert_eq!(host.call("a:x:y", ()).await.unwrap().text(), "x:y", "the name splits at the first colon");
    let unknown = host.call("a:x", ()).await.unwrap_err();
    let CallError::Unknown(unknown) = unknown else { panic!("{unknown}") };
    assert_eq!(unknown.known, ["a:x:y"], "the error lists the tools of the named server");
    let unknown = host.call("nothing", ()).await.unwrap_err();
    assert!(unknown.result().is_error && unknown.to_string().contains("git.local:read file"), "{unknown}");
}

#[tokio::test]
async fn a_call_for_an_older_generation_fails_if_its_tool_changed() {
    let changing = server("s", &["t", "other"]);
    let host = builder().server("s", &changing).start().await.unwrap();
    let seen = host.catalog().generation();
    assert!(changing.tools().remove("t"));
    let mut changes = host.catalog_changes();
    changes.wait_for(|catalog| catalog.tools().len() == 1).await.unwrap();
    let gone = host.call("s:t", ()).generation(seen).await.unwrap_err();
    assert!(matches!(&gone, CallError::Unknown(unknown) if unknown.known == ["s:other"]), "{gone}");
    let again = tool("t", async |Args(Search { text, .. }): Args<Search>| text);
    changing.tools().add(again).unwrap();
    changes.wait_for(|catalog| catalog.tools().len() == 2).await.unwrap();
    let arguments = json!({ "text": "x" });
    let changed = host.call("s:t", arguments.clone()).generation(seen).await.unwrap_err();
    assert!(matches!(changed, CallError::Changed { generation, .. } if generation == seen), "{changed}");
    assert_eq!(host.call("s:other", ()).generation(seen).await.unwrap().text(), "other");
    let now = host.catalog().generation();
    assert_eq!(host.call("s:t", arguments).generation(now).await.unwrap().text(), "x");
}

#[tokio::test]
async fn arguments_are_validated_before_the_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let searching = Server::builder("s", "1")
        .tool(tool("search", move |Args(Search { text, limit }): Args<Search>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { format!("{text} {limit:?}") }
        }))
        .build();
    let host = builder().server("s", &searching).start().await.unwrap();
    for (arguments, fault) in
        [(json!({}), "text"), (json!({ "text": 7 }), "/text"), (json!({ "text": null }), "/text"), (json!([]), "array")]
    {
        let error = host.call("s:search", arguments).await.unwrap_err();
        assert!(error.to_string().contains(fault) && error.result().is_error, "{error}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0, "the server received no invalid call");
    let result = host.call("s:search", json!({ "text": "a", "limit": null })).await.unwrap();
    assert_eq!(result.text(), "a None");
}

#[tokio::test]
async fn a_null_that_the_schema_rejects_is_removed() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "string" }, "b": { "type": ["string", "null"] } },
    });
    let listed = json!({ "tools": [{ "name": "t", "inputSchema": schema }] });
    let scripted = crate::common::without_tools()
        .on("tools/list", mcp_test::peer::Reply::result(listed))
        .on("tools/call", text("done"));
    let host = builder().server("s", scripted.clone()).start().await.unwrap();
    host.call("s:t", json!({ "a": null, "b": null, "c": null })).await.unwrap();
    assert_eq!(scripted.seen_of("tools/call")[0]["params"]["arguments"], json!({ "b": null, "c": null }));
}

#[tokio::test]
async fn a_time_limit_of_a_tool_replaces_that_of_its_server() {
    let silent = scripted(&["slow", "slower"]).on("tools/call", mcp_test::peer::Reply::silence());
    let options =
        ServerOptions::new().call_timeout(Duration::from_secs(3600)).tool_timeout("slow", Duration::from_millis(50));
    let host = builder().server_with("s", silent.clone(), options).start().await.unwrap();
    let error = timeout(TEST_TIMEOUT, host.call("s:slow", ()).into_future()).await.unwrap().unwrap_err();
    assert!(error.client().unwrap().is_timeout(), "{error}");
    let limited = host.call("s:slower", ()).timeout(Duration::from_millis(50));
    assert!(timeout(TEST_TIMEOUT, limited.into_future()).await.unwrap().unwrap_err().client().unwrap().is_timeout());
    // The server receives the cancellations.
    assert_eq!(silent.wait_for("notifications/cancelled", 2).await.len(), 2);
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_on_its_server() {
    let silent = scripted(&["t"]).on("tools/call", mcp_test::peer::Reply::silence());
    let host = builder().server("s", silent.clone()).start().await.unwrap();
    let token = CancellationToken::new();
    let call = tokio::spawn(host.call("s:t", ()).cancelled_by(token.clone().cancelled_owned()).into_future());
    silent.wait_for("tools/call", 1).await;
    token.cancel();
    let error = timeout(TEST_TIMEOUT, call).await.unwrap().unwrap().unwrap_err();
    assert!(error.client().unwrap().is_cancelled());
    silent.wait_for("notifications/cancelled", 1).await;
    let dropped = tokio::spawn(host.call("s:t", ()).into_future());
    silent.wait_for("tools/call", 2).await;
    dropped.abort();
    silent.wait_for("notifications/cancelled", 2).await;
}

#[tokio::test]
async fn the_rest_of_a_long_result_is_a_resource() {
    let flooding = scripted(&["flood"]).on("tools/call", mcp_test::peer::Reply::large(1 << 20));
    let host = builder().max_text(100_000).server("s", flooding).start().await.unwrap();
    let result = host.call("s:flood", ()).await.unwrap();
    assert!((100_000..100_200).contains(&result.text().len()), "{}", result.text().len());
    let mut read = 100_000;
    let mut uri = result.rest().map(str::to_owned);
    while let Some(next) = uri {
        let part = host.rest(&next).unwrap();
        let part = part.as_text().unwrap().to_owned();
        let (body, note) = part.split_once("\n[The text continues in the resource ").unwrap_or((&part, ""));
        read += body.len();
        uri = (!note.is_empty()).then(|| note.trim_end_matches(']').to_owned());
    }
    assert_eq!(read, 1 << 20);
}

/// Answers each form with its own name.
struct Named(&'static str);

impl Handler for Named {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, _: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", self.0))) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

fn asking(version: ProtocolVersion) -> Server {
    Server::builder("asking", "1")
        .versions([version])
        .tool(tool("ask", async |inputs: Inputs, progress: Progress| {
            progress.report(1.0, Some(2.0), "asking").await;
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }))
        .build()
}

#[tokio::test]
async fn input_requests_and_progress_belong_to_their_call() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let declared = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
        let host = builder().declare(declared).server("s", &asking(version)).start().await.unwrap();
        let progress = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&progress);
        let call = host.call("s:ask", ()).answers(Arc::new(Named("call"))).on_progress(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(timeout(TEST_TIMEOUT, call.into_future()).await.unwrap().unwrap().text(), "call", "{version}");
        assert!(progress.load(Ordering::Relaxed) > 0, "{version}");
        // Without a handler, the tool fails at once.
        let unanswered = timeout(TEST_TIMEOUT, host.call("s:ask", ()).into_future()).await.unwrap();
        assert!(unanswered.as_ref().map_or(true, |result| result.is_error), "{version} {unanswered:?}");

        let host = builder().handlers(|_| Arc::new(Named("host"))).server("s", &asking(version)).start().await.unwrap();
        assert_eq!(host.call("s:ask", ()).await.unwrap().text(), "host", "{version}");
        let own = host.call("s:ask", ()).answers(Arc::new(Named("own")));
        assert_eq!(own.await.unwrap().text(), "own", "{version}");
    }
}

#[tokio::test]
async fn resources_and_prompts_are_in_the_catalog() {
    let docs = Server::builder("docs", "1")
        .resource(resource("config://app", async || "dark"))
        .prompt(prompt("review", async || "Review it."))
        .build();
    let host = builder().server("docs", &docs).start().await.unwrap();
    let catalog = host.catalog();
    let uris: Vec<&str> = catalog.resources().iter().map(|resource| &*resource.item().uri).collect();
    assert_eq!(uris, ["config://app"]);
    let contents = host.read("docs", "config://app").await.unwrap();
    assert_eq!(contents.contents[0].as_text(), Some("dark"));
    assert_eq!(host.prompt("docs:review", ()).await.unwrap().messages.len(), 1);
    assert!(host.prompt("docs:other", ()).await.unwrap_err().to_string().contains("docs:review"));
    assert!(host.read("other", "config://app").await.unwrap_err().to_string().contains("docs"));
}

#[tokio::test]
async fn resources_and_prompts_have_progress_answers_and_limits_of_their_own() {
    let asking = Server::builder("asking", "1")
        .versions([ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28])
        .prompt(prompt("intro", async |inputs: Inputs, progress: Progress| {
            progress.report(1.0, Some(2.0), "asking").await;
            let Answer { name } = inputs.elicit("name", "Who?").await?;
            Ok::<_, ToolError>(format!("Introduce {name}"))
        }))
        .resource(resource("test://secret", async |inputs: Inputs, progress: Progress| {
            progress.report(1.0, Some(2.0), "asking").await;
            let Answer { name } = inputs.elicit("name", "Who?").await?;
            Ok::<_, ToolError>(format!("for {name}"))
        }))
        .build();
    let host = builder().server("s", &asking).start().await.unwrap();
    let caller = |name| Caller::new().principal(name).answers(Arc::new(Named(name)));
    let progress = Arc::new(AtomicUsize::new(0));
    let count = || {
        let progress = Arc::clone(&progress);
        move |_: ProgressParams| _ = progress.fetch_add(1, Ordering::Relaxed)
    };
    let prompt = host.prompt("s:intro", ()).caller(caller("ada")).on_progress(count()).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Introduce ada"));
    let of_bob = host.for_caller(caller("bob"));
    let read = of_bob.read("s", "test://secret").on_progress(count()).await.unwrap();
    assert_eq!(read.contents[0].as_text(), Some("for bob"));
    let own = of_bob.read("s", "test://secret").answers(Arc::new(Named("own"))).await.unwrap();
    assert_eq!(own.contents[0].as_text(), Some("for own"));
    assert!(progress.load(Ordering::Relaxed) >= 2);

    let silent = scripted(&["t"])
        .on("resources/read", mcp_test::peer::Reply::silence())
        .on("completion/complete", mcp_test::peer::Reply::silence());
    let host = builder().server("s", silent.clone()).start().await.unwrap();
    let limited = host.read("s", "a:b").timeout(Duration::from_millis(20));
    assert!(timeout(TEST_TIMEOUT, limited.into_future()).await.unwrap().unwrap_err().client().unwrap().is_timeout());
    let token = CancellationToken::new();
    let argument = CompletionArgument::new("a", "");
    let completing = host.complete("s", CompleteParams::new(CompletionReference::prompt("p"), argument));
    let completing = tokio::spawn(completing.cancelled_by(token.clone().cancelled_owned()).into_future());
    silent.wait_for("completion/complete", 1).await;
    token.cancel();
    let error = timeout(TEST_TIMEOUT, completing).await.unwrap().unwrap().unwrap_err();
    assert!(error.client().unwrap().is_cancelled(), "{error}");
}

#[tokio::test]
async fn arguments_of_prompts_are_completed() {
    let found = json!({ "completion": { "values": ["rust", "ruby"], "hasMore": false } });
    let upstream = scripted(&["t"]).on("completion/complete", mcp_test::peer::Reply::result(found));
    let host = builder().server("s", upstream.clone()).start().await.unwrap();
    let params =
        || CompleteParams::new(CompletionReference::prompt("review"), CompletionArgument::new("language", "ru"));
    assert_eq!(host.complete("s", params()).await.unwrap().completion.values, ["rust", "ruby"]);
    let sent = &upstream.seen_of("completion/complete")[0]["params"];
    assert_eq!(sent["ref"], json!({ "type": "ref/prompt", "name": "review" }));
    assert_eq!(sent["argument"], json!({ "name": "language", "value": "ru" }));
    assert!(host.complete("other", params()).await.unwrap_err().to_string().contains("the servers are: s"));
}

#[tokio::test]
async fn errors_for_models_use_the_form_of_the_name_of_the_call() {
    let searching = Server::builder("s", "1")
        .tool(tool("search", async |Args(Search { text, .. }): Args<Search>| text))
        .tool(tool("list", async || "x"))
        .build();
    let host = builder().server("s", &searching).start().await.unwrap();
    for (call, sibling) in [("s__search", "s__list"), ("s:search", "s:list")] {
        let invalid = host.call(call, json!({ "text": 7 })).await.unwrap_err().to_string();
        assert!(invalid.contains(&format!("the arguments of {call} ")), "{invalid}");
        let not_an_object = host.call(call, 7).await.unwrap_err().to_string();
        assert!(not_an_object.contains(call), "{not_an_object}");
        let unknown = host.call(call.replace("search", "serch"), ()).await.unwrap_err().to_string();
        assert!(unknown.ends_with(&format!("; the tools are: {call}, {sibling}")), "{unknown}");
    }
}
