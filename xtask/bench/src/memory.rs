//! `bench memory`: the resident memory of the server for each idle session and each open stream.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use lexopt::{Arg, Parser};
use serde_json::Value;

use crate::{
    case::{INITIALIZED, Revision, post},
    cpu,
    error::Error,
    figure::{Aim, Doubt, Figure},
    http,
    library::Library,
    peer::{Peer, Start},
    report::{doubts_of, is_disturbed, median},
    work::{self, Reading},
};

/// The servers of each library whose medians count.
const SERVERS: usize = 3;

/// The number of sessions before the first measurement, so that memory for the first use is not counted.
const WARM_UP: usize = 500;
const SESSIONS: usize = 9_500;
const WARM_UP_STREAMS: usize = 50;
const STREAMS: usize = 1_000;
/// The highest accepted values, in KiB.
const SESSION_AIM: f64 = 1.5;
const STREAM_AIM: f64 = 9.0;
/// The most bytes that an idle stream receives: its first event and comments.
const MOST_OF_STREAM: usize = 4 << 10;
/// The bounds of a response: its lines, its headers and each part of its body.
const LONGEST_LINE: u64 = 16 << 10;
const MOST_HEADERS: usize = 100;
const LONGEST_BODY: usize = 1 << 20;
/// The call that checks a session.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// The time limit of each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Measures our server and the other libraries, and prints two lines.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    let mut libraries = Vec::new();
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("peers") => libraries = Library::all(Path::new(&parser.value()?))?,
            _ => return Err(arg.unexpected().into()),
        }
    }
    // The servers inherit the limit.
    cpu::raise_files();
    let start = Reading::now();
    let ours = ServerMemory::measure(&Start { kind: "ours-http", ..Start::default() })?;
    // A session and its stream belong to this revision alone.
    let revision = Some(Revision::Session.name().to_owned());
    let figure = |id: &str, title: &str, value: f64, most: f64| {
        let revision = revision.clone();
        Figure { revision, ..Figure::new(id, title, value, "KiB", Aim::AtMost(most)) }
    };
    let mut figures = [
        figure("idle-session", "memory of an idle session", ours.session, SESSION_AIM),
        figure("open-stream", "memory of an open GET stream on top", ours.stream?, STREAM_AIM),
    ];
    let mut is_incomplete = [false; 2];
    let mut before = format!("ours {:.0} KiB", ours.before);
    for library in libraries {
        let start = || Ok(Start { kind: "http", program: Some(library.program("http")?), ..Start::default() });
        match start().and_then(|start| ServerMemory::measure(&start)) {
            Ok(grown) => {
                before += &format!(", {} {:.0} KiB", library.name, grown.before);
                figures[0].peers.insert(library.name.to_owned(), grown.session);
                match grown.stream {
                    Ok(stream) => drop(figures[1].peers.insert(library.name.to_owned(), stream)),
                    Err(error) => {
                        eprintln!("the streams of {} are not measured: {error}", library.name);
                        is_incomplete[1] = true;
                    }
                }
            }
            Err(error) => {
                eprintln!("{} is not measured: {error}", library.name);
                is_incomplete = [true; 2];
            }
        }
    }
    let is_disturbed = work::others_since(start).is_some_and(|cores| is_disturbed(&[cores]));
    for (figure, is_incomplete) in figures.iter_mut().zip(is_incomplete) {
        figure.doubts = doubts_of([(is_disturbed, Doubt::Disturbed), (is_incomplete, Doubt::Incomplete)]);
    }
    println!("\nresident memory, growth with {SESSIONS} sessions and {STREAMS} streams, medians of {SERVERS} servers");
    for figure in &figures {
        println!("{figure}");
    }
    println!("the servers over HTTP before the first of these sessions: {before}");
    Ok(figures.into())
}

/// The memory of a server.
struct ServerMemory {
    /// The KiB before the first measured session.
    before: f64,
    /// The KiB of a session.
    session: f64,
    /// The KiB of a stream.
    stream: Result<f64, Error>,
}

