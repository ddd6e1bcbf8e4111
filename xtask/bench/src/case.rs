//! The measured cases and the bytes of their requests.

use std::{fmt, io::Write, ops::Range, sync::Arc};

use mcp_client::protocol::ProtocolVersion;
use serde_json::{Value, json};

use crate::{
    auth::{Auth, Credential, Prover},
    error::Error,
    figure::Aim,
};

/// One case of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) call: Call,
    pub(crate) over: Over,
    /// Measured against the line loop that gathers its answers.
    pub(crate) gathered: bool,
    /// The provider of our server. The bare peer is then our server without authentication.
    pub(crate) auth: Option<Auth>,
    /// The wrong passwords in a second beside the calls. The bare peer is then our server without them.
    pub(crate) wrong_passwords: u32,
    /// The largest wanted ratio of the 99th percentiles of the times of calls: with wrong passwords by without them.
    pub(crate) most_p99: Option<f64>,
    /// The wanted ratio.
    pub(crate) aim: Aim,
    /// The calls in a second of CPU time that are wanted at least.
    pub(crate) least: Option<f64>,
}

/// The method or tool that a case calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Echo,
    List,
    Text,
    /// A session that begins with `initialize` and ends with DELETE.
    Open,
    /// The echo and the text through a gateway, whose server has the name `s`.
    RelayedEcho,
    RelayedText,
}

/// Over which transport, and how many calls are under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Http {
        connections: usize,
    },
    Stdio {
        depth: usize,
    },
    /// The client, over HTTP, at a bare server.
    Client {
        at_once: usize,
    },
    /// The client, over stdio, at a bare server.
    ClientStdio {
        at_once: usize,
    },
}

/// The tools of the server in the list case.
pub(crate) const TOOLS: usize = 1000;
/// The bytes of the large text.
const TEXT: usize = 1 << 20;
pub(crate) const ECHO_TEXT: &str = "The quick brown fox jumps over the lazy dog.";

const fn case(name: &'static str, title: &'static str, call: Call, over: Over, aim: Aim) -> Case {
    Case { name, title, call, over, gathered: false, auth: None, wrong_passwords: 0, most_p99: None, aim, least: None }
}

/// An echo over 32 connections with credentials.
const fn with_auth(name: &'static str, title: &'static str, auth: Auth, aim: Aim) -> Case {
    Case { auth: Some(auth), ..case(name, title, Call::Echo, http(32), aim) }
}

const fn http(connections: usize) -> Over {
    Over::Http { connections }
}

const fn stdio(depth: usize) -> Over {
    Over::Stdio { depth }
}

const fn client(at_once: usize) -> Over {
    Over::Client { at_once }
}

const fn least(ratio: f64) -> Aim {
    Aim::AtLeast(ratio)
}

pub(crate) const CASES: &[Case] = &[
    case("http-1", "HTTP echo, 1 connection", Call::Echo, http(1), least(0.95)),
    case("http-32", "HTTP echo, 32 connections", Call::Echo, http(32), least(0.90)),
    case("list", "HTTP, list of 1,000 tools", Call::List, http(4), least(1.2)),
    case("text", "HTTP, text of 1 MiB", Call::Text, http(4), least(0.90)),
    case("open-32", "initialize and DELETE, 32 connections", Call::Open, http(32), least(0.80)),
    case("stdio-1", "stdio echo, 1 call at a time", Call::Echo, stdio(1), least(0.92)),
    case("stdio-64", "stdio echo, 64 calls at once", Call::Echo, stdio(64), least(0.65)),
    Case {
        gathered: true,
        ..case("stdio-64-gathered", "stdio echo, 64 calls at once, gathered", Call::Echo, stdio(64), Aim::None)
    },
    case("stdio-list", "stdio, list of 1,000 tools", Call::List, stdio(4), least(0.90)),
    case("client-1", "client over HTTP, 1 call at a time", Call::Echo, client(1), least(0.95)),
    case("client-32", "client over HTTP, 32 calls at once", Call::Echo, client(32), least(0.90)),
    case(
        "client-stdio-32",
        "client over stdio, 32 calls at once",
        Call::Echo,
        Over::ClientStdio { at_once: 32 },
        Aim::AtLeastRmcp(2.0),
    ),
    with_auth("auth-jwt", "HTTP echo with JWT", Auth::Jwt, least(0.92)),
    with_auth("auth-api-key", "HTTP echo with an API key", Auth::ApiKey, least(0.95)),
    with_auth("auth-introspection", "HTTP echo with introspection", Auth::Introspection, least(0.92)),
    Case { least: Some(8_000.0), ..with_auth("auth-dpop", "HTTP echo with DPoP", Auth::Dpop, Aim::None) },
    Case {
        wrong_passwords: 1_000,
        most_p99: Some(3.0),
        ..with_auth("auth-guesses", "HTTP echo beside wrong passwords", Auth::Basic, Aim::None)
    },
];

