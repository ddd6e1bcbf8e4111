//! Sends any request to an endpoint with a chain of providers: a line with method and target, lines with headers, an empty line, and
//! the body.
//!
//! The headers `authorization`, `x-api-key` and `dpop` have placeholders: `{key}`, `{basic}`, `{bearer}`, `{bound}` (a token that is
//! bound to a key) and `{proof}` are valid credentials. `mac:` and `sign:` before a header and claims, with a tab between them, make a
//! token and a proof with a valid signature. In claims, `{ath}` is the hash of the token and `{jkt}` the thumbprint of the key.
//! `{session}` in a header and `{task}` in the body are a session and a task of the caller with the API key.
//!
//! A tool runs for the owner of valid credentials only. Without credentials, no request of the endpoint succeeds. A proof is accepted
//! once, and for its own method, URL and token. A session and a task belong to their caller. The headers that mirror arguments of a
//! stateless call equal them. No answer has a secret.

#![no_main]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use fuzz::{Answer, expanded, fuzz_target, in_session, isolated, request, secret_for, send};
use http::{HeaderValue, Request};
use http_body_util::Full;
use mcp_auth::{ApiKeys, Basic, Chain, Dpop, Jwt};
use mcp_protocol::{Principal, ProtocolVersion, mirror};
use mcp_server_core::{Context, RawArgs, Server, TaskSupport, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use ring::{
    digest, hmac,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

const ISSUER: &str = "https://as.example";
const PUBLIC: &str = "https://mcp.example.com/mcp";
/// The text of the result of the task.
const TASK_RESULT: &str = "the result of the task";

/// A run of a tool.
struct Run {
    tool: &'static str,
    subject: Option<String>,
    session: Option<String>,
    version: ProtocolVersion,
    arguments: Value,
}

type Runs = Arc<Mutex<Vec<Run>>>;

/// The secrets of one input.
struct Secrets {
    key: String,
    password: String,
    hmac: String,
    signer: Ed25519KeyPair,
}

/// A token in the request.
struct Token {
    text: String,
    claims: Value,
}

/// A proof in the request.
struct Proof {
    header: Value,
    claims: Value,
}

/// The credentials of the request.
#[derive(Default)]
struct Given {
    has_key: bool,
    has_password: bool,
    tokens: Vec<Token>,
    proofs: Vec<Proof>,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn hash(text: &str) -> String {
    encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

impl Secrets {
    fn new(data: &[u8]) -> Self {
        let seed: [u8; 32] = secret_for(data, 3).as_bytes()[7..39].try_into().unwrap();
        let [key, password, hmac] = [0, 1, 2].map(|number| secret_for(data, number));
        Self { key, password, hmac, signer: Ed25519KeyPair::from_seed_unchecked(&seed).unwrap() }
    }

    fn jwk(&self) -> Value {
        json!({ "crv": "Ed25519", "kty": "OKP", "x": encode(self.signer.public_key()) })
    }

    fn thumbprint(&self) -> String {
        hash(&self.jwk().to_string())
    }

    fn service(&self, runs: &Runs) -> McpService {
        let password = digest::digest(&digest::SHA256, self.password.as_bytes());
        let password: String = password.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let auth = Chain::new()
            .with(Dpop::new(Jwt::hs256(ISSUER, self.hmac.as_bytes()).unwrap()))
            .with(ApiKeys::new().key(&self.key, Principal::new("key")).unwrap())
            .with(Basic::new("fuzz").user("ann", &password, Principal::new("ann")).unwrap());
        let recording = |tool: &'static str, text: &'static str| {
            let runs = Arc::clone(runs);
            move |context: Context, RawArgs(arguments): RawArgs| {
                let run = Run {
                    tool,
                    subject: context.principal().map(|principal| principal.subject.clone()),
                    session: context.session_id().map(str::to_owned),
                    version: context.version(),
                    arguments: arguments.into(),
                };
                runs.lock().unwrap().push(run);
                async move { text }
            }
        };
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let schema = json!({ "type": "object", "properties": { "region": region } });
        let job = tool("job", recording("job", TASK_RESULT)).input_schema(json!({ "type": "object" }));
        let job = job.task(TaskSupport::Required);
        Server::builder("fuzz", "1")
            .page_size(1)
            .tool(tool("who", recording("who", "who")).input_schema(json!({ "type": "object" })))
            .tool(tool("route", recording("route", "route")).input_schema(schema))
            .tool(job)
            .build()
            .into_service(
                HttpConfig::new()
                    .public_url(PUBLIC)
                    .allowed_hosts(["localhost"])
                    .authenticate(auth)
                    .sse("/sse", "/messages")
                    .health("/health"),
            )
    }

    fn token(&self, header: &str, claims: &str) -> Option<Token> {
        let message = format!("{}.{}", encode(header), encode(claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, self.hmac.as_bytes()), message.as_bytes());
        Some(Token { text: format!("{message}.{}", encode(tag)), claims: serde_json::from_str(claims).ok()? })
    }

    fn valid_token(&self, subject: &str, is_bound: bool) -> Option<Token> {
        let mut claims = json!({ "iss": ISSUER, "aud": PUBLIC, "exp": now() + 600, "sub": subject });
        if is_bound {
            claims["cnf"] = json!({ "jkt": self.thumbprint() });
        }
        self.token(r#"{"alg":"HS256","typ":"at+jwt"}"#, &claims.to_string())
    }

    fn proof(&self, header: &str, claims: &str) -> Option<(String, Proof)> {
        let message = format!("{}.{}", encode(header), encode(claims));
        let text = format!("{message}.{}", encode(self.signer.sign(message.as_bytes())));
        let (header, claims) = (serde_json::from_str(header).ok()?, serde_json::from_str(claims).ok()?);
        Some((text, Proof { header, claims }))
    }

    /// Replaces the placeholders in a header with credentials.
    fn fill(&self, value: &[u8], method: &str, given: &mut Given) -> Option<Vec<u8>> {
        let has = |name: &str| value.windows(name.len()).any(|window| window == name.as_bytes());
        given.has_key |= has("{key}");
        given.has_password |= has("{basic}");
        let basic = BASE64_STANDARD.encode(format!("ann:{}", self.password));
        let mut values = Vec::from([("{key}", self.key.clone()), ("{basic}", basic)]);
        for (name, subject, is_bound) in [("{bearer}", "bearer", false), ("{bound}", "bound", true)] {
            if has(name) {
                let token = self.valid_token(subject, is_bound)?;
                values.push((name, token.text.clone()));
                given.tokens.push(token);
            }
        }
        let ath = given.tokens.last().map(|token| hash(&token.text)).unwrap_or_default();
        let header = json!({ "alg": "EdDSA", "typ": "dpop+jwt", "jwk": self.jwk() }).to_string();
        if has("{proof}") {
            let claims = json!({ "htm": method, "htu": PUBLIC, "iat": now(), "jti": "1", "ath": ath });
            let (text, proof) = self.proof(&header, &claims.to_string())?;
            values.push(("{proof}", text));
            given.proofs.push(proof);
        }
        let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let value = expanded(value, &values);
        let marks: [(&[u8], bool); 2] = [(b"mac:", true), (b"sign:", false)];
        for (mark, is_token) in marks {
            let Some(at) = value.windows(mark.len()).position(|window| window == mark) else { continue };
            let (start, parts) = (&value[..at], &value[at + mark.len()..]);
            let (time, jwk) = (now().to_string(), self.jwk().to_string());
            let thumbprint = self.thumbprint();
            let names = [("{ath}", &*ath), ("{jkt}", &*thumbprint), ("{now}", &*time), ("{jwk}", &*jwk)];
            let parts = String::from_utf8(expanded(parts, &names)).ok()?;
            let (header, claims) = parts.split_once('\t')?;
            let text = if is_token {
                let token = self.token(header, claims)?;
                let text = token.text.clone();
                given.tokens.push(token);
                text
            } else {
                let (text, proof) = self.proof(header, claims)?;
                given.proofs.push(proof);
                text
            };
            return Some([start, text.as_bytes()].concat());
        }
        Some(value)
    }

    /// Opens a session with the API key.
    async fn session(&self, service: &McpService) -> String {
        let info = json!({ "name": "f", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let opening = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = self.send(service, in_session("", &opening)).await;
        let session = answer.header("mcp-session-id").to_owned();
        assert!(!session.is_empty(), "{answer:?}");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.send(service, in_session(&session, &ready)).await;
        session
    }

    /// Creates a task in a session, and waits for its end.
    async fn task(&self, service: &McpService, session: &str, runs: &Runs) -> String {
        let params = json!({ "name": "job", "task": {} });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let created = self.send(service, in_session(session, &call)).await.json();
        let id = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {created}"));
        while runs.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        id.to_owned()
    }

    async fn send(&self, service: &McpService, mut request: Request<Full<Bytes>>) -> Answer {
        request.headers_mut().insert("x-api-key", HeaderValue::from_str(&self.key).unwrap());
        send(service, request).await
    }

    /// Whether a text has a secret.
    fn is_shown(&self, given: &Given, text: &[u8]) -> bool {
        let tokens = given.tokens.iter().map(|token| &token.text);
        let has = |secret: &String| text.windows(secret.len()).any(|window| window == secret.as_bytes());
        [&self.key, &self.password, &self.hmac].into_iter().chain(tokens).any(has)
    }
}

impl Given {
    fn is_empty(&self) -> bool {
        !self.has_key && !self.has_password && self.tokens.is_empty()
    }

    /// Whether the credentials belong to a subject.
    fn permits(&self, subject: &str, method: &str) -> bool {
        (self.has_key && subject == "key")
            || (self.has_password && subject == "ann")
            || self.tokens.iter().any(|token| {
                let is_subject =
                    token.claims.as_object().is_some_and(|claims| claims.values().any(|own| own == subject));
                let is_bound = token.claims.get("cnf").is_some_and(|confirmation| !confirmation.is_null());
                is_subject && (!is_bound || self.proofs.iter().any(|proof| proof.is_for(token, method)))
            })
    }
}

impl Proof {
    /// Whether the proof is for a token and a request of the endpoint.
    fn is_for(&self, token: &Token, method: &str) -> bool {
        let typ = self.header["typ"].as_str().unwrap_or_default();
        let age = self.claims["iat"].as_f64().map_or(f64::MAX, |time| (time - now() as f64).abs());
        typ.eq_ignore_ascii_case("dpop+jwt")
            && self.claims["htm"] == method
            && self.claims["htu"].as_str().is_some_and(|url| url.to_ascii_lowercase().contains("mcp.example.com"))
            && self.claims["ath"] == hash(&token.text)
            && age < 310.0
    }
}

/// Checks a run of a tool.
fn check(run: &Run, given: &Given, request: &Request<Full<Bytes>>, session: &str) {
    let Run { tool, subject, version, arguments, .. } = run;
    let subject = subject.as_deref().unwrap_or_else(|| panic!("{tool} ran for an anonymous caller"));
    assert!(given.permits(subject, request.method().as_str()), "{tool} ran for {subject}");
    if run.session.as_deref().is_some_and(|own| own == session) {
        assert_eq!(subject, "key", "another caller used the session");
    }
    if *tool == "route" && version.is_stateless() {
        let mut values = request.headers().get_all("mcp-param-region").iter();
        let (value, second) = (values.next(), values.next());
        assert_eq!(second, None);
        let region = arguments.get("region").and_then(Value::as_str);
        let decoded = value.and_then(|value| mirror::decode(value.to_str().ok()?.trim()));
        assert_eq!(decoded.as_deref(), region, "{value:?}");
    }
}

async fn run(data: &[u8]) {
    let end = data.windows(2).position(|window| window == b"\n\n").unwrap_or(data.len());
    let (head, body) = (&data[..end], data.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|byte| *byte == b'\n');
    let Some(first) = lines.next() else { return };
    let Some(space) = first.iter().position(|byte| *byte == b' ') else { return };
    let (method, target) = (&first[..space], &first[space + 1..]);
    let (secrets, runs) = (Secrets::new(data), Runs::default());
    let service = secrets.service(&runs);
    let has = |text: &[u8], name: &[u8]| text.windows(name.len()).any(|window| window == name);
    let has_task = has(body, b"{task}");
    let has_session = has_task || has(head, b"{session}");
    let session = if has_session { secrets.session(&service).await } else { String::new() };
    let task = if has_task { secrets.task(&service, &session, &runs).await } else { String::new() };
    runs.lock().unwrap().clear();

    let mut given = Given::default();
    let mut headers: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        let value = match &name[..] {
            b"authorization" | b"x-api-key" | b"dpop" => {
                secrets.fill(value, &String::from_utf8_lossy(method), &mut given)
            }
            _ => Some(expanded(value, &[("{session}", &*session), ("{task}", &*task)])),
        };
        let Some(value) = value else { return };
        headers.push((name, value));
    }
    let headers: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let body = expanded(body, &[("{task}", &*task)]);
    let Some(request) = request(method, target, &headers, &body) else { return };

    let answer = send(&service, request.clone()).await;
    assert!(answer.status.as_u16() < 500 || answer.status == 503, "{answer:?}");
    let shown = format!("{:?}", answer.headers);
    assert!(!secrets.is_shown(&given, &answer.body) && !secrets.is_shown(&given, shown.as_bytes()), "{answer:?}");
    let is_of_endpoint = matches!(request.uri().path(), "/mcp" | "/sse" | "/messages");
    let opens = ["GET", "POST", "DELETE"].contains(&request.method().as_str());
    if given.is_empty() && is_of_endpoint && opens {
        assert!(answer.status.is_client_error(), "{answer:?}");
    }
    assert!(given.has_key || !has(&answer.body, TASK_RESULT.as_bytes()), "{answer:?}");
    // A task can begin after the answer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let done = std::mem::take(&mut *runs.lock().unwrap());
    for run in &done {
        check(run, &given, &request, &session);
    }
    let is_bound = |run: &Run| run.subject.as_deref().is_some_and(|subject| !["key", "ann"].contains(&subject));
    if !given.proofs.is_empty() && done.iter().any(is_bound) {
        let has_scheme = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().starts_with(b"dpop");
        if request.headers().get("authorization").is_some_and(has_scheme) {
            let answer = send(&service, request).await;
            assert!(answer.status.is_client_error(), "a proof was accepted twice: {answer:?}");
            assert!(runs.lock().unwrap().is_empty(), "a tool ran for a repeated proof");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    isolated(run(data));
});
