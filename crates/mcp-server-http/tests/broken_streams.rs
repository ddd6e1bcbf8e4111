//! Streams with randomly broken connections, over sockets: every event of every stream arrives once and in order.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::Full;
use mcp_protocol::LoggingLevel;
use mcp_server_core::{Progress, Server, tool};
use mcp_server_http::HttpConfig;
use serde_json::json;

use crate::{
    common::{
        self,
        socket::{Connection, Endpoint, serve},
    },
    resume::{Event, resume, steps, take_events, talk},
};

/// A small generator, so that every run breaks the same connections.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Reads one stream over connections that break at random positions, also inside of an event. Returns the events and
/// the number of breaks.
async fn read_whole(
    endpoint: &Endpoint,
    session: &str,
    first: Request<Full<Bytes>>,
    seed: u64,
    saw: impl Fn(),
    mut is_over: impl FnMut(&Event) -> bool,
) -> (Vec<Event>, usize) {
    let (mut dice, mut events, mut last) = (Dice(seed), Vec::new(), String::new());
    let (mut request, mut breaks) = (first, 0);
    loop {
        let mut connection: Connection = endpoint.connect().await;
        connection.send(request).await;
        assert_eq!(connection.head().await.unwrap().0, StatusCode::OK);
        let mut read = BytesMut::new();
        let chunk_limit = 1 + dice.roll(8);
        for chunks in 1..=chunk_limit {
            let Some(mut chunk) = connection.chunk().await else { break };
            // A client cannot resume a stream before it has an event id.
            if chunks == chunk_limit && !last.is_empty() {
                chunk.truncate(dice.roll(chunk.len() as u64) as usize);
            }
            read.extend_from_slice(&chunk);
            for event in take_events(&mut read) {
                last.clone_from(&event.id);
                if event.message.is_some() {
                    let over = is_over(&event);
                    events.push(event);
                    saw();
                    if over {
                        return (events, breaks);
                    }
                }
            }
        }
        drop(connection);
        breaks += 1;
        request = resume(session, &last);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_events_over_broken_streams_arrive_once_and_in_order() {
    const STEPS: usize = 3_334;
    // All are paced by the reader that has seen least, since they share one window: no gap is wider than that.
    let (seen, observed) = tokio::sync::watch::channel([0_usize; 3]);
    let pace = observed.clone();
    let paced = move |progress: Progress| {
        let mut seen = pace.clone();
        async move {
            for step in 0..STEPS {
                seen.wait_for(|seen| step < seen.iter().min().unwrap() + 50).await.unwrap();
                progress.report(step as f64, None, None).await;
            }
            "done"
        }
    };
    let server = Server::builder("test", "1.0").tool(tool("talk", paced)).build();
    let endpoint = serve(&server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let ready = common::notification(&session, "notifications/initialized", json!({}));
    assert_eq!(endpoint.exchange(ready).await.status, StatusCode::ACCEPTED);

    let saw = |which: usize| {
        let seen = seen.clone();
        move || seen.send_modify(|seen| seen[which] += 1)
    };
    let mut count = 0;
    let listening = read_whole(&endpoint, &session, common::listen(&session), 0x5eed, saw(0), move |_| {
        count += 1;
        count == STEPS
    });
    let over = |event: &Event| event.method() == "response";
    let calls = [
        read_whole(&endpoint, &session, talk(1, &session), 0xfeed, saw(1), over),
        read_whole(&endpoint, &session, talk(2, &session), 0xbeef, saw(2), over),
    ];
    let [one, other] = calls;
    let mut progress = observed;
    let changing = async {
        for step in 0..STEPS {
            progress.wait_for(|seen| step < seen.iter().min().unwrap() + 50).await.unwrap();
            server.notify().log(LoggingLevel::Info, step);
        }
    };
    let all = async { tokio::join!(listening, one, other, changing) };
    let (standalone, one, other, ()) = tokio::time::timeout(Duration::from_secs(120), all).await.unwrap();
    for ((_, breaks), stream) in [&standalone, &one, &other].into_iter().zip(["standalone", "one", "other"]) {
        assert!(*breaks > 20, "{stream} broke {breaks} times");
    }
    let ((standalone, _), (one, _), (other, _)) = (standalone, one, other);
    let data = |event: &Event| event.message.as_ref().unwrap()["params"]["data"].as_u64();
    assert!(standalone.iter().map(data).eq((0..STEPS as u64).map(Some)), "{} records", standalone.len());
    for (call, events) in [(1, one), (2, other)] {
        let steps = steps(&events);
        let odd = (0..).zip(&steps).find(|(at, step)| at != *step);
        assert_eq!((odd, steps.len()), (None, STEPS), "call {call}");
        assert_eq!(events.len(), STEPS + 1);
        let ours = |event: &Event| event.message.as_ref().is_some_and(|m| m["params"]["progressToken"] == call);
        assert!(events[..STEPS].iter().all(ours));
        assert_eq!(events[STEPS].message.as_ref().unwrap()["id"], call);
    }
}