impl ServerMemory {
    /// Measures several servers, one after the other. Returns the medians.
    fn measure(start: &Start) -> Result<Self, Error> {
        let servers = (0..SERVERS).map(|_| Self::of_server(start)).collect::<Result<Vec<_>, _>>()?;
        let of = |value: fn(&Self) -> f64| median(&servers.iter().map(value).collect::<Vec<_>>());
        let (before, session) = (of(|server| server.before), of(|server| server.session));
        let streams: Result<Vec<f64>, Error> = servers.into_iter().map(|server| server.stream).collect();
        Ok(Self { before, session, stream: streams.map(|streams| median(&streams)) })
    }

    /// Starts a server and opens sessions and streams.
    fn of_server(start: &Start) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut peer, address) = runtime.block_on(async {
            let mut peer = Peer::start(start)?;
            let address = peer.address().await?;
            Ok::<_, Error>((peer, address))
        })?;
        let host = address.to_string();
        let mut client = Client::open(address)?;
        let warm = client.sessions(&host, WARM_UP)?;
        client.check(&host, [&warm[0], &warm[WARM_UP - 1]])?;
        let before = resident(&mut peer)?;
        let sessions = client.sessions(&host, SESSIONS)?;
        client.check(&host, [&warm[0], &sessions[SESSIONS - 1]])?;
        let session = each(before, resident(&mut peer)?, SESSIONS)?;
        let stream = Self::streams(&mut peer, address, &sessions);
        Ok(Self { before: before as f64 / 1024.0, session, stream })
    }

    /// Opens a stream of each of the first sessions. Returns the KiB of a stream.
    fn streams(peer: &mut Peer, address: SocketAddr, sessions: &[String]) -> Result<f64, Error> {
        let host = address.to_string();
        let mut streams = Vec::new();
        for session in &sessions[..WARM_UP_STREAMS] {
            streams.push(listen(address, &host, session)?);
        }
        streams.iter_mut().try_for_each(check_open)?;
        let warm = resident(peer)?;
        for session in &sessions[WARM_UP_STREAMS..WARM_UP_STREAMS + STREAMS] {
            streams.push(listen(address, &host, session)?);
        }
        streams.iter_mut().try_for_each(check_open)?;
        each(warm, resident(peer)?, STREAMS)
    }
}

/// Returns the resident bytes of a running server.
fn resident(peer: &mut Peer) -> Result<u64, Error> {
    if let Some(status) = peer.ended() {
        return Err(Error::new(format!("the server ended: {status}")));
    }
    cpu::resident(peer.pid()).ok_or_else(|| Error::new("this system does not report resident memory"))
}

/// Returns the KiB of each part of a growth.
///
/// # Errors
/// If the memory did not grow.
pub(crate) fn each(before: u64, after: u64, count: usize) -> Result<f64, Error> {
    let growth = after.checked_sub(before).filter(|growth| *growth > 0);
    let growth = growth.ok_or_else(|| Error::new(format!("{count} parts changed {before} bytes to {after}")))?;
    Ok(growth as f64 / count as f64 / 1024.0)
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
            let id = self.answer()?.0.session.ok_or_else(|| Error::new("an answer without Mcp-Session-Id"))?;
            let ready = post(host, &of_session(&id), INITIALIZED);
            self.stream.get_mut().write_all(&ready)?;
            self.answer()?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Sends a ping in each of some sessions.
    ///
    /// # Errors
    /// If the server has lost a session.
    pub(crate) fn check<'a>(
        &mut self,
        host: &str,
        sessions: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), Error> {
        for session in sessions {
            self.stream.get_mut().write_all(&post(host, &of_session(session), PING))?;
            let (_, body) = self.answer().map_err(|error| error.when("a ping of an idle session"))?;
            is_pong(&body)?;
        }
        Ok(())
    }

    /// Reads the head and the body of an answer.
    fn answer(&mut self) -> Result<(Head, Vec<u8>), Error> {
        let head = head(&mut self.stream)?;
        let mut read = Vec::new();
        body(&mut self.stream, head.framing, &mut read)?;
        Ok((head, read))
    }
}

