//! Answers the requests of the HTTP client with any bytes.
//!
//! The first character selects the era, and the second one the call. The rest has the responses, which lines with `===` separate. A
//! response that begins with `!` ends its connection. The server answers the requests that open a connection, except in the form `r`.
//! In the form `s`, the answers are events of the stream. Placeholders: `{id}` is the id of the request in JSON, `{len}` the length
//! behind the first empty line, and `{other}` the URL of another origin.
//!
//! Each call ends in bounded time and after a bounded number of requests. No text of an error has the credentials of the client, and
//! another origin receives nothing.

#![no_main]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fuzz::{
    expanded, fuzz_target, isolated_with_sockets,
    loopback::{self, Asked, Reply, Then},
    peer, secret_for,
};
use mcp_client::{Client, ClientBuilder, Error, Reconnect, http::Http};
use mcp_protocol::{CompletionReference, Message, ProtocolVersion, SubscriptionFilter};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep, timeout},
};

const SKILL: &str = "skill://a/SKILL.md";
const SEPARATOR: &[u8] = b"\n===\n";
/// The time limit of a call.
const CALL: Duration = Duration::from_secs(20);
/// A list has several requests, and the end of a connection has time limits of its own.
const LONGEST: Duration = Duration::from_secs(180);
const MOST_REQUESTS: usize = 2000;

/// The answers of the server.
struct Script {
    is_raw: bool,
    is_sse: bool,
    version: ProtocolVersion,
    responses: std::vec::IntoIter<Vec<u8>>,
    /// The stream of HTTP+SSE.
    stream: Option<UnboundedSender<Vec<u8>>>,
    other: String,
    requests: Arc<AtomicUsize>,
}

impl Script {
    fn answer(&mut self, asked: &Asked) -> Reply {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (method, id) = match Message::parse(&asked.body) {
            Ok(Message::Request(request)) => (request.method.into_owned(), serde_json::to_string(&request.id).unwrap()),
            Ok(Message::Notification(notification)) => (notification.method.into_owned(), String::new()),
            _ => Default::default(),
        };
        let opening = if self.is_raw { None } else { peer::opening(self.version, &method, &id) };
        if self.is_sse && asked.method == "GET" {
            let (sender, receiver) = unbounded_channel();
            self.stream = Some(sender);
            return Reply { then: Then::Stream(receiver), ..self.next(&id) };
        }
        if self.is_sse {
            let events = match opening {
                Some(message) => format!("event: message\ndata: {message}\n\n").into_bytes(),
                None if id.is_empty() => Vec::new(),
                None => self.next(&id).bytes,
            };
            if let Some(stream) = &self.stream {
                let _ = stream.send(events);
            }
            return Reply::response(202, "", "");
        }
        match opening {
            Some(message) if method == "initialize" => {
                let headers = "Content-Type: application/json\r\nMcp-Session-Id: session-1\r\n";
                Reply::response(200, headers, &message)
            }
            Some(message) => Reply::json(&message),
            None if !self.is_raw && method == "notifications/initialized" => Reply::response(202, "", ""),
            None => self.next(&id),
        }
    }

    fn next(&mut self, id: &str) -> Reply {
        let Some(response) = self.responses.next() else { return Reply { bytes: Vec::new(), then: Then::Close } };
        let (bytes, then) = match response.strip_prefix(b"!") {
            Some(bytes) => (bytes, Then::Close),
            None => (&response[..], Then::Keep),
        };
        let bytes = expanded(bytes, &[("{id}", id), ("{other}", &self.other)]);
        let body = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |end| bytes.len() - end - 4);
        Reply { bytes: expanded(&bytes, &[("{len}", &body.to_string())]), then }
    }
}

fn responses(mut script: &[u8]) -> Vec<Vec<u8>> {
    let mut responses = Vec::new();
    while let Some(end) = script.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        responses.push(script[..end].to_vec());
        script = &script[end + SEPARATOR.len()..];
    }
    responses.push(script.to_vec());
    responses
}