impl Case {
    /// How many tools the server has.
    pub(crate) fn tools(&self) -> usize {
        if self.call == Call::List { TOOLS } else { 0 }
    }

    /// The revisions that have the call.
    pub(crate) fn revisions(&self) -> &'static [Revision] {
        if self.call == Call::Open { &[Revision::Session] } else { &Revision::ALL }
    }

    /// Whether the case measures other libraries too.
    pub(crate) fn has_peers(&self) -> bool {
        matches!(self.call, Call::Echo | Call::Text | Call::Open) && self.auth.is_none() && !self.gathered
    }
}

impl Call {
    fn method(self) -> &'static str {
        match self {
            Self::List => "tools/list",
            Self::Open => "initialize",
            _ => "tools/call",
        }
    }

    /// The value of the header `Mcp-Name`.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Echo => Some("echo"),
            Self::Text => Some("big"),
            Self::RelayedEcho => Some("s__echo"),
            Self::RelayedText => Some("s__big"),
            Self::List | Self::Open => None,
        }
    }

    fn params(self, revision: Revision) -> Value {
        let name = self.name();
        match self {
            Self::Echo | Self::RelayedEcho => json!({ "name": name, "arguments": { "text": ECHO_TEXT } }),
            Self::Text | Self::RelayedText => json!({ "name": name, "arguments": { "n": TEXT } }),
            Self::List => json!({}),
            Self::Open => revision.opening(),
        }
    }

    /// Checks that an answer is the right one.
    pub(crate) fn verify(self, answer: &[u8], id: u64) -> Result<(), Error> {
        let wrong = |part: &str| {
            let shown = String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
            Err(Error::new(format!("a wrong answer ({part}): {shown}")))
        };
        let message: Value = serde_json::from_slice(answer)?;
        if message["id"] != id {
            return wrong("id");
        }
        let result = &message["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        match self {
            Self::Echo | Self::RelayedEcho if text != ECHO_TEXT => wrong("text"),
            Self::Text | Self::RelayedText if text.len() != TEXT => wrong("length of the text"),
            Self::List if result["tools"].as_array().map(Vec::len) != Some(TOOLS) => wrong("number of tools"),
            Self::List if !result["nextCursor"].is_null() => wrong("more than one page"),
            Self::Open if result["protocolVersion"] != Revision::Session.name() => wrong("revision"),
            _ => Ok(()),
        }
    }
}

/// In which revision the requests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision {
    /// 2026-07-28: every request is independent.
    Stateless,
    /// 2025-11-25: in a session.
    Session,
}

impl Revision {
    pub(crate) const ALL: [Self; 2] = [Self::Stateless, Self::Session];

    /// Reads the date of a revision.
    pub(crate) fn parse(date: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|revision| revision.name() == date);
        found.ok_or_else(|| Error::new(format!("`{date}` is not a measured revision")))
    }

    pub(crate) fn version(self) -> ProtocolVersion {
        match self {
            Self::Stateless => ProtocolVersion::V2026_07_28,
            Self::Session => ProtocolVersion::V2025_11_25,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stateless => "2026-07-28",
            Self::Session => "2025-11-25",
        }
    }

    fn meta(self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": self.name(),
            "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        })
    }

    /// The message that opens a session.
    pub(crate) fn initialize(self) -> String {
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": self.opening() }).to_string()
    }

    fn opening(self) -> Value {
        json!({
            "protocolVersion": self.name(),
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "bench", "version": "1.0.0" },
        })
    }
}

/// The notification that follows the answer to `initialize`.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes of a request, in which only the id changes.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    id: Range<usize>,
    /// The ids of the next requests.
    ids: Range<u64>,
    /// The place of the proof, and the credential that makes a proof for each request.
    proof: Option<(Range<usize>, Arc<Prover>)>,
}

/// Ids have ten digits, so that all requests of a case are equally long, and so are the answers.
const FIRST_ID: u64 = 1_000_000_000;
const END_OF_IDS: u64 = 10_000_000_000;
/// Each lane has its own ids: enough for its calls in a round, and few enough for the lanes of all connections.
const IDS_PER_LANE: u64 = 5_000_000;
/// The lane of the call that is checked, and the lane of the first calls of connections. Connections have the lanes below.
pub(crate) const CHECK_LANE: usize = 1_798;
pub(crate) const WARM_LANE: usize = 1_799;

