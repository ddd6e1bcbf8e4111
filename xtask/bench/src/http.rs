//! Load over HTTP/1.1 on persistent connections.
//!
//! The generator writes prepared requests and parses only the framing of a response. It must use less CPU time than the
//! server.

use std::{
    fmt,
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    auth::Credential,
    case::{CHECK_LANE, Call, INITIALIZED, Revision, Template, WARM_LANE, end_session, post},
    error::Error,
    report::median_time,
};

const BUFFER: usize = 256 << 10;
/// The longest body that a caller keeps.
const LONGEST_BODY: usize = 64 << 20;

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The part of the buffer that is read and not yet used.
    start: usize,
    end: usize,
}

/// The parts of the head of a response that the load reads.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    session: Option<String>,
}

/// The accepted lengths of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lengths {
    least: usize,
    most: usize,
}

impl Lengths {
    pub(crate) fn exactly(length: usize) -> Self {
        Self { least: length, most: length }
    }

    /// The lengths of responses whose ids vary, from the length of a checked response.
    pub(crate) fn near(length: usize) -> Self {
        Self { least: length / 10 * 9, most: length + length / 10 + 64 }
    }

    /// Whether a number of responses with this sum of lengths can have these lengths.
    pub(crate) fn contain(self, count: u64, sum: u64) -> bool {
        (count * self.least as u64..=count * self.most as u64).contains(&sum)
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { write!(f, "{}", self.least) } else { write!(f, "{} to {}", self.least, self.most) }
    }
}

/// The parsed head of a response and the end of its body.
pub(crate) struct Answer {
    status: u16,
    session: Option<String>,
    /// The bytes of the body.
    pub(crate) length: usize,
    /// The body, if the caller requested it.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }
}

/// The calls of a round.
///
/// The statistics need CPU time that does not belong to the round, so they are computed on request: after the CPU times are read.
pub(crate) struct Driven {
    times: Vec<Duration>,
    /// The end of the last call.
    pub(crate) end: Instant,
}

impl Driven {
    pub(crate) fn calls(&self) -> u64 {
        self.times.len() as u64
    }

    /// The median of the times of the calls.
    pub(crate) fn median(&mut self) -> Option<Duration> {
        median_time(&mut self.times)
    }

    /// The 99th percentile of the times of the calls.
    pub(crate) fn p99(&mut self) -> Option<Duration> {
        let place = self.times.len().saturating_sub(1) * 99 / 100;
        (!self.times.is_empty()).then(|| *self.times.select_nth_unstable(place).1)
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER], start: 0, end: 0 })
    }

    /// Sends a request and reads the response. The body is returned on demand only.
    pub(crate) async fn call(&mut self, request: &[u8], keep: bool) -> Result<Answer, Error> {
        self.stream.write_all(request).await?;
        let head = self.head().await?;
        let mut body = Vec::new();
        let length = if head.chunked {
            let mut length = 0;
            loop {
                let line = self.line().await?;
                let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
                self.take(size, keep.then_some(&mut body)).await?;
                if !self.line().await?.is_empty() {
                    return Err(Error::new("a chunk does not end where it should"));
                }
                if size == 0 {
                    break length;
                }
                length += size;
            }
        } else {
            let length = head.length.unwrap_or(0);
            self.take(length, keep.then_some(&mut body)).await?;
            length
        };
        Ok(Answer { status: head.status, session: head.session, length, body })
    }

    /// Ends a session with DELETE.
    async fn end(&mut self, host: &str, session: Option<&str>) -> Result<(), Error> {
        let session = session.ok_or_else(|| Error::new("`initialize` opened no session"))?;
        match self.call(&end_session(host, session), false).await?.status {
            200..=204 => Ok(()),
            status => Err(Error::new(format!("DELETE was answered with {status}"))),
        }
    }

    /// Sends a request, and reads its stream until the end. Returns the time until the chunk with `text`.
    pub(crate) async fn event(&mut self, request: &[u8], text: &str) -> Result<Duration, Error> {
        let start = Instant::now();
        self.stream.write_all(request).await?;
        let head = self.head().await?;
        if head.status != 200 || !head.chunked {
            return Err(Error::new(format!("status {}, not 200 with a stream", head.status)));
        }
        let (mut found, mut body) = (None, Vec::new());
        loop {
            let line = self.line().await?;
            let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
            self.take(size, Some(&mut body)).await?;
            if found.is_none() && body.windows(text.len()).any(|window| window == text.as_bytes()) {
                found = Some(start.elapsed());
            }
            self.line().await?;
            if size == 0 {
                return found.ok_or_else(|| Error::new(format!("a stream without `{text}`")));
            }
        }
    }

    /// Reads more bytes behind those that are there.
    async fn fill(&mut self) -> Result<(), Error> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = self.stream.read(&mut self.buffer[self.end..]).await?;
        if read == 0 {
            return Err(Error::new("the connection or the buffer ended within a response"));
        }
        self.end += read;
        Ok(())
    }

    async fn head(&mut self) -> Result<Head, Error> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = parse_head(&unread[..at])?;
                self.start += at + 4;
                return Ok(head);
            }
            self.fill().await?;
        }
    }

    async fn line(&mut self) -> Result<String, Error> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = unread.windows(2).position(|window| window == b"\r\n") {
                let line = String::from_utf8_lossy(&unread[..at]).into_owned();
                self.start += at + 2;
                return Ok(line);
            }
            self.fill().await?;
        }
    }

    /// Uses up some bytes of a body.
    async fn take(&mut self, mut length: usize, mut keep: Option<&mut Vec<u8>>) -> Result<(), Error> {
        while length > 0 {
            if self.start == self.end {
                self.fill().await?;
            }
            let some = length.min(self.end - self.start);
            if let Some(keep) = &mut keep {
                if keep.len() > LONGEST_BODY {
                    return Err(Error::new("a response is too long"));
                }
                keep.extend_from_slice(&self.buffer[self.start..self.start + some]);
            }
            self.start += some;
            length -= some;
        }
        Ok(())
    }
}

