//! `mcp auth explain`: the steps, the failed rules with their remedies, the exit codes and the texts of hostile peers.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use mcp_server::{
    auth::{ApiKeys, BearerTokens},
    prelude::{HttpConfig, Principal},
};
use mcp_test::authorization_server::{
    AuthorizationServerBuilder, Endpoint, Misbehavior, RecordedRequest, ResponseFault,
};
use serde_json::Value;

use super::{Http, check, json_of, login::Protected, mcp, process::BoundedOutput as _, run, server, text};

const EXPLAIN: &str = "auth explain URL";

fn json(server: &Protected) -> Value {
    let output = server.run_with(&format!("{EXPLAIN} --json"), None);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the failed rules of an explanation.
fn failed(explanation: &Value) -> Vec<&str> {
    let steps = explanation["steps"].as_array().unwrap();
    let checks = steps.iter().flat_map(|step| step["checks"].as_array().unwrap());
    let failed = checks.filter(|check| check["result"] == "failed").inspect(|check| {
        assert!(check["reason"].is_string() && check["remedy"].is_string(), "{check}");
    });
    failed.map(|check| check["rule"].as_str().unwrap()).collect()
}

#[test]
fn an_explanation_shows_each_document_and_each_rule() {
    let server = Protected::start("explain");
    let output = server.run_with(EXPLAIN, None);
    let stdout = text(&output.stdout);
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{stdout}");
    for part in [
        &format!("1  challenge  {}  401\n", server.url),
        "2  resource metadata  http://127.0.0.1:",
        &format!("\"authorization_servers\": [\n       \"{}\"", server.issuer.issuer()),
        "3  server metadata  http://127.0.0.1:",
        "\"code_challenge_methods_supported\": [\n       \"S256\"",
        "4  login\n",
        "\"client\": \"a dynamic registration\"",
        "   passed  The `issuer` of the document equals the issuer",
        "\na login is possible\n",
    ] {
        assert!(stdout.contains(part), "{part}\n{stdout}");
    }
    assert!(!stdout.contains("failed") && !stdout.contains('\u{1b}'), "{stdout}");
    let explanation = json(&server);
    assert_eq!((&explanation["login"], &explanation["error"]), (&"possible".into(), &Value::Null));
    assert_eq!(explanation["server"], server.url);
    let kinds: Vec<&str> =
        explanation["steps"].as_array().unwrap().iter().map(|step| step["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["challenge", "resource-metadata", "server-metadata", "login"]);
    assert!(failed(&explanation).is_empty());
    assert!(!server.state.exists());

    // A stored login is not used, and its server has a name.
    server.check("login URL", 0, "", "in the browser");
    let requests = server.issuer.requests().len();
    server.check(&EXPLAIN.replace("URL", "127.0.0.1"), 0, "the registered client", "");
    let is_metadata = |request: &RecordedRequest| request.endpoint() == Endpoint::Metadata;
    assert!(server.issuer.requests()[requests..].iter().all(is_metadata));
    server.check("whoami URL", 0, "", "");
}

#[test]
fn a_failed_rule_has_its_remedy_and_the_exit_code_of_the_login() {
    type Issuer = fn(AuthorizationServerBuilder) -> AuthorizationServerBuilder;
    let same: Issuer = |builder| builder;
    let outage = ResponseFault::Unavailable { retry_after: Duration::from_secs(1) };
    for (name, misbehavior, issuer, code, rules, err) in [
        ("pkce", Some(Misbehavior::NoPkceMethods), same, 4, &["pkce"][..], "does not declare PKCE"),
        ("issuer", Some(Misbehavior::WrongIssuer), same, 4, &["issuer-equal"], "has no valid metadata"),
        (
            "html",
            Some(Misbehavior::Response(Endpoint::Metadata, ResponseFault::Html)),
            same,
            4,
            &[],
            "no valid metadata",
        ),
        ("outage", Some(Misbehavior::Response(Endpoint::Metadata, outage)), same, 3, &[], "503"),
        (
            "no-registration",
            None,
            AuthorizationServerBuilder::no_registration,
            4,
            &["registration"],
            "no dynamic registration",
        ),
    ] {
        let server = Protected::with(&format!("explain-{name}"), issuer, |config| config);
        misbehavior.into_iter().for_each(|misbehavior| server.issuer.misbehave(misbehavior));
        let output = server.run_with(EXPLAIN, None);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{name}\n{stdout}\n{stderr}");
        assert!(stderr.contains(err), "{name}\n{stderr}");
        assert_eq!(stdout.matches("   failed  ").count() > 0, !rules.is_empty(), "{name}\n{stdout}");
        assert_eq!(stdout.contains("remedy: "), !rules.is_empty(), "{name}\n{stdout}");
        assert!(!stdout.contains("a login is possible"), "{name}\n{stdout}");
        let explanation = json(&server);
        let mut found = failed(&explanation);
        found.dedup();
        assert_eq!(found, rules, "{name}\n{explanation}");
        assert_eq!(explanation["login"], "impossible", "{name}");
        // A login fails with the same error.
        let login = text(&server.run_with("login URL --no-browser", None).stderr);
        let error = explanation["error"].as_str().unwrap();
        assert!(login.trim_end().ends_with(error), "{name}\n{login}\n{stderr}");
    }
}

#[test]
fn servers_without_metadata_are_not_reported_as_ready_for_a_login() {
    let http = Http::start();
    check(&http.url, EXPLAIN, 0, "the server answers without a login", "");
    assert_eq!(json_of(&http.url, &format!("{EXPLAIN} --json"))["login"], "unneeded");
    let explained = json_of(&format!("{}?api_key=k-1", http.url), &format!("{EXPLAIN} --json"));
    assert!(!explained.to_string().contains("k-1"), "{explained}");
    const SECRET: &str = "a-token-with-many-random-characters";
    let tokens = HttpConfig::new().authenticate(BearerTokens::new().token(SECRET, Principal::new("ann")).unwrap());
    let keys = ApiKeys::new().header("x-team-key").unwrap().key(SECRET, Principal::new("ann")).unwrap();
    let keys = HttpConfig::new().authenticate(keys);
    for (config, header) in [(tokens, "Authorization"), (keys, "x-team-key")] {
        let http = Http::serve(server::server(), config);
        let hint = format!("pass the credentials with --header '{header}: @FILE'");
        check(&http.url, EXPLAIN, 4, "failed  The server has OAuth metadata", &hint);
        let explanation = json_of(&http.url, &format!("{EXPLAIN} --json"));
        assert_eq!((&explanation["login"], failed(&explanation)), (&"impossible".into(), vec!["offers-login"]));
        check(&http.url, "login URL --no-browser", 4, "", &hint);
    }
}

#[test]
fn servers_without_metadata_name_the_option_for_credentials() {
    for (challenge, page, header) in [
        ("", None, "x-api-key"),
        ("www-authenticate: ApiKey\r\n", None, "x-api-key"),
        ("www-authenticate: ApiKey header=\"x-team-key\"\r\n", None, "x-team-key"),
        // A website that has each page has no login for this scheme either.
        ("www-authenticate: ApiKey header=\"x-team-key\"\r\n", Some("/authorize"), "x-team-key"),
    ] {
        let origin = documents(|_| {
            let page = page.map(|path| (path, "{}".to_owned()));
            std::iter::once((CHALLENGE, challenge.to_owned())).chain(page).collect()
        });
        for line in [EXPLAIN, "login URL --no-browser"] {
            let output = run(&format!("{origin}/mcp"), line);
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{line} {challenge}\n{stderr}");
            let hint = format!("--header '{header}: @FILE'");
            assert!(stderr.contains("no OAuth metadata") && stderr.contains(&hint), "{line} {challenge}\n{stderr}");
        }
    }
}

#[test]
fn endpoints_without_a_document_are_assumed() {
    let origin = documents(|_| vec![("/authorize", "{}".to_owned())]);
    let url = format!("{origin}/mcp");
    check(&url, EXPLAIN, 0, "assumed  The `authorization_endpoint` is an `https` URL", "");
    check(&url, EXPLAIN, 0, "the server has no metadata document: a login tries the endpoints /authorize", "");
    let explanation = json_of(&url, &format!("{EXPLAIN} --json"));
    assert_eq!((&explanation["login"], failed(&explanation)), (&"unverified".into(), Vec::new()));
    let steps = explanation["steps"].as_array().unwrap();
    let checks: Vec<&Value> = steps.iter().flat_map(|step| step["checks"].as_array().unwrap()).collect();
    let assumed = checks.iter().filter(|check| check["result"] == "assumed");
    let assumed: Vec<&str> = assumed.map(|check| check["rule"].as_str().unwrap()).collect();
    assert_eq!(assumed, ["offers-login", "registration", "token-endpoint", "login-page", "pkce"], "{explanation}");
    assert!(checks.iter().all(|check| check["reason"].is_string() == (check["result"] != "passed")), "{explanation}");
}

#[test]
fn a_wrong_path_has_the_remedy_for_the_url_alone() {
    let server = Protected::start("explain-path");
    let wrong = format!("{}-typo", server.url);
    let output = run(&wrong, EXPLAIN);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{stdout}\n{stderr}");
    assert_eq!(stdout.matches("remedy: ").count(), 1, "{stdout}");
    assert!(stdout.contains("remedy: Check the URL, above all its path."), "{stdout}");
    assert!(stderr.contains(&format!("{wrong} is not an MCP endpoint")), "{stderr}");
}

#[test]
fn wrong_command_lines_and_unreachable_servers_have_their_exit_codes() {
    for (line, code, err) in [
        ("auth explain", 2, "no server is given; write a URL, or set MCP_SERVER to a URL"),
        ("auth explain nowhere", 2, "`nowhere` is neither an http or https URL nor the host of a stored login"),
        ("auth explain http://user:hunter2@127.0.0.1:1/mcp", 2, "a URL with a user"),
        ("auth explain http://127.0.0.1:1/mcp", 3, "cannot read http://127.0.0.1:1/"),
        ("auth explain URL -H Authorization:x", 2, "omit --header"),
        ("auth nothing", 2, "unrecognized subcommand"),
    ] {
        let output = run("http://127.0.0.1:1/mcp", line);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}\n{stderr}");
        assert!(stderr.contains(err) && !stderr.contains("hunter2"), "{line}\n{stderr}");
    }
    // A server that accepts connections and sends nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = Instant::now();
    let output = run(&format!("http://{}/mcp", listener.local_addr().unwrap()), "auth explain URL --timeout 1");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    // The default of each request is 10 seconds.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let http = Http::start();
    let output = mcp().args(["auth", "explain"]).env("MCP_SERVER", &http.url).bounded_output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The name of the document with the header of the challenge. Without it the header is `WWW-Authenticate: Bearer`.
const CHALLENGE: &str = "challenge";

/// Starts a server that answers requests with documents. Returns its origin.
fn documents(documents: impl Fn(&str) -> Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let documents = documents(&origin);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // A client may close a connection without a request.
            let _ = answer(stream, &documents);
        }
    });
    origin
}