impl Template {
    /// A request alone.
    pub(crate) fn message(call: Call, revision: Revision) -> Self {
        Self::new(body(call, revision).into_bytes())
    }

    /// A request over stdio, with its line break.
    pub(crate) fn line(call: Call, revision: Revision) -> Self {
        let mut bytes = body(call, revision).into_bytes();
        bytes.push(b'\n');
        Self::new(bytes)
    }

    /// A request over HTTP.
    pub(crate) fn http(
        call: Call,
        revision: Revision,
        host: &str,
        session: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<Self, Error> {
        let mut headers = credential.map_or_else(|| Ok(String::new()), Credential::lines)?;
        // The client does not know the revision of a session before the answer to `initialize`.
        if call != Call::Open {
            headers.push_str(&format!("MCP-Protocol-Version: {revision}\r\n"));
        }
        if let Some(session) = session {
            headers.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        if revision == Revision::Stateless {
            headers.push_str(&format!("Mcp-Method: {}\r\n", call.method()));
            if let Some(name) = call.name() {
                headers.push_str(&format!("Mcp-Name: {name}\r\n"));
            }
        }
        let mut template = Self::new(post(host, &headers, &body(call, revision)));
        if let Some(prover) = credential.and_then(Credential::prover) {
            template.proof = Some((template.value_of("DPoP: ")?, Arc::clone(prover)));
        }
        Ok(template)
    }

    /// The place of the value of a header.
    fn value_of(&self, header: &str) -> Result<Range<usize>, Error> {
        let position = |from: usize, text: &str| {
            let found = self.bytes[from..].windows(text.len()).position(|window| window == text.as_bytes());
            found.map(|at| from + at).ok_or_else(|| Error::new(format!("a request lacks `{text}`")))
        };
        let start = position(0, header)? + header.len();
        Ok(start..position(start, "\r\n")?)
    }

    fn new(bytes: Vec<u8>) -> Self {
        let mark = FIRST_ID.to_string();
        let at = bytes.windows(mark.len()).position(|window| window == mark.as_bytes()).unwrap_or_default();
        Self { id: at..at + mark.len(), bytes, ids: FIRST_ID..END_OF_IDS, proof: None }
    }

    /// The same request with the ids of a lane.
    pub(crate) fn for_lane(&self, lane: usize) -> Self {
        let first = FIRST_ID.saturating_add((lane as u64).saturating_mul(IDS_PER_LANE));
        Self { ids: first..first.saturating_add(IDS_PER_LANE).min(END_OF_IDS), ..self.clone() }
    }

    /// The next request, and its id.
    ///
    /// # Errors
    /// If the lane has no more ids, or if the credential makes no proof of the expected length.
    pub(crate) fn next(&mut self) -> Result<(&[u8], u64), Error> {
        let id = self.ids.next().ok_or_else(|| Error::new("a lane of requests has no more ids"))?;
        write!(&mut self.bytes[self.id.clone()], "{id}")?;
        if let Some((place, prover)) = &self.proof {
            let proof = prover.proof()?;
            if proof.len() != place.len() {
                return Err(Error::new(format!("a proof has {} bytes, not {}", proof.len(), place.len())));
            }
            self.bytes[place.clone()].copy_from_slice(proof.as_bytes());
        }
        Ok((&self.bytes, id))
    }
}

fn body(call: Call, revision: Revision) -> String {
    let mut params = call.params(revision);
    if revision == Revision::Stateless {
        params["_meta"] = revision.meta();
    }
    json!({ "jsonrpc": "2.0", "id": FIRST_ID, "method": call.method(), "params": params }).to_string()
}

/// Returns a request of the tools over stdio.
pub(crate) fn list_line(revision: Revision, id: u64) -> String {
    let mut params = json!({});
    if revision == Revision::Stateless {
        params["_meta"] = revision.meta();
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params }).to_string() + "\n"
}

/// Returns a request of one page of the tools.
pub(crate) fn list_page(revision: Revision, host: &str, session: Option<&str>, cursor: Option<&str>) -> Vec<u8> {
    let mut params = json!({});
    if let Some(cursor) = cursor {
        params["cursor"] = cursor.into();
    }
    request(revision, host, session, "tools/list", None, params)
}

/// Returns a request of a call of a tool.
pub(crate) fn tool_call(revision: Revision, host: &str, session: Option<&str>, name: &str) -> Vec<u8> {
    let params = json!({ "name": name, "arguments": { "text": ECHO_TEXT } });
    request(revision, host, session, "tools/call", Some(name), params)
}

/// Returns a request of a call in a session that reports progress once.
pub(crate) fn step_call(host: &str, session: &str) -> Vec<u8> {
    let params = json!({ "name": "step", "arguments": {}, "_meta": { "progressToken": 1 } });
    request(Revision::Session, host, Some(session), "tools/call", None, params)
}

/// Returns the request that ends a session.
pub(crate) fn end_session(host: &str, session: &str) -> Vec<u8> {
    let revision = Revision::Session;
    format!(
        "DELETE /mcp HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1.0\r\nMCP-Protocol-Version: {revision}\r\n\
         Mcp-Session-Id: {session}\r\n\r\n"
    )
    .into_bytes()
}

/// Returns a request with the id 1.
pub(crate) fn request(
    revision: Revision,
    host: &str,
    session: Option<&str>,
    method: &str,
    name: Option<&str>,
    mut params: Value,
) -> Vec<u8> {
    let mut headers = format!("MCP-Protocol-Version: {revision}\r\n");
    if let Some(session) = session {
        headers.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
    }
    if revision == Revision::Stateless {
        params["_meta"] = revision.meta();
        headers.push_str(&format!("Mcp-Method: {method}\r\n"));
        if let Some(name) = name {
            headers.push_str(&format!("Mcp-Name: {name}\r\n"));
        }
    }
    post(host, &headers, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())
}

/// A POST to the endpoint, with the headers that every client sends.
pub(crate) fn post(host: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1.0\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &mut Template) -> String {
        String::from_utf8(template.next().unwrap().0.to_vec()).unwrap()
    }

