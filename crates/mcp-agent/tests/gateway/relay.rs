//! Calls through a gateway, in all four cells.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::Names;
use mcp_protocol::{
    ErrorCode, LoggingLevel, LoggingMessageParams, Meta, ProgressParams, ProtocolVersion, RpcError, meta::keys,
};
use mcp_server::{
    prelude::*,
    source::{Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use tokio::{sync::mpsc, time::timeout};

use crate::common::{SOON, cells, client, complete, connect, gateway, page};

/// A definition with members that the library does not know.
const TOOL: &str =
    r#"{"vendor":{"price":1.50},"name":"plain","annotations":{"later":[1]},"inputSchema":{"type":"object"}}"#;

/// Serves one tool as JSON. Its result contains the parameters.
struct Plain;

impl Source for Plain {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let tools = (list == SourceList::Tools).then(|| SourceDefinition::new(TOOL).unwrap());
        Box::pin(std::future::ready(Ok(SourcePage::new(tools))))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = format!(r#"{{"content":[],"vendor":1.50,"params":{}}}"#, call.params());
        let result = SourceResult::new(json, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let contents = serde_json::json!([{ "uri": call.name(), "text": call.params().get() }]);
        let json = serde_json::json!({ "contents": contents, "ttlMs": 60_000, "cacheScope": "private" });
        let result = SourceResult::new(json.to_string(), ProtocolVersion::LATEST);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }
}

fn plain(version: ProtocolVersion) -> Server {
    Server::builder::<()>("plain", "1").versions([version]).source(Plain).build()
}

#[tokio::test]
async fn unknown_members_pass_with_raw_names_and_with_provider_names() {
    for (down, up) in cells() {
        for (names, name) in [(Names::Raw, "plain"), (Names::Provider, "s__plain")] {
            let client = connect(gateway(&[("s", &plain(up))]).await.names(names), down).await;
            let page = client.request_raw("tools/list", ()).raw_result().await.unwrap();
            let page = std::str::from_utf8(page.bytes()).unwrap().to_owned();
            assert!(page.contains(&TOOL.replace(r#""plain""#, &format!("{name:?}"))), "{down} {up} {page}");
            let call = client.call_tool(name, serde_json::json!({ "n": 1 })).raw_result();
            let result = call.meta(Meta::new().with("com.example/tenant", "t")).await.unwrap();
            let result = std::str::from_utf8(result.bytes()).unwrap().to_owned();
            assert!(result.contains(r#""vendor":1.50"#), "{result}");
            let params: serde_json::Value = serde_json::from_str(&result).unwrap();
            let params = &params["params"];
            assert_eq!(
                (params["name"].as_str(), &params["arguments"]),
                (Some("plain"), &serde_json::json!({ "n": 1 }))
            );
            assert_eq!(params["_meta"]["com.example/tenant"], "t");
            assert_eq!(params["_meta"]["mcp-gateway/hops"].as_array().map(Vec::len), Some(1), "{result}");
        }
    }
}

/// Sends notices with metadata and with members that the library does not know.
struct Notices;

impl Source for Notices {
    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"}}"#])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let meta = Meta::new().with("com.example/a", 1).with(keys::SUBSCRIPTION_ID, 7);
            let mut notice = ProgressParams::new(0, 1.0).with_meta(meta.clone());
            let mut record = LoggingMessageParams::new(LoggingLevel::Error, "x").with_meta(meta);
            for extra in [&mut notice.extra, &mut record.extra] {
                extra.insert("vendor".to_owned(), serde_json::json!({ "n": 1 }));
            }
            call.forward_progress(notice).await;
            call.forward_log(&record).await;
            complete(r#"{"content":[]}"#, call.context().version()).await
        })
    }
}

#[tokio::test]
async fn unknown_members_and_metadata_of_progress_and_log_records_pass() {
    for (down, up) in cells() {
        let server = Server::builder::<()>("s", "1").versions([up]).source(Notices).build();
        let client = connect(gateway(&[("s", &server)]).await, down).await;
        let mut notices = client.notifications();
        let call = client.call_tool("s__t", ()).log_level(LoggingLevel::Debug).on_progress(drop);
        timeout(SOON, call.into_future()).await.unwrap().unwrap();
        let mut methods = Vec::new();
        for _ in 0..2 {
            let notice = timeout(SOON, notices.next()).await.unwrap().unwrap();
            let params: serde_json::Value = notice.decode().unwrap();
            methods.push(notice.method().to_owned());
            assert_eq!(params["vendor"], serde_json::json!({ "n": 1 }), "{down} {up} {params}");
            assert_eq!(params["_meta"], serde_json::json!({ "com.example/a": 1 }), "{down} {up} {params}");
        }
        methods.sort();
        assert_eq!(methods, ["notifications/message", "notifications/progress"], "{down} {up}");
    }
}

#[tokio::test]
async fn a_client_does_not_receive_the_cached_result_of_another_client() {
    for (down, up) in cells() {
        let server = gateway(&[("s", &plain(up))]).await.build().unwrap().versions([down]).build();
        for tenant in ["a", "b"] {
            let client = client().connect(&server).await.unwrap();
            let read = client.request_raw("resources/read", serde_json::json!({ "uri": "mcp://s/x:1" })).raw_result();
            let result = read.meta(Meta::new().with("com.example/tenant", tenant)).await.unwrap();
            let result = std::str::from_utf8(result.bytes()).unwrap().to_owned();
            assert!(result.contains(&format!(r#"com.example/tenant\":\"{tenant}\"#)), "{down} {up} {result}");
        }
    }
}

#[tokio::test]
async fn progress_failed_results_and_errors_pass() {
    for (down, up) in cells() {
        let server = Server::builder("s", "1")
            .versions([up])
            .tool(tool("steps", async |progress: Progress| {
                for step in 1..=3 {
                    progress.report(step, 3, "step").await;
                }
                "done"
            }))
            .tool(tool("fails", async || Err::<String, _>(ToolError::new("it failed"))))
            .tool(tool("rejects", async || {
                Err::<String, _>(ToolError::protocol(RpcError::invalid_params("no").with_data(7.into())))
            }))
            .tool(tool("confuses", async || {
                Err::<String, _>(ToolError::protocol(RpcError::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "old")))
            }))
            .build();
        let client = connect(gateway(&[("s", &server)]).await, down).await;
        let (sender, mut seen) = mpsc::unbounded_channel();
        let call = client.call_tool("s__steps", ()).on_progress(move |notice| sender.send(notice.progress).unwrap());
        assert_eq!(timeout(SOON, call.into_future()).await.unwrap().unwrap().text(), "done");
        let mut steps = Vec::new();
        while let Ok(step) = seen.try_recv() {
            steps.push(step);
        }
        assert_eq!(steps, [1.0, 2.0, 3.0], "{down} {up}");
        let failed = client.call_tool("s__fails", ()).await.unwrap();
        assert!(failed.is_error() && failed.text().contains("it failed"), "{down} {up}");
        let error = client.call_tool("s__rejects", ()).await.unwrap_err();
        let error = error.rpc().unwrap();
        assert_eq!((error.code.0, &*error.message, &error.data), (-32602, "no", &Some(7.into())), "{down} {up}");
        let error = client.call_tool("s__confuses", ()).await.unwrap_err();
        let error = error.rpc().unwrap();
        assert_eq!((error.code.0, &error.data.as_ref().unwrap()["code"]), (-32603, &(-32022).into()), "{down} {up}");
        let error = client.call_tool("s__missing", ()).await.unwrap_err();
        assert_eq!(error.rpc().unwrap().code.0, -32602);
    }
}

/// Reports the end of a call.
struct Running(mpsc::UnboundedSender<()>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn cancelled_calls_are_cancelled_at_the_server() {
    for (down, up) in cells() {
        let ((started, mut starts), (ended, mut ends)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let server = Server::builder("s", "1")
            .versions([up])
            .tool(tool("hold", move || {
                let guard = Running(ended.clone());
                started.send(()).unwrap();
                async move {
                    let _guard = guard;
                    std::future::pending::<String>().await
                }
            }))
            .build();
        let client = connect(gateway(&[("s", &server)]).await, down).await;
        let begun = async move {
            starts.recv().await;
        };
        let call = client.call_tool("s__hold", ()).cancelled_by(begun);
        assert!(timeout(SOON, call.into_future()).await.unwrap().unwrap_err().is_cancelled());
        let ended = timeout(SOON, ends.recv()).await;
        assert_eq!(ended, Ok(Some(())), "{down} {up}");
    }
}

/// Answers each call with a result without its type.
struct Untyped(&'static str);

impl Source for Untyped {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Tools).then_some(r#"{"name":"t","inputSchema":{"type":"object"}}"#))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        complete(self.0, ProtocolVersion::LATEST)
    }
}

#[tokio::test]
async fn a_result_without_its_type_receives_it() {
    for (result, expected) in [
        ("{}", r#"{"resultType":"complete"}"#),
        (r#"{"content":[]}"#, r#"{"resultType":"complete","content":[]}"#),
        (
            r#"{"content":[],"structuredContent":{"resultType":1}}"#,
            r#"{"resultType":"complete","content":[],"structuredContent":{"resultType":1}}"#,
        ),
        (r#"{"content":[],"resultType":"complete"}"#, r#"{"content":[],"resultType":"complete"}"#),
    ] {
        let server = Server::builder::<()>("s", "1").source(Untyped(result)).build();
        let client = connect(gateway(&[("s", &server)]).await, ProtocolVersion::LATEST).await;
        let called = timeout(SOON, client.call_tool("s__t", ()).raw_result().into_future()).await.unwrap().unwrap();
        assert_eq!(std::str::from_utf8(called.bytes()).unwrap(), expected);
    }
}
