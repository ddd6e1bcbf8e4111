//! `mcp gateway`: the servers of a configuration file as one server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use mcp_client::{
    Client, Round,
    protocol::{ClientCapabilities, ElicitationCapability, InputRequiredResult, JsonObject, ProtocolVersion},
};
use mcp_test::redis_server::RedisServer;
use serde_json::{Value, json};

use super::{
    Http, check,
    configuration::Project,
    fixture, json_of, mcp,
    process::{BoundedOutput as _, TIMEOUT, ready, signal, wait},
    serve::Serving,
    text,
};

/// Returns `mcp gateway` with a configuration file of these servers.
pub(crate) fn gateway(project: &Project, servers: &Value, arguments: &[&str]) -> Command {
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    let mut command = project.command(&["gateway", "--config", &file]);
    command.args(arguments);
    command
}

/// Returns a server that writes its process id to a file.
fn with_pid(file: &std::path::Path) -> Value {
    let script = format!("echo $$ > '{}'; exec \"$0\"", file.display());
    json!({ "command": "sh", "args": ["-c", script, fixture()] })
}

/// Sends a GET request, and returns the status and the body.
pub(crate) fn get(url: &str, path: &str, headers: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").and_then(|url| url.split('/').next()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

#[cfg(unix)]
#[test]
fn serves_all_servers_in_each_revision_and_ends_them_after_sigterm() {
    let project = Project::new("gateway");
    let pids = ["one", "two"].map(|name| project.root.join(name));
    let servers = json!({ "one": with_pid(&pids[0]), "two": with_pid(&pids[1]) });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    assert!(serving.line.starts_with("mcp: the gateway of 2 servers (2 connected) is served at "), "{}", serving.line);
    check(&serving.url, "tools URL", 0, "two__add", "");
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        for server in ["one", "two"] {
            let line = format!("call URL {server}__add a=1 b=2 --json --revision {revision}");
            assert_eq!(json_of(&serving.url, &line)["content"][0]["text"], "{\"sum\":3}", "{line}");
        }
    }
    check(&serving.url, "prompt URL one__review name=x", 0, "Review x.", "");
    check(&serving.url, "read URL mcp://two/config://app", 0, "dark = true", "");
    for path in ["/health", "/ready"] {
        assert_eq!(get(&serving.url, path, ""), (200, r#"{"status":"ok"}"#.to_owned()), "{path}");
    }
    let (code, status) = get(&serving.url, "/status", "");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        (code, &status["servers"][1]["name"], &status["servers"][1]["state"]),
        (200, &json!("two"), &json!("ready"))
    );

    let pids = pids.map(|file| fs::read_to_string(file).unwrap().trim().to_owned());
    let is_running = |pid: &String| Command::new("kill").args(["-0", pid]).bounded_output().status.success();
    assert!(pids.iter().all(is_running));
    assert!(signal(&mut serving.child, "TERM"));
    assert_eq!(wait(&mut serving.child).code(), Some(0));
    assert!(!pids.iter().any(is_running), "a server outlived the gateway");
}

/// Sends a message with POST, and returns the status and the whole answer.
fn post(url: &str, session: Option<&str>, message: &Value) -> (u16, String) {
    let address = url.strip_prefix("http://").and_then(|url| url.split('/').next()).unwrap();
    let body = message.to_string();
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    (status, answer)
}

#[test]
fn two_gateways_with_one_redis_serve_each_session() {
    let Some(mut redis) = RedisServer::start_or_skip("two_gateways_with_one_redis_serve_each_session") else { return };
    let project = Project::new("gateway-redis");
    let servers = json!({ "one": { "command": fixture() } });
    let keys = project.root.join("keys");
    fs::write(&keys, "5e".repeat(32)).unwrap();
    let (keys, url) = (keys.display().to_string(), redis.url());
    let arguments = ["--port", "0", "--state-keys", &keys, "--redis", &url];
    let gateways = [(); 2].map(|()| Serving::start(gateway(&project, &servers, &arguments)));
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let (status, answer) = post(&gateways[0].url, None, &initialize);
    assert_eq!(status, 200, "{answer}");
    let is_session = |line: &&str| line.to_ascii_lowercase().starts_with("mcp-session-id: ");
    let (_, session) = answer.lines().find(is_session).unwrap().split_once(": ").unwrap();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&gateways[0].url, Some(session), &initialized).0, 202);
    for gateway in gateways.iter().rev() {
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
        let (status, answer) = post(&gateway.url, Some(session), &list);
        assert!(status == 200 && answer.contains("one__add"), "{answer}");
    }
    let (status, _) = post(&gateways[1].url, Some("unknown"), &initialized);
    assert_eq!(status, 404);
    let health = |path: &str| get(&gateways[0].url, path, "");
    assert_eq!(health("/ready"), (200, r#"{"status":"ok","store":"ok"}"#.to_owned()));
    redis.kill().unwrap();
    ready("a gateway without Redis is not ready", || (health("/ready").0 == 503).then_some(()));
    assert_eq!(health("/health"), (200, r#"{"status":"ok","store":"unavailable"}"#.to_owned()));
}

#[test]
fn serves_stdio() {
    let project = Project::new("gateway-stdio");
    let file = project.write("servers.json", &json!({ "mcpServers": { "one": { "command": fixture() } } }));
    let program = env!("CARGO_BIN_EXE_mcp");
    let line = ["call", "one__add", "a=1", "b=2", "--", program, "gateway", "--stdio", "--config", &file];
    let output = mcp().args(line).bounded_output();
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "{\"sum\":3}\n"), "{output:?}");
}

#[test]
fn raw_names_keep_the_first_server_of_a_name_and_strict_refuses_it() {
    let project = Project::new("gateway-names");
    let server = json!({ "command": fixture() });
    let serving =
        Serving::start(gateway(&project, &json!({ "only": server }), &["--port", "0", "--names", "raw", "--strict"]));
    check(&serving.url, "call URL add a=1 b=2", 0, "{\"sum\":3}", "");
    drop(serving);
    let servers = json!({ "first": server, "second": server });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0", "--names", "raw"]));
    check(&serving.url, "call URL add a=1 b=2", 0, "{\"sum\":3}", "");
    let status: Value = serde_json::from_str(&get(&serving.url, "/status", "").1).unwrap();
    let dropped = json!({ "kind": "tool", "name": "add", "server": "second", "winner": "first" });
    assert!(status["dropped"].as_array().unwrap().contains(&dropped), "{status}");
    assert_eq!((&status["circular"], &status["invalid"]), (&json!([]), &json!([])));
    serving.child.kill().unwrap();
    let output = gateway(&project, &servers, &["--port", "0", "--names", "raw", "--strict"]).bounded_output();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.matches(r#"the tool "add" of "second" is left out"#).count(), 1, "{stderr}");
}

#[test]
fn the_gateway_authenticates_clients_and_denies_calls_without_a_rule() {
    let project = Project::new("gateway-auth");
    let servers = json!({ "one": { "command": fixture() } });
    fs::write(project.root.join("ci"), "token-of-ci").unwrap();
    fs::write(project.root.join("ops"), "token-of-ops").unwrap();
    let auth = project.root.join("auth.toml");
    let tokens = "operators = [\"ops\"]\n[[static]]\nprincipal = \"ci\"\ntoken = { file = \"ci\" }\n\
                  [[static]]\nprincipal = \"ops\"\ntoken = { file = \"ops\" }\n";
    fs::write(&auth, tokens).unwrap();
    let (auth, audit) = (auth.display().to_string(), project.root.join("audit.jsonl").display().to_string());
    let policy = project.root.join("policy.toml");
    let rules = "[[rule]]\nprincipal = \"ci\"\ntool = \"add\"\neffect = \"allow\"\n";
    fs::write(&policy, rules).unwrap();
    let policy = policy.display().to_string();
    let arguments = ["--port", "0", "--auth", &auth, "--policy", &policy, "--audit", &audit];
    let mut serving = Serving::start(gateway(&project, &servers, &arguments));
    check(&serving.url, "tools URL", 4, "", "401");
    for name in ["ci", "ops"] {
        let header = project.root.join(format!("{name}-header"));
        fs::write(header, format!("Authorization: Bearer token-of-{name}")).unwrap();
    }
    let call = |name: &str, tool: &str| {
        let header = format!("@{}", project.root.join(format!("{name}-header")).display());
        let output = mcp().args(["call", &serving.url, tool, "a=1", "b=2", "-H", &header]).bounded_output();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(call("ci", "one__add"), (Some(0), "{\"sum\":3}\n".to_owned(), String::new()));
    for (name, tool) in [("ci", "one__secrets"), ("ops", "one__add")] {
        let (code, stdout, stderr) = call(name, tool);
        assert!(code != Some(0) && !stdout.contains("sum"), "{name} {tool}: {stdout} {stderr}");
    }
    let token = |name: &str| format!("authorization: Bearer token-of-{name}\r\n");
    for (headers, expected) in [(String::new(), 401), (token("ci"), 403), (token("ops"), 200)] {
        assert_eq!(get(&serving.url, "/status", &headers).0, expected, "{headers}");
    }
    assert_eq!(get(&serving.url, "/health", "").0, 200);
    let events = fs::read_to_string(&audit).unwrap();
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    let of_event = ["principal", "server", "name", "outcome"].map(|member| first[member].as_str().unwrap());
    assert_eq!(of_event, ["ci", "one", "add", "Allowed"], "{events}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&audit).unwrap().permissions().mode() & 0o777, 0o600);
    }
    serving.child.kill().unwrap();
    let rest: Vec<String> = serving.stderr.by_ref().collect();
    assert!(!format!("{rest:?}{events}").contains("token-of"), "{rest:?}");
}

#[test]
fn refuses_an_open_address_without_authentication() {
    let project = Project::new("gateway-open");
    let servers = json!({ "one": { "command": fixture() } });
    for (arguments, expected) in [
        (
            &["--host", "0.0.0.0"][..],
            "0.0.0.0 is not a loopback address, and other machines could call each tool: authenticate",
        ),
        (&["--host", "::"], ":: is not a loopback address"),
        (&["--host", "no such host"], "the address `no such host` is not usable"),
        (&["--auth", "/no/such/file"], "/no/such/file: the file cannot be read"),
        (&["--policy", "/no/such/file"], "/no/such/file: the file cannot be read"),
        (&["--audit", "/no/such/file"], "--audit: there is no directory /no/such: create it"),
        (&["--state-keys", "/no/such/file"], "/no/such/file: the file cannot be read"),
        (&["--redis", "redis://127.0.0.1"], "--state-keys <FILE>"),
    ] {
        let output = gateway(&project, &servers, &[&["--port", "0"], arguments].concat()).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn rejects_options_without_an_effect() {
    let project = Project::new("gateway-options");
    let servers = json!({ "one": { "command": fixture() } });
    for arguments in [
        &["--answer", "name=Ada"][..],
        &["--yes"],
        &["--decline"],
        &["--root", "."],
        &["--sample-with", "cat"],
        &["--log-level", "info"],
    ] {
        let output = gateway(&project, &servers, &[&["--port", "0"], arguments].concat()).bounded_output();
        let expected = format!("the option {} has no effect on `mcp gateway`; remove it", arguments[0]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(&expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_failed_server_does_not_affect_the_others_unless_it_is_required() {
    let project = Project::new("gateway-failures");
    let gone = json!({ "command": "no-such-program-anywhere" });
    let required = json!({ "command": "no-such-program-anywhere", "x-mcp": { "required": true } });
    let good = json!({ "command": fixture() });
    let serving = Serving::start(gateway(&project, &json!({ "gone": gone, "good": good }), &["--port", "0"]));
    assert!(serving.line.contains(" of 2 servers (1 connected, 1 failed) is served at "), "{}", serving.line);
    check(&serving.url, "call URL good__add a=1 b=2", 0, "{\"sum\":3}", "");
    drop(serving);
    for servers in [json!({ "gone": gone }), json!({ "good": good, "gone": required })] {
        let output = gateway(&project, &servers, &["--port", "0"]).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("the server `gone` failed: ") && stderr.contains("no such program"), "{stderr}");
    }
}

#[test]
fn the_status_and_the_title_have_the_servers_with_an_unusable_entry() {
    let project = Project::new("gateway-unusable");
    let oauth = json!({ "clientId": "team-app", "clientSecret": "hunter2" });
    let servers = json!({
        "unset": { "command": fixture(), "env": { "TOKEN": "${MCP_TEST_UNSET_VARIABLE}" } },
        "unbound": { "url": "https://team.example/mcp", "oauth": oauth },
        "good": { "command": fixture() },
    });
    let serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    assert!(serving.line.contains(" of 3 servers (1 connected, 2 unusable) is served at "), "{}", serving.line);
    let (code, text) = get(&serving.url, "/status", "");
    let status: Value = serde_json::from_str(&text).unwrap();
    let servers = status["servers"].as_array().unwrap();
    assert_eq!((code, servers.len(), &status["faults"]), (200, 3, &json!([])), "{text}");
    for (server, (name, state, reason)) in servers.iter().zip([
        ("good", "ready", ""),
        ("unset", "unusable", "MCP_TEST_UNSET_VARIABLE"),
        ("unbound", "unusable", "`oauthIssuer`"),
    ]) {
        assert_eq!((&server["name"], &server["state"]), (&json!(name), &json!(state)), "{text}");
        assert!(server["reason"].as_str().unwrap_or_default().contains(reason), "{text}");
        let remedy = server["remedy"].as_str().unwrap_or_default();
        assert_eq!(remedy.ends_with("; then start the gateway again"), state == "unusable", "{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_start_that_takes_long() {
    let project = Project::new("gateway-slow");
    let pid = project.root.join("pid");
    let script = format!("echo $$ > '{}'; exec sleep 600", pid.display());
    let servers = json!({ "slow": { "command": "sh", "args": ["-c", script] } });
    let mut child = gateway(&project, &servers, &["--port", "0"]).spawn().unwrap();
    let written = || fs::read_to_string(&pid).ok().filter(|text| text.ends_with('\n'));
    let pid = ready("the server starts", written);
    assert!(signal(&mut child, "TERM"));
    assert_eq!(wait(&mut child).code(), Some(143));
    assert!(!Command::new("kill").args(["-0", pid.trim()]).bounded_output().status.success());
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_start_of_a_store_that_does_not_answer() {
    let project = Project::new("gateway-slow-store");
    let keys = project.root.join("keys");
    fs::write(&keys, "5e".repeat(32)).unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let servers = json!({ "one": { "command": fixture() } });
    let arguments = ["--port", "0", "--state-keys", &keys.display().to_string(), "--redis", &url];
    let mut child = gateway(&project, &servers, &arguments).spawn().unwrap();
    let (_connected, _) = silent.accept().unwrap();
    assert!(signal(&mut child, "TERM"));
    assert_eq!(wait(&mut child).code(), Some(143));
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_the_wait_for_a_server_that_ignores_sigterm() {
    let project = Project::new("gateway-stubborn");
    let asked = project.root.join("asked");
    // The shell outlives the end of its input. Its trap writes the signal to a file.
    let script = format!("trap 'echo >> \"{}\"' TERM; \"$0\"; while :; do sleep 600 & wait; done", asked.display());
    let servers = json!({ "stubborn": { "command": "sh", "args": ["-c", script, fixture()] } });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    assert!(signal(&mut serving.child, "TERM"));
    // The gateway sends SIGTERM to the server two seconds after the first signal, so the second signal is not a repetition.
    ready("the server receives SIGTERM", || asked.exists().then_some(()));
    assert!(signal(&mut serving.child, "TERM"));
    assert_eq!(wait(&mut serving.child).code(), Some(143));
}

/// Calls the tool that asks for a name at a gateway: the first round, or the round with the answer and the state of the first one.
async fn greet(
    url: &str,
    first: Option<InputRequiredResult>,
) -> Result<Round<mcp_client::ToolResult>, mcp_client::Error> {
    let client = Client::builder("client", "1").versions([ProtocolVersion::LATEST]).connect(url).await.unwrap();
    let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form());
    let call = client.call_tool("one__greet", ()).capabilities(forms).raw_inputs();
    let Some(first) = first else { return call.await };
    let mut answers = JsonObject::new();
    for key in first.input_requests.unwrap().0.keys() {
        answers.insert(key.clone(), json!({ "action": "accept", "content": { "name": "Ada" } }));
    }
    call.resume(answers, first.request_state).await
}

#[test]
fn a_call_begins_at_one_gateway_and_ends_at_another_with_the_same_keys() {
    let project = Project::new("gateway-keys");
    let upstream = Http::start();
    let servers = json!({ "one": { "url": upstream.url } });
    let key = |name: &str, keys: &[&str]| {
        let file = project.root.join(name);
        fs::write(&file, keys.iter().map(|key| format!("{}\n", key.repeat(32))).collect::<String>()).unwrap();
        file.display().to_string()
    };
    // The second gateway has a newer key, as during the change of a key.
    let files = [key("first", &["0a"]), key("second", &["0b", "0a"]), key("other", &["0c"])];
    let start = |keys: &str| Serving::start(gateway(&project, &servers, &["--port", "0", "--state-keys", keys]));
    let [first, second, other] = [&files[0], &files[1], &files[2]].map(|keys| start(keys));
    let without_keys = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rounds = async {
        let Round::InputRequired(asked) = greet(&first.url, None).await.unwrap() else { panic!("the tool asks") };
        let asked = asked.into_result();
        for stranger in [&other, &without_keys] {
            let error = greet(&stranger.url, Some(asked.clone())).await.unwrap_err();
            let error = error.rpc().unwrap();
            let reason = &error.data.as_ref().unwrap()["reason"];
            assert_eq!((error.code.0, reason), (-32602, &json!("request_state_expired")), "{error}");
        }
        let Round::Complete(result) = greet(&second.url, Some(asked)).await.unwrap() else {
            panic!("the answer is there")
        };
        assert_eq!(result.text(), "Hello, Ada!");
    };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, rounds).await }).unwrap();
}