/// The message in a body: the body itself, or the last event with data.
pub(crate) fn message(body: &[u8]) -> &[u8] {
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let mut data = body.split(|byte| *byte == b'\n').rev().filter_map(|line| line.strip_prefix(b"data:"));
    let last = data.find(|data| !data.trim_ascii().is_empty()).filter(|_| !is_json);
    last.unwrap_or(body).trim_ascii()
}

fn parse_head(head: &[u8]) -> Result<Head, Error> {
    let text = std::str::from_utf8(head)?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let mut parsed = Head { status: status.ok_or_else(|| Error::new("not HTTP/1.1"))?, ..Head::default() };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            parsed.length = Some(value.parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            parsed.session = Some(value.to_owned());
        }
    }
    Ok(parsed)
}

/// Opens the session that the revision needs, if it needs one.
///
/// # Errors
/// If the server opens no session.
pub(crate) async fn open_session(
    address: SocketAddr,
    revision: Revision,
    credential: Option<&Credential>,
) -> Result<Option<String>, Error> {
    let session = initialize(address, revision, credential).await?;
    if session.is_none() && revision == Revision::Session {
        return Err(Error::new("`initialize` opened no session"));
    }
    Ok(session)
}

/// Sends the first messages of the revision. Returns the id of the session; none if the server has no sessions.
pub(crate) async fn initialize(
    address: SocketAddr,
    revision: Revision,
    credential: Option<&Credential>,
) -> Result<Option<String>, Error> {
    if revision == Revision::Stateless {
        return Ok(None);
    }
    let host = address.to_string();
    let mut connection = Connection::open(address).await?;
    let authorization = || credential.map_or_else(|| Ok(String::new()), Credential::lines);
    let opened = connection.call(&post(&host, &authorization()?, &revision.initialize()), true).await?;
    if opened.status != 200 {
        let body = String::from_utf8_lossy(&opened.body).into_owned();
        return Err(Error::new(format!("`initialize` was answered with {}: {body}", opened.status)));
    }
    let mut headers = authorization()? + &format!("MCP-Protocol-Version: {revision}\r\n");
    if let Some(id) = &opened.session {
        headers.push_str(&format!("Mcp-Session-Id: {id}\r\n"));
    }
    let noticed = connection.call(&post(&host, &headers, INITIALIZED), false).await?;
    if noticed.status != 202 {
        return Err(Error::new(format!("`initialized` was answered with {}", noticed.status)));
    }
    Ok(opened.session)
}

/// The load of one round on one server.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) call: Call,
    pub(crate) revision: Revision,
    pub(crate) session: Option<&'a str>,
    pub(crate) credential: Option<&'a Credential>,
}

