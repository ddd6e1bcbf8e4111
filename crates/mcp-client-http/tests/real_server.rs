//! A client against a real server over a socket, in both eras.

use mcp_client_http::Http;
use mcp_server_core::{Args, Context, Progress, Server, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer};
use mcp_transport::Route;
use serde::Deserialize;
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc::UnboundedSender, task::JoinHandle};

use crate::common::{LEGACY, MODERN, Peer, request_with, within};

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    #[schemars(extend("x-mcp-header" = "Text"))]
    text: String,
}

fn server() -> Server {
    Server::builder("test", "1.0")
        .tool(tool("echo", async |Args(Echo { text }): Args<Echo>| text))
        .tool(tool("progress", async |progress: Progress| {
            progress.report(1.0, Some(2.0), "half").await;
            "done"
        }))
        .resource(resource("a://ü", async || "text"))
        .build()
}

async fn serve(server: &Server) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = server.clone();
    let serving = tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await.unwrap() });
    (url, serving)
}

/// The parameters of a call, with the metadata of the era.
fn call(version: &str, name: &str, arguments: serde_json::Value) -> serde_json::Value {
    let mut params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "p" } });
    if version == MODERN {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    params
}

#[tokio::test]
async fn serves_both_eras() {
    let (url, serving) = serve(&server()).await;
    for version in [MODERN, LEGACY, "2025-06-18", "2025-03-26"] {
        let mut peer = Peer::connect(&url).await;
        if version != MODERN {
            peer.request(version, 0, "initialize").await;
            assert_eq!(peer.next().await.unwrap().1["result"]["protocolVersion"], version);
            peer.notify(version, "notifications/initialized").await;
        }
        let mut frame = request_with(version, 1, "tools/call", call(version, "echo", json!({ "text": " ü\n" })));
        frame.hints.params = vec![("Text".into(), " ü\n".into())];
        peer.send(frame).await;
        let (route, answer) = peer.next().await.unwrap();
        assert_eq!(route, Route::Request(1.into()));
        assert_eq!(answer["result"]["content"][0]["text"], " ü\n", "{version}: {answer}");

        peer.send(request_with(version, 2, "tools/call", call(version, "progress", json!({})))).await;
        let (route, progress) = peer.next().await.unwrap();
        assert_eq!((route, &progress["params"]["progress"]), (Route::Request(2.into()), &json!(1)), "{progress}");
        let (route, answer) = peer.next().await.unwrap();
        assert_eq!((route, &answer["result"]["content"][0]["text"]), (Route::Request(2.into()), &json!("done")));

        let mut read = request_with(version, 4, "resources/read", call(version, "", json!({})));
        let mut message: serde_json::Value = serde_json::from_slice(&read.message).unwrap();
        message["params"]["uri"] = json!("a://ü");
        read.message = message.to_string().into();
        read.hints.name = Some("a://ü".into());
        peer.send(read).await;
        assert_eq!(peer.next().await.unwrap().1["result"]["contents"][0]["text"], "text", "{version}");

        peer.request(version, 3, "no/such").await;
        let (route, answer) = peer.next().await.unwrap();
        assert_eq!((route, &answer["error"]["code"]), (Route::Request(3.into()), &json!(-32601)));

        within("the end", peer.sender().shutdown()).await.unwrap();
        peer.ended().await;
    }
    serving.abort();
}

#[tokio::test]
async fn the_first_revision_uses_http_sse() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let config = HttpConfig::new().sse("/sse", "/messages");
    let server = server();
    let serving = tokio::spawn(async move { server.serve_http_on(listener, config).await.unwrap() });
    let version = "2024-11-05";
    for http in [Http::new(&url).unwrap(), Http::sse(&url).unwrap()] {
        let mut peer = Peer::open(&http).await;
        peer.request(version, 0, "initialize").await;
        let (route, answer) = peer.next().await.unwrap();
        assert_eq!((route, &answer["result"]["protocolVersion"]), (Route::Connection, &json!(version)), "{answer}");
        peer.notify(version, "notifications/initialized").await;
        peer.send(request_with(version, 1, "tools/call", call(version, "progress", json!({})))).await;
        assert_eq!(peer.next().await.unwrap().1["method"], "notifications/progress");
        assert_eq!(peer.next().await.unwrap().1["result"]["content"][0]["text"], "done");
        within("the end", peer.sender().shutdown()).await.unwrap();
        peer.ended().await;
    }
    serving.abort();
}

#[tokio::test]
async fn receives_list_changes_of_a_session() {
    let server = server();
    let (url, serving) = serve(&server).await;
    let mut peer = Peer::in_session(&url).await;
    // The response shows that the server has processed `notifications/initialized`. The state of the stream does not
    // matter.
    peer.request(LEGACY, 1, "tools/list").await;
    peer.next().await.unwrap();
    server.notify().tools_changed();
    let (route, notice) = peer.next().await.unwrap();
    assert_eq!((route, &notice["method"]), (Route::Connection, &json!("notifications/tools/list_changed")));
    serving.abort();
}

#[tokio::test]
async fn closing_a_stateless_request_cancels_it() {
    struct Ends(UnboundedSender<&'static str>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.send("ended").unwrap();
        }
    }
    let (ended, mut ended_calls) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::builder("test", "1.0")
        .tool(tool("forever", move |context: Context| {
            let ends = Ends(ended.clone());
            async move {
                ends.0.send("begun").unwrap();
                context.cancelled().await;
                "never"
            }
        }))
        .build();
    let (url, serving) = serve(&server).await;
    let mut peer = Peer::connect(&url).await;
    peer.send(request_with(MODERN, 1, "tools/call", call(MODERN, "forever", json!({})))).await;
    assert_eq!(within("the call", ended_calls.recv()).await, Some("begun"));
    peer.sender().close(&1.into());
    assert_eq!(within("the end of the call", ended_calls.recv()).await, Some("ended"));
    peer.request(MODERN, 2, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(2.into()));
    serving.abort();
}
