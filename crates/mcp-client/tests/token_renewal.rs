//! Tokens that expire while streams are open: the client renews its token and misses no change.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mcp_client::{
    Update,
    http::{
        Authorizer, AuthorizerError, Http, Refusal, Target, Verdict,
        reqwest::{
            Method,
            header::{AUTHORIZATION, HeaderMap, HeaderValue},
        },
    },
    protocol::ProtocolVersion,
    transport::BoxFuture,
};
use mcp_server::{
    auth::{AuthRequest, Authenticated, Authenticator, Rejection},
    prelude::*,
    protocol::Challenge,
};
use tokio::{net::TcpListener, time::timeout};

use crate::common::builder;

/// The life of a token. It is long enough for a request on a busy machine.
const LIFE: Duration = Duration::from_millis(1_500);
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of streams, each with a token of its own, after which the test ends.
const STREAMS: usize = 3;
/// The number of resources. Each of them changes once at most.
const RESOURCES: usize = 150;

/// Issues tokens: the time of their end in milliseconds.
#[derive(Default)]
struct Renewing {
    token: Mutex<Option<u64>>,
    issued: AtomicUsize,
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Renewing {
    /// Returns the current token while it is valid, and otherwise a fresh one.
    fn current(&self) -> u64 {
        let mut token = self.token.lock().unwrap();
        match *token {
            Some(end) if end > now() => end,
            _ => {
                self.issued.fetch_add(1, Ordering::SeqCst);
                *token.insert(now() + u64::try_from(LIFE.as_millis()).unwrap())
            }
        }
    }
}

struct Renewal(Arc<Renewing>);

impl Authorizer for Renewal {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let value = HeaderValue::try_from(format!("Bearer {}", self.0.current())).unwrap();
        Box::pin(std::future::ready(Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        // The token expired on its way.
        Box::pin(std::future::ready(Ok(Verdict::Retry)))
    }
}

/// Accepts the tokens until their end, and records those that opened a stream.
struct Tokens {
    streams: Arc<Mutex<BTreeSet<u64>>>,
}

impl Authenticator for Tokens {
    fn authenticate<'a>(
        &'a self,
        request: &'a AuthRequest<'a>,
    ) -> mcp_server::auth::BoxFuture<'a, Result<Authenticated, Rejection>> {
        let checked = || {
            let value = request.headers.get(AUTHORIZATION).ok_or(Rejection::Missing)?;
            let end = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")?.parse().ok());
            let end: u64 = end.ok_or(Rejection::Invalid)?;
            if end <= now() {
                return Err(Rejection::Expired);
            }
            let listens = request.headers.get("mcp-method").is_some_and(|value| value == "subscriptions/listen");
            if listens || request.method == Method::GET {
                self.streams.lock().unwrap().insert(end);
            }
            let end = UNIX_EPOCH + Duration::from_millis(end);
            Ok(Authenticated::new(Principal::new("ann").with_expires_at(end)))
        };
        Box::pin(std::future::ready(checked()))
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }
}

fn uri(number: usize) -> String {
    format!("change://{number}")
}

async fn misses_no_change(version: ProtocolVersion) {
    let published = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&published);
    let server = Server::builder("real", "1")
        .versions([version])
        .resource(resource("count://all", move || std::future::ready(count.load(Ordering::SeqCst).to_string())))
        .resource_template(template("change://{number}", async || "changed"))
        .build();
    let streams: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let config = HttpConfig::new().sse("/sse", "/messages").authenticate(Tokens { streams: Arc::clone(&streams) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let path = if version == ProtocolVersion::V2024_11_05 { "sse" } else { "mcp" };
    let url = format!("http://{}/{path}", listener.local_addr().unwrap());
    let running = server.clone();
    let serving = tokio::spawn(async move { running.serve_http_on(listener, config).await.unwrap() });
    let renewing = Arc::new(Renewing::default());
    let http = Http::new(&url).unwrap().authorizer(Renewal(Arc::clone(&renewing)));
    let client = builder().connect(http).await.unwrap();
    let mut changes = client.subscribe((0..RESOURCES).map(uri)).await.unwrap();
    let mut publishing = tokio::spawn({
        let (server, streams, published) = (server.clone(), Arc::clone(&streams), Arc::clone(&published));
        async move {
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            for number in 0..RESOURCES {
                if streams.lock().unwrap().len() >= STREAMS {
                    break;
                }
                pace.tick().await;
                published.fetch_add(1, Ordering::SeqCst);
                server.notify().resource_updated(&uri(number));
            }
            published.load(Ordering::SeqCst)
        }
    });
    let mut seen = BTreeSet::new();
    let mut gaps = 0;
    let mut all = None;
    let receiving = async {
        while all.is_none_or(|all| seen.len() < all) {
            let update = tokio::select! {
                update = changes.next() => update.expect("the subscription lasts").unwrap(),
                ended = &mut publishing, if all.is_none() => {
                    all = Some(ended.unwrap());
                    continue;
                }
            };
            match update {
                Update::ResourceUpdated { uri } => {
                    seen.insert(uri.strip_prefix("change://").unwrap().parse::<usize>().unwrap());
                }
                Update::Missed => {
                    gaps += 1;
                    let count = client.read_resource("count://all").await.unwrap();
                    let count: usize = count.contents[0].as_text().unwrap().parse().unwrap();
                    seen.extend(0..count);
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let received = timeout(TEST_TIMEOUT, receiving).await;
    let used = streams.lock().unwrap().len();
    assert!(received.is_ok(), "{version}: {seen:?} of {all:?}, {used} streams, {gaps} gaps");
    assert!(used >= STREAMS && renewing.issued.load(Ordering::SeqCst) >= STREAMS, "{version}: {used}");
    // A session resumes its stream without a gap. Otherwise the client learns of the gap.
    assert_eq!(gaps == 0, version == ProtocolVersion::V2025_11_25, "{version}: {gaps}");
    serving.abort();
}

#[tokio::test]
async fn a_client_renews_its_token_and_misses_no_change() {
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        misses_no_change(version).await;
    }
}
