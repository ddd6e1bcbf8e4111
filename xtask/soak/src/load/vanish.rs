//! Clients without a library that vanish at any point, and clients that read slowly or not at all.

use std::{net::SocketAddr, sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::{Context as _, Error, bail, ensure};
use check_kit::random::Random;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{Actors, CALL_LIMIT, Soak};
use crate::{serve::UNREAD, tally::Check};

const VANISHING: usize = 2;
const SLOW: usize = 2;
/// The bytes of a result for a slow reader: more than the buffers of a connection.
const RESULT: usize = 1_500_000;
/// The most bytes of a response.
const RESPONSE: usize = 4 * RESULT;
/// The time until the server closes a connection that its client does not read, with the interval of its checks.
const CLOSED: Duration = Duration::from_secs(UNREAD.as_secs() * 2 + 5);

pub(super) fn start(actors: &mut Actors) {
    for _ in 0..VANISHING {
        actors.add(vanishing);
    }
    for _ in 0..SLOW {
        actors.add(slow);
    }
    actors.add(unread);
}

/// Opens connections, and drops each of them at another point of its request.
async fn vanishing(soak: Soak, mut random: Random) -> Result<(), Error> {
    while !soak.is_over() {
        // The gateway has clients that vanish, too.
        let address = if random.below(3) == 0 { soak.gateway } else { soak.node };
        if let Some(Err(error)) = soak.ends("a vanishing client", vanish(address, &mut random)).await {
            soak.tally.fault(Check::Undisturbed, format!("a vanishing client: {error:#}"));
        }
        soak.tally.caused.vanished.fetch_add(1, Relaxed);
        soak.pause(&mut random, (50, 400)).await;
    }
    Ok(())
}

async fn vanish(address: SocketAddr, random: &mut Random) -> Result<(), Error> {
    let mut stream = TcpStream::connect(address).await?;
    let call = call(1, "count", &json!({ "to": 200, "pause_ms": 20 }));
    match random.below(5) {
        // A connection without a request.
        0 => {}
        // A part of a request.
        1 => {
            let bytes = request(address, &call, None);
            let part = random.below(bytes.len());
            stream.write_all(bytes.get(..part).unwrap_or_default()).await?;
        }
        // A session that its client never uses or ends.
        2 => drop(open_session(&mut stream, address).await?),
        // A stream of events that its client drops.
        3 => {
            let session = open_session(&mut stream, address).await?;
            let get = format!(
                "GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\
                 mcp-protocol-version: 2025-11-25\r\n\r\n"
            );
            stream.write_all(get.as_bytes()).await?;
            sleep(Duration::from_millis(random.between(0, 200))).await;
        }
        // A running call.
        _ => {
            stream.write_all(&request(address, &call, None)).await?;
            sleep(Duration::from_millis(random.between(0, 300))).await;
        }
    }
    Ok(())
}

/// Reads long results in small parts with pauses. On a quiet machine the longest one takes 8 seconds.
async fn slow(soak: Soak, mut random: Random) -> Result<(), Error> {
    while !soak.is_over() {
        let letter = char::from(b'a' + random.below(26) as u8);
        let (part, pause) = (random.between(8, 65) as usize * 1024, Duration::from_millis(random.between(2, 20)));
        match soak.ends("a slow reader", read_slowly(soak.node, letter, part, pause)).await {
            Some(outcome) => soak.tally.judge(Check::Answers, outcome.map_err(|error| format!("slow: {error:#}"))),
            None => continue,
        }
        soak.tally.caused.slow.fetch_add(1, Relaxed);
        soak.pause(&mut random, (0, 500)).await;
    }
    Ok(())
}

async fn read_slowly(address: SocketAddr, letter: char, part: usize, pause: Duration) -> Result<(), Error> {
    let mut stream = TcpStream::connect(address).await?;
    let call = call(7, "big", &json!({ "bytes": RESULT, "letter": letter }));
    stream.write_all(&request(address, &call, None)).await?;
    let (mut response, mut chunk) = (Vec::new(), vec![0; part]);
    let text = letter.to_string().repeat(RESULT);
    let end = format!("{text}\"");
    loop {
        let len = stream.read(&mut chunk).await?;
        response.extend_from_slice(chunk.get(..len).unwrap_or_default());
        let is_complete = response.len() > RESULT && contains(&response, end.as_bytes());
        if is_complete {
            return Ok(());
        }
        ensure!(len > 0, "the response ends after {} of {RESULT} bytes", response.len());
        ensure!(response.len() < RESPONSE, "a response of more than {RESPONSE} bytes");
        sleep(pause).await;
    }
}

/// Whether a response has a text. The search begins where the text can begin.
fn contains(response: &[u8], text: &[u8]) -> bool {
    let last = text.last().copied().unwrap_or_default();
    // The text consists of one letter, so its end is after the last occurrence of this letter.
    let Some(end) = response.iter().rposition(|byte| *byte == last).map(|at| at + 1) else { return false };
    (text.len()..=end).rev().take(512).any(|end| response.get(end - text.len()..end) == Some(text))
}

/// Requests a long result, and does not read it. The server closes the connection.
async fn unread(soak: Soak, mut random: Random) -> Result<(), Error> {
    while !soak.is_over() {
        if let Some(outcome) = soak.ends("an unread response", leave_unread(soak.node)).await {
            soak.tally.judge(Check::Exits, outcome.map_err(|error| format!("unread: {error:#}")));
        }
        soak.tally.caused.slow.fetch_add(1, Relaxed);
        soak.pause(&mut random, (100, 2_000)).await;
    }
    Ok(())
}

async fn leave_unread(address: SocketAddr) -> Result<(), Error> {
    let mut stream = TcpStream::connect(address).await?;
    // The buffers of the system take a few results.
    for id in 0..8 {
        let call = call(id, "big", &json!({ "bytes": RESULT, "letter": 'x' }));
        stream.write_all(&request(address, &call, None)).await?;
    }
    let closed = timeout(CLOSED, async {
        // A client that writes to a closed connection receives an error.
        while stream.write_all(b"\r\n").await.is_ok() {
            sleep(Duration::from_millis(500)).await;
        }
    });
    closed.await.map_err(|_| Error::msg(format!("the connection is open after {CLOSED:?}")))
}

/// Opens a session. Returns its id.
async fn open_session(stream: &mut TcpStream, address: SocketAddr) -> Result<String, Error> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "soak", "version": "0" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    stream.write_all(&request(address, &message, Some("2025-11-25"))).await?;
    let (mut head, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let len = timeout(CALL_LIMIT, stream.read(&mut chunk)).await.context("no session in time")??;
        ensure!(len > 0, "the server closed the connection before the session");
        head.extend_from_slice(chunk.get(..len).unwrap_or_default());
        let text = String::from_utf8_lossy(&head);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let id = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
            });
            let Some(id) = id else { bail!("no session: {head}") };
            return Ok(id);
        }
    }
}

/// A call of 2026-07-28.
fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "soak", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// The bytes of a POST request. Without a revision, it is a call of 2026-07-28 with its headers.
fn request(address: SocketAddr, message: &Value, revision: Option<&str>) -> Vec<u8> {
    let mut headers = format!("mcp-protocol-version: {}\r\n", revision.unwrap_or("2026-07-28"));
    if revision.is_none() {
        let name = message["params"]["name"].as_str().unwrap_or_default();
        headers += &format!("mcp-method: tools/call\r\nmcp-name: {name}\r\n");
    }
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