    #[test]
    fn requests_differ_in_their_ids_only() {
        for revision in Revision::ALL {
            let template = Template::line(Call::Echo, revision);
            let (mut first, mut second) = (template.for_lane(0), template.for_lane(1));
            let (a, b, c) = (text(&mut first), text(&mut first), text(&mut second));
            assert!(a.contains("\"id\":1000000000,") && a.ends_with("}\n"), "{a}");
            assert_eq!(b, a.replace("1000000000", "1000000001"));
            assert_eq!(c, a.replace("1000000000", "1005000000"));
            assert_eq!(a.contains("_meta"), revision == Revision::Stateless);
        }
    }

    #[test]
    fn lanes_share_no_ids_and_have_an_end() {
        let template = Template::message(Call::Echo, Revision::Session);
        let lanes = [0, 1, 999, CHECK_LANE, WARM_LANE].map(|lane| template.for_lane(lane).ids);
        assert!(lanes.windows(2).all(|pair| pair[0].end <= pair[1].start), "{lanes:?}");
        for (lane, length) in [(0, IDS_PER_LANE), (WARM_LANE, IDS_PER_LANE), (WARM_LANE + 1, 0), (usize::MAX, 0)] {
            let mut template = template.for_lane(lane);
            assert_eq!(template.ids.clone().count() as u64, length, "{lane}");
            template.ids.start = template.ids.end.saturating_sub(1).max(template.ids.start);
            assert_eq!(template.next().is_ok(), length > 0, "{lane}");
            assert!(template.next().is_err(), "{lane}");
        }
    }

    #[test]
    fn http_requests_have_mirrored_headers_if_the_revision_requires_them() {
        let stateless = text(&mut Template::http(Call::Text, Revision::Stateless, "127.0.0.1:1", None, None).unwrap());
        for part in ["POST /mcp HTTP/1.1\r\n", "Host: 127.0.0.1:1\r\n", "Mcp-Method: tools/call\r\nMcp-Name: big\r\n"] {
            assert!(stateless.contains(part), "{part}: {stateless}");
        }
        let session =
            text(&mut Template::http(Call::List, Revision::Session, "127.0.0.1:1", Some("abc"), None).unwrap());
        assert!(session.contains("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: abc\r\n"), "{session}");
        assert!(!session.contains("Mcp-Method") && !session.contains("_meta"), "{session}");
    }

    #[test]
    fn rejects_wrong_responses() {
        let answer = |text: &str| {
            let result = json!({ "content": [{ "type": "text", "text": text }] });
            json!({ "jsonrpc": "2.0", "id": 7, "result": result }).to_string().into_bytes()
        };
        assert!(Call::Echo.verify(&answer(ECHO_TEXT), 7).is_ok());
        assert!(Call::Echo.verify(&answer(ECHO_TEXT), 8).is_err());
        assert!(Call::Echo.verify(&answer("no"), 7).is_err());
        assert!(Call::Text.verify(&answer("no"), 7).is_err());
        assert!(Call::List.verify(&answer("no"), 7).is_err());
        assert!(Call::Echo.verify(b"no", 7).is_err());
    }
}
