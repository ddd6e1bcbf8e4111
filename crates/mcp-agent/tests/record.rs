//! Recordings of runs, and their replay without servers.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::record::{Recorder, Recording};
use mcp_client::{
    Client, ClientBuilder,
    http::Http,
    protocol::{ElicitResult, JsonObject, ProtocolVersion},
    transport::{Connect, Frame, Transport, recv},
};
use mcp_server::{Server, http::HttpConfig, prelude::*};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[derive(Deserialize, JsonSchema)]
struct Order {
    what: String,
}

#[derive(Deserialize, JsonSchema)]
struct Size {
    size: String,
}

async fn order(inputs: Inputs, Args(Order { what }): Args<Order>) -> Result<String, ToolError> {
    let Size { size } = inputs.elicit("size", format!("How large is the {what}?")).await?;
    Ok(format!("{what}, {size}"))
}

async fn count(progress: Progress, Args(Order { what }): Args<Order>) -> String {
    progress.report(1, None, None::<&str>).await;
    format!("one {what}")
}

/// Returns a server whose calls are counted.
fn shop(calls: &Arc<AtomicUsize>) -> Server {
    let calls = calls.clone();
    let failing = tool("fail", move || {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        async move { Err::<String, _>(ToolError::new(format!("failure {number}"))) }
    });
    Server::builder("shop", "1.0").tool(tool("order", order)).tool(tool("count", count)).tool(failing).build()
}

fn host(era: ProtocolVersion, size: &'static str) -> ClientBuilder {
    Client::builder("host", "1.0")
        .versions([era])
        .on_elicit(move |_| async move { Ok(ElicitResult::accept(JsonObject::new().with("size", size))) })
}

fn file(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mcp-agent-record-{name}-{}.jsonl", process::id()))
}

fn what(what: &str) -> JsonObject {
    JsonObject::new().with("what", what)
}

/// Runs a host with one server, and returns its results.
async fn run(builder: ClientBuilder, connector: impl Connect) -> Vec<String> {
    let client = builder.connect(connector).await.unwrap();
    let mut results: Vec<String> = client.list_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = reports.clone();
    let call = client.call_tool("count", what("cup"));
    let call = call.on_progress(move |report| seen.lock().unwrap().push(format!("progress {}", report.progress)));
    results.push(call.await.unwrap().text());
    results.extend(reports.lock().unwrap().drain(..));
    results.push(client.call_tool("order", what("cup")).await.unwrap().text());
    // Equal calls have their results in the recorded order.
    for _ in 0..2 {
        results.push(client.call_tool("fail", ()).await.unwrap().text());
    }
    results.push(client.call_tool("missing", ()).await.unwrap_err().to_string());
    client.close().await;
    results
}