fn answer(mut stream: TcpStream, documents: &[(&str, String)]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut lines = reader.by_ref().lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let length = head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body)?;
    if request.starts_with("POST /mcp ") {
        let challenge = documents.iter().find(|(name, _)| *name == CHALLENGE);
        let challenge = challenge.map_or("www-authenticate: Bearer\r\n", |(_, header)| header);
        return write!(stream, "HTTP/1.1 401 X\r\n{challenge}connection: close\r\ncontent-length: 0\r\n\r\n");
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let document = documents.iter().find(|(known, _)| *known == path);
    let (status, body) = document.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", body));
    let head = "content-type: application/json\r\nconnection: close";
    write!(stream, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_document_of_another_server_names_the_resource() {
    for (resource, code) in [("https://internal.example.com/mcp", 4), ("ORIGIN/mcp2", 4), ("ORIGIN", 3)] {
        let origin = documents(|origin| {
            let resource = resource.replace("ORIGIN", origin);
            // Nothing listens at the port of the issuer.
            let body = format!(r#"{{"resource":"{resource}","authorization_servers":["http://127.0.0.1:1"]}}"#);
            vec![("/.well-known/oauth-protected-resource/mcp", body)]
        });
        let output = run(&format!("{origin}/mcp"), EXPLAIN);
        let stdout = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{stdout}");
        let remedy =
            "remedy: Check the URL of the server. If the URL is right, the operator of the MCP server sets `resource`";
        assert_eq!(stdout.contains(remedy), code == 4, "{stdout}");
        let explanation = json_of(&format!("{origin}/mcp"), &format!("{EXPLAIN} --json"));
        assert_eq!(failed(&explanation), if code == 4 { vec!["resource-covers-server"] } else { Vec::new() });
    }
}

#[test]
fn texts_of_servers_do_not_control_the_terminal() {
    const EVIL: &str = "\\u001b[2J\\u009b31m\\u202e\\u0007\\nmcp: a login is possible";
    let origin = documents(|origin| {
        let resource = format!(
            r#"{{"resource":"{origin}/mcp","authorization_servers":["{origin}"],"resource_name":"{EVIL}","{EVIL}":1}}"#
        );
        let issuer = format!(r#"{{"issuer":"{EVIL}","scopes_supported":["{EVIL}"]}}"#);
        vec![
            ("/.well-known/oauth-protected-resource/mcp", resource),
            ("/.well-known/oauth-authorization-server", issuer.clone()),
            ("/.well-known/openid-configuration", issuer),
        ]
    });
    let url = format!("{origin}/mcp");
    for line in ["auth explain URL", "auth explain URL --json"] {
        let output = run(&url, line);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(4), "{stdout}\n{stderr}");
        assert!(stdout.contains("issuer"), "{stdout}");
        let is_json = line.ends_with("--json");
        for shown in [&stdout, &stderr] {
            // JSON in a pipe has all characters of the server, and escapes the control characters of ASCII.
            let is_kept = |c: char| c == '\n' || is_json && matches!(c, '\u{9b}' | '\u{202e}');
            let control = |c: char| (c.is_control() || c == '\u{202e}') && !is_kept(c);
            assert!(!shown.contains(control), "{line}: {shown:?}");
        }
        assert!(
            !stdout.lines().chain(stderr.lines()).any(|line| line == "mcp: a login is possible"),
            "{stdout}{stderr}"
        );
    }
}

#[test]
fn the_colours_of_an_explanation_follow_the_settings() {
    let server = Protected::start("explain-colour");
    for (options, variable, has_colours) in [
        ("", None, false),
        (" --color always", None, true),
        ("", Some(("CLICOLOR_FORCE", "1")), true),
        ("", Some(("NO_COLOR", "1")), false),
        (" --color never", Some(("CLICOLOR_FORCE", "1")), false),
        (" --json --color always", None, false),
    ] {
        let mut command = mcp();
        command.args(format!("{EXPLAIN}{options}").replace("URL", &server.url).split(' ')).envs(variable);
        let output = command.bounded_output();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(text(&output.stdout).contains('\u{1b}'), has_colours, "{options} {variable:?}");
    }
}