impl Target<'_> {
    fn template(&self) -> Result<Template, Error> {
        Template::http(self.call, self.revision, &self.address.to_string(), self.session, self.credential)
    }

    /// Makes one call. Returns its response and its id.
    pub(crate) async fn once(&self) -> Result<(Vec<u8>, u64), Error> {
        let mut connection = Connection::open(self.address).await?;
        let mut template = self.template()?.for_lane(CHECK_LANE);
        let (request, id) = template.next()?;
        let answer = connection.call(request, true).await?;
        if answer.status != 200 {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Error::new(format!("status {}: {body}", answer.status)));
        }
        Ok((answer.body, id))
    }

    /// Opens the connections of a round.
    pub(crate) async fn connect(&self, count: usize) -> Result<Vec<Connection>, Error> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(Connection::open(self.address).await?);
        }
        Ok(connections)
    }

    /// Makes one call on each connection, so that a round does not contain the start of its connections.
    pub(crate) async fn warm(&self, connections: &mut [Connection]) -> Result<(), Error> {
        let mut template = self.template()?.for_lane(WARM_LANE);
        for connection in connections {
            let answer = connection.call(template.next()?.0, false).await?;
            if answer.status != 200 {
                return Err(Error::new(format!("status {} of a first call", answer.status)));
            }
        }
        Ok(())
    }

    /// Calls on all connections until the deadline. An answer of another length is a failure. The calls of
    /// [`Call::Open`] end their sessions too.
    pub(crate) async fn drive(
        &self,
        connections: Vec<Connection>,
        deadline: Instant,
        expected: Lengths,
    ) -> Result<Driven, Error> {
        let template = self.template()?;
        let opens = (self.call == Call::Open).then(|| self.address.to_string());
        let mut workers = JoinSet::new();
        for (n, mut connection) in connections.into_iter().enumerate() {
            let mut template = template.for_lane(n);
            let opens = opens.clone();
            workers.spawn(async move {
                let (mut times, mut start) = (Vec::new(), Instant::now());
                while start < deadline {
                    let answer = connection.call(template.next()?.0, false).await?;
                    if answer.status != 200 || !expected.contain(1, answer.length as u64) {
                        let text = format!("status {} with {} bytes", answer.status, answer.length);
                        return Err(Error::new(format!("{text}, not 200 with {expected}")));
                    }
                    if let Some(host) = &opens {
                        connection.end(host, answer.session.as_deref()).await?;
                    }
                    let end = Instant::now();
                    times.push(end - start);
                    start = end;
                }
                Ok::<_, Error>(times)
            });
        }
        let mut times = Vec::new();
        while let Some(outcome) = workers.join_next().await {
            times.append(&mut outcome??);
        }
        Ok(Driven { times, end: Instant::now() })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_round_has_the_99th_percentile_of_its_times() {
        let millis = |count: u64| (1..=count).rev().map(Duration::from_millis).collect();
        for (count, calls, p99) in [(100, 100, Some(99)), (1, 1, Some(1)), (0, 0, None)] {
            let mut driven = Driven { times: millis(count), end: Instant::now() };
            assert_eq!((driven.calls(), driven.p99()), (calls, p99.map(Duration::from_millis)));
        }
    }

    #[test]
    fn sums_of_responses_have_bounds() {
        for (lengths, count, sum, expected) in [
            (Lengths::exactly(100), 3, 300, true),
            (Lengths::exactly(100), 3, 301, false),
            (Lengths::exactly(100), 0, 0, true),
            (Lengths::near(1_000), 2, 1_800, true),
            (Lengths::near(1_000), 2, 1_799, false),
            (Lengths::near(1_000), 1, 1_164, true),
            (Lengths::near(1_000), 1, 1_165, false),
        ] {
            assert_eq!(lengths.contain(count, sum), expected, "{lengths} {count} {sum}");
        }
    }

    #[test]
    fn finds_the_message_of_a_body() {
        for (body, expected) in [
            ("{\"id\":1}", "{\"id\":1}"),
            ("id: 0\r\ndata: \r\n\r\ndata: {\"id\":1}\r\n\r\n", "{\"id\":1}"),
            ("data:{}\ndata:\n\n", "{}"),
            ("", ""),
        ] {
            assert_eq!(message(body.as_bytes()), expected.as_bytes(), "{body}");
        }
    }

    #[test]
    fn reads_heads() {
        let head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nmcp-session-id: ab").unwrap();
        assert_eq!(head, Head { status: 200, length: Some(12), chunked: false, session: Some("ab".into()) });
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked").unwrap().chunked);
        assert!(parse_head(b"HTTP/1.0 200 OK").is_err() && parse_head(b"").is_err());
    }

    #[test]
    fn reads_bodies_of_both_framings_on_one_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let serving = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                for answer in [
                    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                    "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
                ] {
                    assert_eq!(stream.read_u8().await.unwrap(), b'?');
                    // In two parts, the second of which begins within a body or a line break.
                    let (first, second) = answer.split_at(answer.len() - 3);
                    stream.write_all(first.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    tokio::task::yield_now().await;
                    stream.write_all(second.as_bytes()).await.unwrap();
                }
            });
            let mut connection = Connection::open(address).await.unwrap();
            for (status, body) in [(200, "hello"), (200, "hello"), (202, "")] {
                let answer = connection.call(b"?", true).await.unwrap();
                assert_eq!((answer.status, &*answer.body, answer.length), (status, body.as_bytes(), body.len()));
            }
            serving.await.unwrap();
        });
    }
}