/// Checks the answer to [`PING`].
fn is_pong(body: &[u8]) -> Result<(), Error> {
    let message: Value = serde_json::from_slice(http::message(body))?;
    let is_right = message["id"] == 1 && message["result"].is_object();
    if is_right { Ok(()) } else { Err(Error::new(format!("a wrong answer to a ping: {message}"))) }
}

/// The headers of a request in a session.
fn of_session(id: &str) -> String {
    format!("MCP-Protocol-Version: {}\r\nMcp-Session-Id: {id}\r\n", Revision::Session)
}

/// Opens the stream of a session. Returns it after the head of the response, because a library need not send a first event.
fn listen(address: SocketAddr, host: &str, session: &str) -> Result<BufReader<TcpStream>, Error> {
    let mut stream = connect(address)?;
    let headers = of_session(session);
    let get = format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{headers}\r\n");
    stream.write_all(get.as_bytes())?;
    let mut reader = BufReader::new(stream);
    if !head(&mut reader)?.is_stream {
        return Err(Error::new("the answer to GET is not `text/event-stream`"));
    }
    reader.get_ref().set_nonblocking(true)?;
    Ok(reader)
}

/// Reads the bytes that an idle stream has received.
///
/// # Errors
/// If the stream has ended, or if it is not idle.
fn check_open(stream: &mut impl BufRead) -> Result<(), Error> {
    let mut received = Vec::new();
    loop {
        match stream.fill_buf() {
            Ok([]) => return Err(Error::new("the server closed a stream")),
            Ok(bytes) => {
                received.extend_from_slice(bytes);
                let length = bytes.len();
                stream.consume(length);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
        if received.len() > MOST_OF_STREAM {
            return Err(Error::new("a stream is not idle"));
        }
    }
    // The last chunk of a body has no bytes.
    let is_ended = received.starts_with(b"0\r\n") || received.windows(5).any(|window| window == b"\r\n0\r\n");
    if is_ended { Err(Error::new("the server ended a stream")) } else { Ok(()) }
}

fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect_timeout(&address, RESPONSE_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    Ok(stream)
}

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// The parts of the head of a response that this measurement reads.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    session: Option<String>,
    framing: Framing,
    /// The body is a stream of events.
    is_stream: bool,
}

/// Reads the head of a response.
fn head(reader: &mut impl BufRead) -> Result<Head, Error> {
    let mut head = Head { session: None, framing: Framing::Length(0), is_stream: false };
    let status = line(reader)?;
    if !status.starts_with("HTTP/1.1 20") {
        return Err(Error::new(format!("the server answered `{}`", status.trim_end())));
    }
    for _ in 0..MOST_HEADERS {
        let line = line(reader)?;
        if line.trim_end().is_empty() {
            return Ok(head);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Err(Error::new(format!("`{}` is not a header", line.trim_end())));
        };
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => head.session = Some(value.trim().to_owned()),
            "content-length" => head.framing = Framing::Length(value.trim().parse()?),
            "content-type" => {
                let essence = value.split(';').next().unwrap_or_default().trim();
                head.is_stream = essence.eq_ignore_ascii_case("text/event-stream");
            }
            "transfer-encoding" => head.framing = Framing::Chunked,
            _ => {}
        }
    }
    Err(Error::new("a head has too many headers"))
}

/// Reads a line of bounded length, with its line break.
fn line(reader: &mut impl BufRead) -> Result<String, Error> {
    let mut line = String::new();
    reader.take(LONGEST_LINE).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(line),
        false => Err(Error::new("a response ended within a line, or the line is too long")),
    }
}

/// Reads a body to its end.
fn body(reader: &mut impl BufRead, framing: Framing, body: &mut Vec<u8>) -> Result<(), Error> {
    match framing {
        Framing::Length(length) => part(reader, length, body),
        Framing::Chunked => loop {
            let line = line(reader)?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
            part(reader, size, body)?;
            // The line break after a chunk.
            part(reader, 2, &mut Vec::new())?;
            if size == 0 {
                return Ok(());
            }
        },
    }
}

