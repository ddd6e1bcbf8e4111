//! `bench memory`: the resident memory of the server for each idle session and each open stream.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use lexopt::{Arg, Parser};

use crate::{
    case::{INITIALIZED, Revision, post},
    cpu,
    error::Error,
    figure::{Aim, Doubt, Figure},
    library::Library,
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
    let ours = ServerMemory::measure(&Start { kind: "ours-http", ..Start::default() })?;
    let mut figures = [
        Figure::new("idle-session", "memory of an idle session", ours.session, "KiB", Aim::AtMost(SESSION_AIM)),
        Figure::new("open-stream", "memory of an open GET stream on top", ours.stream?, "KiB", Aim::AtMost(STREAM_AIM)),
    ];
    let mut before = format!("ours {} KiB", ours.before / 1024);
    for library in libraries {
        let start = || Ok(Start { kind: "http", program: Some(library.program("http")?), ..Start::default() });
        match start().and_then(|start| ServerMemory::measure(&start)) {
            Ok(grown) => {
                before += &format!(", {} {} KiB", library.name, grown.before / 1024);
                figures[0].peers.insert(library.name.to_owned(), grown.session);
                match grown.stream {
                    Ok(stream) => drop(figures[1].peers.insert(library.name.to_owned(), stream)),
                    Err(error) => {
                        eprintln!("the streams of {} are not measured: {error}", library.name);
                        figures[1].doubts = vec![Doubt::Incomplete];
                    }
                }
            }
            Err(error) => {
                eprintln!("{} is not measured: {error}", library.name);
                for figure in &mut figures {
                    figure.doubts = vec![Doubt::Incomplete];
                }
            }
        }
    }
    println!("\nresident memory, growth with {SESSIONS} sessions and {STREAMS} streams");
    for figure in &figures {
        println!("{figure}");
    }
    println!("the servers over HTTP before the first of these sessions: {before}");
    Ok(figures.into())
}

/// The memory of a server.
struct ServerMemory {
    /// The bytes before the first measured session.
    before: u64,
    /// The KiB of a session.
    session: f64,
    /// The KiB of a stream.
    stream: Result<f64, Error>,
}

impl ServerMemory {
    /// Starts a server and opens sessions and streams.
    fn measure(start: &Start) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut peer, address) = runtime.block_on(async {
            let mut peer = Peer::start(start)?;
            let address = peer.address().await?;
            Ok::<_, Error>((peer, address))
        })?;
        let host = address.to_string();
        let mut client = Client::open(address)?;
        client.sessions(&host, WARM_UP)?;
        let before = resident(&mut peer)?;
        let sessions = client.sessions(&host, SESSIONS)?;
        let session = each(before, resident(&mut peer)?, SESSIONS);
        let stream = Self::streams(&mut peer, address, &sessions);
        Ok(Self { before, session, stream })
    }

    /// Opens a stream of each of the first sessions. Returns the KiB of a stream.
    fn streams(peer: &mut Peer, address: SocketAddr, sessions: &[String]) -> Result<f64, Error> {
        let host = address.to_string();
        let mut streams = Vec::new();
        for session in &sessions[..WARM_UP_STREAMS] {
            streams.push(listen(address, &host, session)?);
        }
        let warm = resident(peer)?;
        for session in &sessions[WARM_UP_STREAMS..WARM_UP_STREAMS + STREAMS] {
            streams.push(listen(address, &host, session)?);
        }
        Ok(each(warm, resident(peer)?, STREAMS))
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
fn each(before: u64, after: u64, count: usize) -> f64 {
    after.saturating_sub(before) as f64 / count as f64 / 1024.0
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
            let ready = post(host, &of_session(&id), INITIALIZED);
            self.stream.get_mut().write_all(&ready)?;
            self.answer()?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Reads an answer: the id of the session that it opens.
    fn answer(&mut self) -> Result<Option<String>, Error> {
        let (id, framing) = head(&mut self.stream)?;
        skip(&mut self.stream, framing)?;
        Ok(id)
    }
}

/// The headers of a request in a session.
fn of_session(id: &str) -> String {
    format!("MCP-Protocol-Version: {}\r\nMcp-Session-Id: {id}\r\n", Revision::Session)
}

/// Opens the stream of a session. Returns it after the head of the response, because a library need not send a first event.
fn listen(address: SocketAddr, host: &str, session: &str) -> Result<TcpStream, Error> {
    let mut stream = connect(address)?;
    let headers = of_session(session);
    let get = format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{headers}\r\n");
    stream.write_all(get.as_bytes())?;
    let mut reader = BufReader::new(stream);
    head(&mut reader)?;
    Ok(reader.into_inner())
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

/// Reads the head of a response: the id of a session in it, and the framing of the body.
fn head(reader: &mut impl BufRead) -> Result<(Option<String>, Framing), Error> {
    let (mut session, mut framing, mut line) = (None, Framing::Length(0), String::new());
    reader.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 20") {
        return Err(Error::new(format!("the server answered `{}`", line.trim_end())));
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok((session, framing)) };
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => session = Some(value.trim().to_owned()),
            "content-length" => framing = Framing::Length(value.trim().parse()?),
            "transfer-encoding" => framing = Framing::Chunked,
            _ => {}
        }
    }
}

/// Reads a body to its end.
fn skip(reader: &mut impl BufRead, framing: Framing) -> Result<(), Error> {
    let length = match framing {
        Framing::Length(length) => length,
        Framing::Chunked => loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
            if size == 0 {
                // The line break after the last chunk.
                break 2;
            }
            skip(reader, Framing::Length(size + 2))?;
        },
    };
    let read = io::copy(&mut reader.take(length as u64), &mut io::sink())?;
    if read == length as u64 { Ok(()) } else { Err(Error::new("the connection ended within a response")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_session_and_length_from_a_response_head() {
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nMCP-Session-Id: a\r\n\r\nrest",
                Some((Some("a".into()), Framing::Length(7))),
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Some((None, Framing::Chunked))),
            ("HTTP/1.1 202 Accepted\r\n\r\n", Some((None, Framing::Length(0)))),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", None),
        ] {
            assert_eq!(head(&mut text.as_bytes()).ok(), expected, "{text}");
        }
    }

    #[test]
    fn reads_a_body_to_its_end() {
        for (framing, text, rest) in [
            (Framing::Length(4), "bodynext", Some("next")),
            (Framing::Chunked, "2;a=b\r\nbo\r\n2\r\ndy\r\n0\r\n\r\nnext", Some("next")),
            (Framing::Length(9), "body", None),
            (Framing::Chunked, "9\r\nbody", None),
            (Framing::Chunked, "", None),
        ] {
            let mut reader = text.as_bytes();
            let outcome = skip(&mut reader, framing);
            assert_eq!(outcome.is_ok().then_some(reader), rest.map(str::as_bytes), "{text}");
        }
    }
}