#[tokio::test]
async fn a_run_replays_without_servers() {
    for era in ERAS {
        let path = file(&format!("run-{era}"));
        let calls = Arc::default();
        let recorder = Recorder::create(&path).unwrap();
        let first = run(host(era, "small"), recorder.connector("shop", shop(&calls))).await;
        let second = run(host(era, "large"), recorder.connector("other", shop(&calls))).await;
        recorder.finish().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 4);
        assert!(first.iter().any(|text| text == "cup, small"), "{first:?}");
        assert!(first.iter().any(|text| text.contains("progress 1")), "{first:?}");

        // The servers do not run now. The order of the servers is another one.
        let recording = Recording::load(&path).unwrap();
        assert_eq!(recording.servers(), ["other", "shop"]);
        assert_eq!(run(host(era, "large"), recording.connector("other")).await, second, "{era}");
        assert_eq!(run(host(era, "small"), recording.connector("shop")).await, first, "{era}");
        assert_eq!(calls.load(Ordering::Relaxed), 4);
        assert_eq!((recording.differences(), recording.missing()), (vec![], vec![]), "{era}");
        assert!(!recording.is_truncated() && recording.servers().is_empty());
        // A third connection was not recorded.
        let error = host(era, "small").connect(recording.connector("shop")).await.unwrap_err();
        assert!(format!("{error:?}").contains("no further connection"), "{error:?}");
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn a_replay_reports_other_requests_and_other_answers() {
    for era in ERAS {
        let path = file(&format!("differences-{era}"));
        let recorder = Recorder::create(&path).unwrap();
        run(host(era, "small"), recorder.connector("shop", shop(&Arc::default()))).await;
        recorder.finish().unwrap();

        let recording = Recording::load(&path).unwrap();
        let client = host(era, "huge").connect(recording.connector("shop")).await.unwrap();
        client.list_tools().await.unwrap();
        let error = client.call_tool("count", what("plate")).await.unwrap_err();
        assert!(error.to_string().contains("the recording has no further request"), "{error}");
        let answer = client.call_tool("order", what("cup")).await;
        client.close().await;

        let differences = recording.differences();
        assert_eq!((differences.len(), differences[0].server.as_str()), (2, "shop"), "{differences:?}");
        assert_eq!(differences[0].method, "tools/call");
        assert!(differences[0].text.contains("plate"), "{differences:?}");
        assert!(differences[1].text.contains("huge"), "{differences:?}");
        if era == ProtocolVersion::V2025_11_25 {
            // The answer is a message of its own, so the recorded result follows it.
            assert_eq!(answer.unwrap().text(), "cup, small");
            assert_eq!(differences[1].method, "elicitation/create");
        } else {
            // The answer is a part of the next request, so there is no recorded result.
            assert!(answer.is_err());
        }
        let missing = recording.missing();
        assert!(missing.iter().any(|request| request.text.contains("\"name\":\"fail\"")), "{missing:?}");
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn concurrent_calls_replay_in_any_order() {
    for era in ERAS {
        let path = file(&format!("order-{era}"));
        let recorder = Recorder::create(&path).unwrap();
        let client = host(era, "small").connect(recorder.connector("shop", shop(&Arc::default()))).await.unwrap();
        let (a, b, c) = tokio::join!(
            client.call_tool("count", what("a")),
            client.call_tool("order", what("b")),
            client.call_tool("count", what("c"))
        );
        let recorded = [a, b, c].map(|result| result.unwrap().text());
        client.close().await;
        recorder.finish().unwrap();

        let recording = Recording::load(&path).unwrap();
        let client = host(era, "small").connect(recording.connector("shop")).await.unwrap();
        let mut replayed = Vec::new();
        for (tool, argument) in [("count", "c"), ("order", "b"), ("count", "a")] {
            let call = client.call_tool(tool, what(argument));
            let result = tokio::time::timeout(Duration::from_secs(20), call).await;
            replayed.insert(0, result.unwrap().unwrap().text());
        }
        assert_eq!(replayed, recorded, "{era}");
        assert_eq!((recording.differences(), recording.missing()), (vec![], vec![]));
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn a_recording_has_a_limit_and_survives_an_interrupted_write() {
    let path = file("limit");
    let recorder = Recorder::create(&path).unwrap().max_bytes(2_000);
    run(host(ERAS[0], "small"), recorder.connector("shop", shop(&Arc::default()))).await;
    recorder.finish().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 2_200);
    assert!(Recording::load(&path).unwrap().is_truncated());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = fs::read_to_string(&path).unwrap();
    let cut = text.lines().take(3).collect::<Vec<_>>().join("\n");
    assert!(Recording::parse(&cut[..cut.len() - 4]).unwrap().is_truncated());
    assert_eq!(Recording::parse(&format!("{}\n", &cut[..cut.len() - 4])).unwrap_err().line(), Some(3));
    fs::remove_file(path).unwrap();
}

#[test]
fn faulty_lines_are_named() {
    const HEAD: &str = "{\"format\":\"mcp-recording\",\"version\":1}\n";
    for (text, line, expected) in [
        (String::new(), 1, "the file is empty"),
        ("{}\n".to_owned(), 1, "not the head of a recording"),
        (HEAD.replace('1', "2"), 1, "expected mcp-recording version 1"),
        (format!("{HEAD}x\n"), 2, "expected value"),
        (format!("{HEAD}{{\"connection\":1,\"at\":0,\"event\":\"opened\"}}\n"), 2, "no `server`"),
        (format!("{HEAD}{{\"connection\":1,\"at\":0,\"event\":\"ended\"}}\n"), 2, "was not opened before"),
        (format!("{HEAD}{{\"connection\":1,\"at\":0,\"event\":\"other\"}}\n"), 2, "unknown variant `other`"),
    ] {
        let error = Recording::parse(&text).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(Recording::load("missing.jsonl").unwrap_err().to_string().starts_with("missing.jsonl: "));
}

#[tokio::test]
async fn a_run_over_http_replays_with_the_streams_of_its_requests() {
    for era in ERAS {
        let path = file(&format!("http-{era}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = shop(&Arc::default());
        let serving = tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await });
        let recorder = Recorder::create(&path).unwrap();
        let recorded = run(host(era, "small"), recorder.connector("shop", Http::new(&*url).unwrap())).await;
        recorder.finish().unwrap();
        serving.abort();
        assert!(!fs::read_to_string(&path).unwrap().contains("\"authorization\""));

        let recording = Recording::load(&path).unwrap();
        assert_eq!(run(host(era, "small"), recording.connector("shop")).await, recorded, "{era}");
        assert_eq!((recording.differences(), recording.missing()), (vec![], vec![]), "{era}");
        fs::remove_file(path).unwrap();
    }
}

/// Returns a recording of one connection.
fn recording(lines: &[Value]) -> Recording {
    let mut text = "{\"format\":\"mcp-recording\",\"version\":1}\n".to_owned();
    for line in lines {
        let mut line = line.clone();
        line["connection"] = 1.into();
        line["at"] = 0.into();
        text.push_str(&format!("{line}\n"));
    }
    Recording::parse(&text).unwrap()
}

/// Returns the events that are ready now: messages, errors, and `end`.
async fn ready(transport: &mut Box<dyn Transport>) -> Vec<String> {
    let mut events = Vec::new();
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(50), recv(transport)).await {
        events.push(match event {
            Some(Ok(frame)) => format!("{:?} {}", frame.route, String::from_utf8_lossy(&frame.message)),
            Some(Err(error)) => format!("{:?} {error}", error.request()),
            None => {
                events.push("end".to_owned());
                break;
            }
        });
    }
    events
}

#[tokio::test(start_paused = true)]
async fn events_of_the_server_follow_the_messages_that_they_belong_to() {
    let request = |id: u64, name: &str| json!({ "id": id, "method": "tools/call", "params": { "name": name } });
    let note = |text: &str| json!({ "method": "notifications/message", "params": { "data": text } });
    let recording = recording(&[
        json!({ "event": "opened", "server": "s", "streams": true }),
        json!({ "event": "received", "message": note("first") }),
        json!({ "event": "sent", "message": request(1, "a") }),
        json!({ "event": "sent", "message": request(2, "b") }),
        json!({ "event": "received", "raw": "not JSON" }),
        json!({ "event": "received", "route": 2, "message": { "id": 9, "method": "ping" } }),
        json!({ "event": "sent", "message": { "id": 9, "result": {} } }),
        json!({ "event": "received", "route": 2, "message": { "id": 2, "result": { "b": 1 } } }),
        json!({ "event": "fault", "route": 1, "text": "the stream broke" }),
        json!({ "event": "ended" }),
    ]);
    let mut transport = recording.connector("s").connect().await.unwrap();
    let sender = transport.sender();
    assert!(sender.has_request_streams());
    let first = format!("Connection {}", note("first"));
    assert_eq!(ready(&mut transport).await, [first]);

    // The ids of this run are other ones, and the second request comes first.
    sender.send(Frame::new(request(70, "b").to_string())).await.unwrap();
    assert_eq!(ready(&mut transport).await, ["Connection not JSON", "Request(70) {\"id\":9,\"method\":\"ping\"}"]);
    sender.send(Frame::new("{\"id\":9,\"result\":{}}")).await.unwrap();
    assert_eq!(ready(&mut transport).await, ["Request(70) {\"id\":70,\"result\":{\"b\":1}}"]);
    sender.send(Frame::new(request(71, "a").to_string())).await.unwrap();
    assert_eq!(ready(&mut transport).await, ["Some(71) the stream broke", "end"]);
    assert!(sender.send(Frame::new("{}")).await.unwrap_err().is_closed());
}