/// Appends a part of a body.
fn part(reader: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> Result<(), Error> {
    if length > LONGEST_BODY {
        return Err(Error::new(format!("a part of a response has {length} bytes")));
    }
    let read = reader.take(length as u64).read_to_end(body)?;
    if read == length { Ok(()) } else { Err(Error::new("the connection ended within a response")) }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn reads_a_response_head() {
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nMCP-Session-Id: a\r\n\r\nrest",
                Some((Some("a"), Framing::Length(7), false)),
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Some((None, Framing::Chunked, false))),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n",
                Some((None, Framing::Length(0), true)),
            ),
            ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", Some((None, Framing::Length(0), false))),
            ("HTTP/1.1 202 Accepted\r\n\r\n", Some((None, Framing::Length(0), false))),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n", None),
            ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", None),
            (&format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(LONGEST_LINE as usize)), None),
            (&format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS)), None),
        ] {
            let expected = expected.map(|(session, framing, is_stream)| Head {
                session: session.map(str::to_owned),
                framing,
                is_stream,
            });
            assert_eq!(head(&mut text.as_bytes()).ok(), expected, "{text}");
        }
    }

    /// Parts that arrive one after the other, and then nothing or the end.
    struct Arriving {
        parts: Vec<&'static [u8]>,
        is_open: bool,
    }

    impl Read for Arriving {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.parts.pop() {
                Some(part) => {
                    buffer[..part.len()].copy_from_slice(part);
                    Ok(part.len())
                }
                None if self.is_open => Err(ErrorKind::WouldBlock.into()),
                None => Ok(0),
            }
        }
    }

    #[test]
    fn an_idle_stream_is_open_and_has_few_bytes() {
        for (parts, is_open, expected) in [
            (&[] as &[&'static [u8]], true, true),
            (&[b"4\r\nid: 0\r\n\r\n", b"b\r\n: keep-alive\r\n"], true, true),
            (&[b"4\r\nid:0\r\n"], true, true),
            (&[], false, false),
            (&[b"4\r\nid:0\r\n"], false, false),
            (&[b"0\r\n\r\n"], true, false),
            (&[b"4\r\nid:0\r\n0\r\n\r\n"], true, false),
            (&[b"4\r\nid:0\r\n", b"0\r\n\r\n"], true, false),
            (&[&[b'x'; MOST_OF_STREAM]], true, true),
            (&[&[b'x'; MOST_OF_STREAM], b"x"], true, false),
        ] {
            let parts: Vec<&[u8]> = parts.iter().rev().copied().collect();
            let mut stream = BufReader::new(Arriving { parts: parts.clone(), is_open });
            assert_eq!(check_open(&mut stream).is_ok(), expected, "{parts:?} {is_open}");
        }
    }

    #[test]
    fn a_part_of_a_growth_has_bytes() {
        for (before, after, expected) in [(1_000, 1_000 + 4_096, Some(2.0)), (1_000, 1_000, None), (1_000, 999, None)] {
            assert_eq!(each(before, after, 2).ok(), expected);
        }
    }

    #[test]
    fn a_pong_has_a_result() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true),
            ("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", true),
            (r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no session"}}"#, false),
            ("", false),
        ] {
            assert_eq!(is_pong(body.as_bytes()).is_ok(), expected, "{body}");
        }
    }

    #[test]
    fn reads_a_body_to_its_end() {
        for (framing, text, is_complete) in [
            (Framing::Length(4), "bodynext", true),
            (Framing::Chunked, "2;a=b\r\nbo\r\n2\r\ndy\r\n0\r\n\r\nnext", true),
            (Framing::Length(9), "body", false),
            (Framing::Chunked, "9\r\nbody", false),
            (Framing::Chunked, "", false),
        ] {
            let (mut reader, mut read) = (text.as_bytes(), Vec::new());
            let outcome = body(&mut reader, framing, &mut read);
            assert_eq!(outcome.is_ok(), is_complete, "{text}");
            if is_complete {
                assert_eq!((&*read, reader), (b"body" as &[u8], b"next" as &[u8]), "{text}");
            }
        }
    }
}