fn builder(version: Option<ProtocolVersion>) -> ClientBuilder {
    let builder = Client::builder("fuzz", "1")
        .connect_timeout(Duration::from_secs(10))
        .probe_timeout(Duration::from_secs(2))
        .idle_timeout(CALL)
        .total_timeout(CALL)
        .reconnect(Reconnect::default().attempts(2).longest(Duration::from_secs(2)))
        .tasks()
        // The server declares no skills.
        .ignore_capabilities()
        .limits(|limits| {
            limits.pages = 4;
            limits.close = Duration::from_secs(1);
        });
    match version {
        Some(version) => builder.versions([version]),
        None => builder,
    }
}

/// Sends a request of the selected kind.
async fn call(client: &Client, kind: u8) -> Result<(), Error> {
    match kind {
        b't' => {
            let tools = client.list_tools().await?;
            let Some(tool) = tools.first() else { return Ok(()) };
            client.call_tool(&tool.name, ()).await.map(drop)
        }
        b'r' => client.read_resource("x://1").await.map(drop),
        b'R' => client.list_resources().await.map(drop),
        b'T' => client.list_resource_templates().await.map(drop),
        b'p' => client.get_prompt("p", ()).await.map(drop),
        b'P' => client.list_prompts().await.map(drop),
        b'k' => client.list_tasks().await.map(drop),
        b'C' => client.complete(CompletionReference::prompt("p"), "a", "").await.map(drop),
        b'w' => {
            let loaded = client.load_skill(client.skill(SKILL).await?).await?;
            assert!(loaded.text().ends_with(loaded.instructions()));
            for file in loaded.files() {
                loaded.read(&file.uri).await?;
            }
            Ok(())
        }
        b'g' => client.ping().await,
        b's' => {
            let subscription = client.listen(SubscriptionFilter::lists()).await?;
            sleep(CALL).await;
            drop(subscription);
            Ok(())
        }
        _ => {
            let result = client.call_tool("t", ()).await?;
            let _ = result.text();
            Ok(())
        }
    }
}

/// Waits for a part of the run, and checks its error.
async fn ended<T>(part: impl Future<Output = Result<T, Error>>, secret: &str) -> Option<T> {
    let began = Instant::now();
    let result = timeout(LONGEST, part).await;
    let result = result.unwrap_or_else(|_| panic!("the call did not end within {:?}", began.elapsed()));
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let mut text = format!("{error} {error:?}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.push_str(&format!(" {error} {error:?}"));
                cause = error.source();
            }
            assert!(!text.contains(secret), "{text}");
            None
        }
    }
}

async fn run(era: u8, kind: u8, script: &[u8]) {
    let secret = secret_for(script, era);
    let (other, connections) = loopback::count().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let (is_raw, is_sse) = (era == b'r', era == b's');
    let version = match era {
        b'm' => ProtocolVersion::V2026_07_28,
        b'o' => ProtocolVersion::V2025_03_26,
        b's' => ProtocolVersion::V2024_11_05,
        _ => ProtocolVersion::V2025_11_25,
    };
    let mut script = Script {
        is_raw,
        is_sse,
        version,
        responses: responses(script).into_iter(),
        stream: None,
        other: format!("http://{other}/mcp"),
        requests: Arc::clone(&requests),
    };
    let address = loopback::serve(move |asked| script.answer(&asked)).await;
    let url = if is_sse { format!("http://{address}/sse") } else { format!("http://{address}/mcp") };
    let http = if is_sse { Http::sse(url) } else { Http::new(url) };
    let http = http.unwrap().header("x-api-key", &secret).unwrap();
    let client = builder((!is_raw).then_some(version));
    if let Some(client) = ended(client.connect(http), &secret).await {
        assert!(is_raw || client.version() == version, "{}", client.version());
        ended(call(&client, kind), &secret).await;
        timeout(LONGEST, client.close()).await.expect("the client closes in bounded time");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 0, "another origin has a connection");
    let requests = requests.load(Ordering::Relaxed);
    assert!(requests < MOST_REQUESTS, "the client sent {requests} requests");
}

fuzz_target!(|data: &[u8]| {
    let [era, kind, script @ ..] = data else { return };
    isolated_with_sockets(run(*era, *kind, script));
});
