//! The program itself: the line that it prints, logins at its authorization server, and its sessions.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::digest;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The running program. The drop of this value kills it.
struct Program {
    child: Child,
    line: Value,
}

impl Program {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_protected"));
        command.args(["--port", "0"]).args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, line: serde_json::from_str(&line).unwrap() }
    }

    fn url(&self) -> &str {
        self.line["url"].as_str().unwrap()
    }

    /// Returns the header of a printed credential.
    fn header(&self, value: &Value) -> String {
        format!("{}: {}\r\n", self.line["header"].as_str().unwrap(), value.as_str().unwrap())
    }

    /// Sends a message of the stateless revision.
    fn stateless(&self, credential: &str, method: &str, mut params: Value) -> Reply {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let headers = format!("{credential}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
        self.post(&headers, method, &params)
    }

    /// Sends a message of a session.
    fn legacy(&self, credential: &str, session: &str, method: &str, params: &Value) -> Reply {
        let headers = format!("{credential}Mcp-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n");
        self.post(&headers, method, params)
    }

    fn post(&self, headers: &str, method: &str, params: &Value) -> Reply {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let headers =
            format!("{headers}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n");
        send("POST", self.url(), &headers, &message)
    }

    /// Opens an anonymous session and returns its id.
    fn anonymous_session(&self) -> String {
        self.initialize("").header("mcp-session-id").unwrap()
    }

    fn initialize(&self, credential: &str) -> Reply {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
        });
        self.post(credential, "initialize", &params)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim());
        values.next().map(str::to_owned)
    }

    /// The JSON document of the body, or of the last event of the stream.
    fn json(&self) -> Value {
        let body = self.body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&self.body);
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn send(method: &str, url: &str, headers: &str, body: &str) -> Reply {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

#[test]
fn each_provider_prints_credentials_that_the_server_accepts() {
    for (provider, client) in [
        ("oauth", "direct"),
        ("introspection", "direct"),
        ("jwt-hs256", "protected"),
        ("api-key", "protected"),
        ("basic", "protected"),
        ("static", "protected"),
    ] {
        let program = Program::start(&["--provider", provider]);
        assert_eq!(program.line["issuer"].is_string(), client == "direct", "{provider}");
        assert_eq!(program.line["secret"].is_string(), provider == "jwt-hs256", "{provider}");
        let others = &program.line["others"];
        for (value, subject, scopes, admin) in [
            (&program.line["value"], "ann", json!([]), 403),
            (&others["second"], "bob", json!([]), 403),
            (&others["admin"], "root", json!(["admin", "reports"]), 200),
        ] {
            let credential = program.header(value);
            let reply = program.stateless(&credential, "tools/call", json!({ "name": "whoami" }));
            let expected = json!({ "subject": subject, "client": client, "scopes": scopes });
            assert_eq!(reply.json()["result"]["structuredContent"], expected, "{provider}");
            let reply = program.stateless(&credential, "tools/call", json!({ "name": "admin" }));
            assert_eq!(reply.status, admin, "{provider} {subject}");
        }
        let wrong = program.header(&json!("Bearer wrong"));
        for credential in ["", &wrong] {
            let reply = program.initialize(credential);
            assert!(matches!(reply.status, 400 | 401), "{provider} {credential}: {reply:?}");
            for (method, params) in [("server/discover", json!({})), ("tools/list", json!({}))] {
                let reply = program.stateless(credential, method, params);
                assert!(matches!(reply.status, 400 | 401), "{provider} {method} {credential}: {reply:?}");
            }
        }
    }
}

#[test]
fn a_client_logs_in_without_a_person() {
    for provider in ["oauth", "introspection"] {
        log_in(&Program::start(&["--provider", provider, "--auto-approve"]));
    }
}

fn log_in(program: &Program) {
    // The challenge names the metadata document, which names the authorization server.
    let refused = program.stateless("", "tools/call", json!({ "name": "whoami" }));
    let challenge = refused.header("www-authenticate").unwrap();
    let document = challenge.split("resource_metadata=\"").nth(1).unwrap().split('"').next().unwrap();
    let resource = send("GET", document, "", "").json();
    assert_eq!((&resource["resource"], refused.status), (&program.line["url"], 401));
    let issuer = resource["authorization_servers"][0].as_str().unwrap();
    assert_eq!(issuer, program.line["issuer"]);
    let metadata = send("GET", &format!("{issuer}/.well-known/oauth-authorization-server"), "", "").json();
    let endpoint = |name: &str| metadata[name].as_str().unwrap();
    // Registration, and a login with PKCE.
    let redirect = "http://127.0.0.1:1/callback";
    let client = json!({ "redirect_uris": [redirect], "token_endpoint_auth_method": "none" }).to_string();
    let json = "Content-Type: application/json\r\n";
    let registered = send("POST", endpoint("registration_endpoint"), json, &client).json();
    let id = registered["client_id"].as_str().unwrap();
    let verifier = BASE64_URL_SAFE_NO_PAD.encode([7; 32]);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
    let escaped = |text: &str| text.replace(':', "%3A").replace('/', "%2F");
    let (to, url) = (escaped(redirect), escaped(program.url()));
    let query = format!(
        "response_type=code&client_id={id}&redirect_uri={to}&state=s1&code_challenge={challenge}\
         &code_challenge_method=S256&scope=reports&resource={url}"
    );
    let approved = send("GET", &format!("{}?{query}", endpoint("authorization_endpoint")), "", "");
    let location = approved.header("location").unwrap();
    assert!(location.starts_with(redirect) && location.contains("state=s1"), "{location}");
    let code = location.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let form = format!(
        "grant_type=authorization_code&code={code}&redirect_uri={to}&client_id={id}&code_verifier={verifier}\
         &resource={url}"
    );
    let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
    let token = send("POST", endpoint("token_endpoint"), headers, &form).json();
    let credential = format!("Authorization: Bearer {}\r\n", token["access_token"].as_str().unwrap());
    let reply = program.stateless(&credential, "tools/call", json!({ "name": "whoami" })).json();
    let expected = json!({ "subject": "ann", "client": id, "scopes": ["reports"] });
    assert_eq!(reply["result"]["structuredContent"], expected);
}

#[test]
fn an_anonymous_session_belongs_to_its_first_principal() {
    let program = Program::start(&["--provider", "static", "--anonymous"]);
    let session = program.anonymous_session();
    let (ann, bob) = (program.header(&program.line["value"]), program.header(&program.line["others"]["second"]));
    let none = json!({});
    assert_eq!(program.legacy("", &session, "tools/list", &none).status, 200);
    for (caller, status) in [("", 401), (&*ann, 200)] {
        let reply = program.legacy(caller, &session, "tools/call", &json!({ "name": "whoami" }));
        assert_eq!(reply.status, status, "{reply:?}");
    }
    for (caller, status) in [("", 404), (&*bob, 404), (&*ann, 200)] {
        assert_eq!(program.legacy(caller, &session, "tools/list", &none).status, status);
    }
    // Another session is not affected.
    let other = program.anonymous_session();
    assert_eq!(program.legacy(&bob, &other, "tools/list", &none).status, 200);
    assert_eq!(program.legacy(&ann, &other, "tools/list", &none).status, 404);
}

#[test]
fn failed_attempts_are_not_limited() {
    let program = Program::start(&["--provider", "api-key"]);
    for _ in 0..200 {
        let reply = program.stateless("x-api-key: wrong\r\n", "server/discover", json!({}));
        assert_eq!(reply.status, 401);
    }
    let credential = program.header(&program.line["value"]);
    assert_eq!(program.stateless(&credential, "server/discover", json!({})).status, 200);
}

#[test]
fn the_slow_tool_runs_as_a_task_in_both_eras() {
    let program = Program::start(&["--provider", "static", "--anonymous"]);
    let ann = program.header(&program.line["value"]);
    let session = program.anonymous_session();
    let params = json!({ "name": "slow", "task": { "ttl": 60_000 } });
    let created = program.legacy(&ann, &session, "tools/call", &params).json();
    assert_eq!(created["result"]["task"]["status"], "working", "{created}");
    let id = &created["result"]["task"]["taskId"];
    let cancelled = program.legacy(&ann, &session, "tasks/cancel", &json!({ "taskId": id })).json();
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    let created = program.stateless(&ann, "tools/call", json!({ "name": "slow" })).json();
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let task = json!({ "taskId": created["result"]["taskId"] });
    // The task belongs to its caller.
    let bob = program.header(&program.line["others"]["second"]);
    for (caller, status) in [(&*ann, "working"), (&*bob, ""), ("", "")] {
        let found = program.stateless(caller, "tasks/get", task.clone()).json();
        assert_eq!(found["result"]["status"].as_str().unwrap_or_default(), status, "{found}");
    }
    let cancelled = program.stateless(&ann, "tasks/cancel", task).json();
    assert!(cancelled["error"].is_null(), "{cancelled}");
}
