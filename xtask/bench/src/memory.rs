//! `bench memory`: the resident memory of the server for each idle session and each open stream.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::{
    case::{INITIALIZED, Revision, post},
    cpu,
    error::Error,
    figure::{Aim, Figure},
    peer::{Peer, Start},
};

/// The number of sessions before the first measurement, so that memory for the first use is not counted.
const WARM_UP: usize = 500;
const SESSIONS: usize = 9_500;
const WARM_UP_STREAMS: usize = 50;
const STREAMS: usize = 1_000;
/// The highest accepted values, in KiB.
const SESSION_AIM: f64 = 1.5;
const STREAM_AIM: f64 = 9.0;
/// The time limit of each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Measures and prints two lines.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    if let Some(arg) = args.first() {
        return Err(Error::new(format!("memory takes no arguments, not `{arg}`")));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = Start { kind: "ours-http", ..Start::default() };
    let (mut peer, address) = runtime.block_on(async {
        let mut peer = Peer::start(&start)?;
        let address = peer.address().await?;
        Ok::<_, Error>((peer, address))
    })?;
    let host = address.to_string();
    let mut client = Client::open(address)?;
    client.sessions(&host, WARM_UP)?;
    let resident = || cpu::resident(peer.pid()).ok_or_else(|| Error::new("this system does not tell resident memory"));
    let before = resident()?;
    let sessions = client.sessions(&host, SESSIONS)?;
    let idle = resident()?;
    let mut streams = Vec::new();
    for session in &sessions[..WARM_UP_STREAMS] {
        streams.push(listen(address, &host, session)?);
    }
    let warm = resident()?;
    for session in &sessions[WARM_UP_STREAMS..WARM_UP_STREAMS + STREAMS] {
        streams.push(listen(address, &host, session)?);
    }
    let listening = resident()?;
    if let Some(status) = peer.ended() {
        return Err(Error::new(format!("the server ended: {status}")));
    }
    let each = |growth: u64, count: usize| growth as f64 / count as f64 / 1024.0;
    let session = each(idle.saturating_sub(before), SESSIONS);
    let stream = each(listening.saturating_sub(warm), STREAMS);
    let figures = vec![
        Figure::new("idle-session", "memory of an idle session", session, "KiB", Aim::AtMost(SESSION_AIM)),
        Figure::new("open-stream", "memory of an open GET stream on top", stream, "KiB", Aim::AtMost(STREAM_AIM)),
    ];
    println!("\nresident memory, growth with {SESSIONS} sessions and {STREAMS} streams");
    for figure in &figures {
        println!("{figure}");
    }
    println!("a server of three tools over HTTP, {} KiB before the first of these sessions", before / 1024);
    Ok(figures)
}

/// One connection that is kept open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self { stream: BufReader::new(connect(address)?) })
    }

    /// Opens sessions and sends `notifications/initialized`. Returns their ids.
    pub(crate) fn sessions(&mut self, host: &str, count: usize) -> Result<Vec<String>, Error> {
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            self.stream.get_mut().write_all(&post(host, "", &Revision::Session.initialize()))?;
            let id = self.answer()?.ok_or_else(|| Error::new("an answer without Mcp-Session-Id"))?;
            let ready = post(host, &format!("Mcp-Session-Id: {id}\r\n"), INITIALIZED);
            self.stream.get_mut().write_all(&ready)?;
            self.answer()?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Reads an answer: the id of the session that it opens.
    fn answer(&mut self) -> Result<Option<String>, Error> {
        let (id, length) = head(&mut self.stream)?;
        self.stream.read_exact(&mut vec![0; length])?;
        Ok(id)
    }
}

/// Opens the stream of a session and waits for its first event.
fn listen(address: SocketAddr, host: &str, session: &str) -> Result<TcpStream, Error> {
    let mut stream = connect(address)?;
    let get =
        format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n");
    stream.write_all(get.as_bytes())?;
    let mut reader = BufReader::new(stream);
    head(&mut reader)?;
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(Error::new("a stream ended"));
        }
    }
    Ok(reader.into_inner())
}

fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    Ok(stream)
}

/// Reads the head of an answer: the id of a session in it, and how long the body is.
fn head(reader: &mut impl BufRead) -> Result<(Option<String>, usize), Error> {
    let (mut session, mut length, mut line) = (None, 0, String::new());
    reader.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 20") {
        return Err(Error::new(format!("the server answered `{}`", line.trim_end())));
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok((session, length)) };
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => session = Some(value.trim().to_owned()),
            "content-length" => length = value.trim().parse()?,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_session_and_length_from_a_response_head() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 7\r\nMCP-Session-Id: a\r\n\r\nrest", Some((Some("a".into()), 7))),
            ("HTTP/1.1 202 Accepted\r\n\r\n", Some((None, 0))),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", None),
        ] {
            assert_eq!(head(&mut text.as_bytes()).ok(), expected, "{text}");
        }
    }
}
