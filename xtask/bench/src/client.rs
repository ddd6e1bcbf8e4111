//! The client under test, and the loop around `reqwest` beside it: both call the same bare server.

use std::time::{Duration, Instant};

use mcp_client::{
    Client,
    http::reqwest::{
        self,
        header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
    },
};
use rustls::crypto::ring;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    case::{Call, Case, ECHO_TEXT, Revision, Template},
    cpu,
    error::Error,
    load::{GRACE, WARM_UP, print_pair, since},
    options::Options,
    peer::{Peer, Start},
    report::Round,
};

/// Measures the client and the bare loop, in turns.
pub(crate) async fn measure(
    case: &Case,
    at_once: usize,
    revision: Revision,
    options: &Options,
    cpu: Option<usize>,
) -> Result<Vec<(Round, Round)>, Error> {
    let mut peer = Peer::start(&Start { kind: "bare-mcp", cpu, ..Start::default() })?;
    let url = format!("http://{}/mcp", peer.address().await?);
    let opening = timeout(GRACE, Caller::ours(&url, revision)).await;
    let mut ours = opening.map_err(|_| Error::new("the client does not connect in time"))??;
    let mut bare = Caller::bare(&url, revision)?;
    for caller in [&mut ours, &mut bare] {
        round(caller, at_once, WARM_UP.min(options.round), &peer).await?;
    }
    let mut rounds = Vec::new();
    for n in 1..=options.rounds {
        let of_ours = round(&mut ours, at_once, options.round, &peer).await?;
        let pair = (of_ours, round(&mut bare, at_once, options.round, &peer).await?);
        print_pair(case, revision, n, options, &pair);
        rounds.push(pair);
    }
    Ok(rounds)
}

/// One lane of calls.
#[derive(Clone)]
pub(crate) enum Caller {
    Ours(Client),
    Bare { client: reqwest::Client, url: String, headers: HeaderMap, template: Template },
}

impl Caller {
    async fn ours(url: &str, revision: Revision) -> Result<Self, Error> {
        Ok(Self::Ours(Client::builder("bench", "1.0.0").versions([revision.version()]).connect(url).await?))
    }

    pub(crate) fn bare(url: &str, revision: Revision) -> Result<Self, Error> {
        // The program may have installed a provider before, so an error has no meaning.
        let _ = ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(revision.name()));
        if revision == Revision::Stateless {
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("echo"));
        }
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self::Bare { client, url: url.to_owned(), headers, template: Template::message(Call::Echo, revision) })
    }

    /// A caller with a separate range of ids.
    fn for_worker(&self, n: usize) -> Self {
        let mut worker = self.clone();
        if let Self::Bare { template, .. } = &mut worker {
            *template = template.for_worker(n);
        }
        worker
    }

    pub(crate) async fn call(&mut self) -> Result<(), Error> {
        let text = match self {
            Self::Ours(client) => client.call_tool("echo", json!({ "text": ECHO_TEXT })).await?.text(),
            Self::Bare { client, url, headers, template } => {
                let (body, id) = template.next();
                let sending = client.post(url.as_str()).headers(headers.clone()).body(body.to_vec()).send();
                let answer: Value = serde_json::from_slice(&sending.await?.bytes().await?)?;
                if answer["id"] != id {
                    return Err(Error::new("an answer to another request"));
                }
                answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
            }
        };
        if text == ECHO_TEXT { Ok(()) } else { Err(Error::new(format!("a wrong answer: {text}"))) }
    }
}

/// Calls for a while, `at_once` calls at the same time.
pub(crate) async fn round(caller: &mut Caller, at_once: usize, length: Duration, peer: &Peer) -> Result<Round, Error> {
    let own = std::process::id();
    let (server, generator, start) = (peer.used(), cpu::used(own), Instant::now());
    let deadline = start + length;
    let mut workers = JoinSet::new();
    for n in 0..at_once {
        let mut worker = caller.for_worker(n);
        workers.spawn(async move {
            let mut calls = 0;
            while Instant::now() < deadline {
                worker.call().await?;
                calls += 1;
            }
            Ok::<u64, Error>(calls)
        });
    }
    let mut calls = 0;
    while let Some(outcome) = timeout(length + GRACE, workers.join_next()).await? {
        calls += outcome??;
    }
    let elapsed = start.elapsed();
    // The benchmark measures the client. The server is the peer.
    let (server, generator) = (since(generator, cpu::used(own)), since(server, peer.used()));
    Ok(Round { calls, elapsed, server, generator, p99: None, wrong_passwords: 0 })
}
