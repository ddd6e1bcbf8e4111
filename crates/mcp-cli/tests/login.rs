//! Logins at a server over HTTP, with an authorization server and a browser.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use mcp_server::{auth::Jwt, prelude::*};
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, Endpoint, Misbehavior, RegisteredClient, ResponseFault,
    RunningAuthorizationServer,
};
use serde_json::Value;

use super::{
    example, mcp,
    process::{self, BoundedOutput as _, Lines},
    text,
};

/// A server that requires tokens, its authorization server, and the state directory of a user.
pub(crate) struct Protected {
    pub(crate) url: String,
    pub(crate) issuer: RunningAuthorizationServer,
    pub(crate) state: PathBuf,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Drop for Protected {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.state);
    }
}

async fn whoami(caller: Principal) -> String {
    caller.subject
}

impl Protected {
    pub(crate) fn start(name: &str) -> Self {
        Self::with(name, AuthorizationServerBuilder::auto_approve, |config| config)
    }

    pub(crate) fn with(
        name: &str,
        issuer: impl FnOnce(AuthorizationServerBuilder) -> AuthorizationServerBuilder,
        config: impl FnOnce(HttpConfig) -> HttpConfig,
    ) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (url, issuer) = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let builder = AuthorizationServer::builder().subject("ann").scopes(["admin"]).resources([&url]);
            let issuer = issuer(builder).start().await.unwrap();
            let server = Server::builder("protected", "1")
                .tool(tool("public", async || "open"))
                .tool(tool("whoami", whoami).requires_authentication())
                .tool(tool("admin", async || "administered").requires_scopes(["admin"]))
                .build();
            let jwt = Jwt::issuer(issuer.issuer()).unwrap();
            let config = config(HttpConfig::new().public_url(&url).authenticate(jwt));
            tokio::spawn(async move { server.serve_http_on(listener, config).await });
            (url, issuer)
        });
        let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("login-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        Self { url, issuer, state, runtime }
    }

    /// Runs a command line in an SSH session with a browser. The word `URL` is replaced by the server's URL.
    fn run(&self, line: &str) -> Output {
        self.run_with(line, Some(example("browser")))
    }

    pub(crate) fn run_with(&self, line: &str, browser: Option<PathBuf>) -> Output {
        let mut command = mcp();
        command.args(line.split(' ').map(|word| if word == "URL" { self.url.as_str() } else { word }));
        command.env("XDG_STATE_HOME", &self.state).env("SSH_CONNECTION", "1");
        command.envs(browser.map(|browser| ("BROWSER", browser)));
        let output = command.bounded_output();
        for token in self.secrets() {
            let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(!shown.contains(&token), "{line}: {shown}");
        }
        output
    }

    /// Runs a command line, and checks its exit code and that stdout contains `out` and stderr contains `err`.
    pub(crate) fn check(&self, line: &str, code: i32, out: &str, err: &str) {
        let output = self.run(line);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
        assert!(stdout.contains(out), "{line}\n{stdout}");
        assert!(stderr.contains(err) && (!err.is_empty() || stderr.is_empty()), "{line}\n{stderr}");
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state.join("mcp/logins")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Replaces the stored tokens by tokens that no server accepts.
    pub(crate) fn spoil_tokens(&self) {
        self.edit_tokens(|record| {
            record["access_token"] = "spoilt-1".into();
            record["refresh_token"] = "spoilt-2".into();
        });
    }

    /// Replaces the stored access token by one that no server accepts. The refresh token remains.
    #[cfg(all(target_os = "linux", feature = "keyring"))]
    pub(crate) fn spoil_access_token(&self) {
        self.edit_tokens(|record| record["access_token"] = "spoilt-1".into());
    }

    /// Changes the records of the stored tokens.
    fn edit_tokens(&self, edit: impl Fn(&mut Value)) {
        for file in self.files() {
            let Ok(mut record) = serde_json::from_slice::<Value>(&fs::read(&file).unwrap()) else { continue };
            if record.get("access_token").is_some() {
                edit(&mut record);
                fs::write(&file, record.to_string()).unwrap();
            }
        }
    }

    /// Returns the stored tokens.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let records = self.files().into_iter().filter_map(|file| fs::read(file).ok());
        let records = records.filter_map(|record| serde_json::from_slice::<Value>(&record).ok());
        let tokens = records.flat_map(|record| ["access_token", "refresh_token"].map(|name| record[name].clone()));
        tokens.filter_map(|token| token.as_str().map(ToOwned::to_owned)).collect()
    }
}

#[test]
fn a_login_with_the_browser_serves_all_later_commands() {
    let server = Protected::start("all");
    server.check("login URL", 0, server.issuer.issuer(), "opening the login page of http://127.0.0.1:");
    assert_eq!(server.secrets().len(), 2);
    let name = server.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    for (line, out) in [
        ("call URL whoami", "ann\n"),
        ("tools URL", "whoami"),
        ("whoami URL", "renewed automatically"),
        ("whoami URL", "scopes   admin\n"),
        ("whoami URL --json", r#""grantedScopes":["admin"]"#),
        ("whoami", &server.url),
        ("whoami --json", r#""isRenewable":true"#),
        (&format!("whoami {name}"), &server.url),
    ] {
        server.check(line, 0, out, "");
    }
    assert_eq!(server.issuer.count(Endpoint::Authorization), 1);

    assert_eq!(fs::metadata(server.state.join("mcp/logins")).unwrap().permissions().mode() & 0o777, 0o700);
    for file in server.files() {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }

    server.check("logout", 0, &format!("logged out of {}", server.url), "");
    assert!(server.secrets().is_empty());
    server.check("logout URL", 0, "there was no login at", "");
    server.check("logout", 2, "", "no login is stored");
    server.check("whoami URL", 1, "", &format!("not logged in at {0}; run `mcp login {0}`", server.url));
    server.check("whoami", 1, "", "no login is stored; run `mcp login URL`");
    server.check(
        "call URL whoami",
        4,
        "",
        &format!("log in with `mcp login {}`, or pass credentials with --header", server.url),
    );
}

#[test]
fn a_login_with_automatic_approval_takes_less_than_two_seconds() {
    let server = Protected::start("quick");
    let is_quick = (0..5).any(|_| {
        let start = Instant::now();
        server.check("login URL", 0, server.issuer.issuer(), "in the browser");
        // Another program may delay one login.
        start.elapsed() < Duration::from_secs(2)
    });
    assert!(is_quick);
    server.check("call URL whoami", 0, "ann\n", "");
}

#[test]
fn commands_without_a_terminal_open_no_browser() {
    let server = Protected::start("no-terminal");
    server.check("call URL whoami", 4, "", &format!("log in with `mcp login {}`", server.url));
    assert!(!server.state.exists());
    server.check("login URL", 0, "", "in the browser");
    server.spoil_tokens();
    let hint = format!("run `mcp login {}`", server.url);
    server.check("call URL admin", 4, "", &hint);
    assert_eq!(server.issuer.count(Endpoint::Authorization), 1);
    server.check("login URL --scope admin", 0, "admin", "in the browser");
    server.check("call URL admin", 0, "administered", "");
    server.check("login URL --header Authorization:x", 2, "", "omit the header");
}

#[test]
fn a_new_login_reads_the_metadata_again_and_a_failed_one_keeps_the_tokens() {
    let server = Protected::start("again");
    server.check("login URL", 0, "", "in the browser");
    let (metadata, tokens) = (server.issuer.count(Endpoint::Metadata), server.secrets());
    server.check("login URL", 0, "", "in the browser");
    assert!(server.issuer.count(Endpoint::Metadata) > metadata);
    let replaced = server.secrets();
    assert!(!replaced.is_empty() && replaced.iter().all(|token| !tokens.contains(token)));

    server.issuer.misbehave(Misbehavior::WrongIss);
    server.check("login URL", 4, "", "the response of the login has another issuer");
    server.issuer.behave();
    assert_eq!(server.secrets(), replaced);
    server.check("whoami URL", 0, "", "");
}

#[test]
fn whoami_fails_for_tokens_that_the_server_rejects() {
    let server = Protected::start("rejected");
    server.check("login URL", 0, "", "in the browser");
    server.spoil_tokens();
    server.check("whoami URL", 1, "", "does not accept the stored tokens; run `mcp login");
    server.check("call URL whoami", 4, "", "mcp login");
}

#[test]
fn a_broken_token_store_is_a_local_fault_for_all_commands() {
    let server = Protected::start("broken-store");
    server.check("login URL", 0, "", "in the browser");
    for file in server.files() {
        if fs::read_to_string(&file).is_ok_and(|record| record.contains("access_token")) {
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
        }
    }
    for line in ["whoami URL", "call URL whoami"] {
        let output = server.run(line);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}\n{stderr}");
        assert!(stderr.contains("token store") && !stderr.contains("accept the stored tokens"), "{line}\n{stderr}");
    }
}

#[test]
fn commands_run_without_a_warning_if_no_login_can_be_stored() {
    let server = Protected::with("unwritable", |builder| builder, HttpConfig::allow_anonymous);
    fs::write(&server.state, "a file instead of the directory").unwrap();
    server.check("call URL public", 0, "open", "");
    server.check("login URL", 1, "", "token store");
}

#[test]
fn a_login_at_a_server_with_anonymous_callers_succeeds() {
    let server = Protected::with("anonymous", AuthorizationServerBuilder::auto_approve, HttpConfig::allow_anonymous);
    server.check("call URL public", 0, "open", "");
    server.check("login URL", 0, "", "in the browser");
    server.check("call URL whoami", 0, "ann", "");
    server.check("whoami URL", 0, "", "");
}

#[test]
fn a_login_without_a_browser_and_a_terminal_names_the_remedies() {
    let server = Protected::start("no-browser");
    let output = server.run_with("login URL", None);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("an SSH session has no browser of the user: set BROWSER, or add --no-browser or --device"),
        "{stderr}"
    );
    for (line, code, err) in [
        ("login", 2, "no server is given; write a URL, or set MCP_SERVER to a URL"),
        ("login nowhere", 2, "`nowhere` is neither an http or https URL nor the host of a stored login"),
        ("login http://127.0.0.1:1/mcp", 3, "cannot connect"),
    ] {
        server.check(line, code, "", err);
    }
}

#[test]
fn a_login_without_a_terminal_shows_the_url_and_waits_for_the_response() {
    let server = Protected::start("url");
    for is_interrupted in [true, false] {
        let mut command = mcp();
        command.args(["login", &server.url, "--no-browser"]).env("XDG_STATE_HOME", &server.state);
        let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut notes = Lines::of(login.stderr.take().unwrap());
        assert!(notes.next().is_some_and(|line| line.contains("open this page to log in at http://127.0.0.1:")));
        let page = notes.next().unwrap();
        if is_interrupted {
            assert!(process::signal(&mut login, "INT"));
        } else {
            assert!(std::process::Command::new(example("browser")).arg(page).status().unwrap().success());
        }
        assert_eq!(process::wait(&mut login).code(), Some(if is_interrupted { 130 } else { 0 }));
        assert_eq!(server.secrets().is_empty(), is_interrupted);
    }
}

#[test]
fn a_logout_revokes_the_tokens_and_removes_them_also_during_an_outage() {
    let server = Protected::start("logout");
    server.check("login URL", 0, "", "in the browser");
    server.check("logout URL --json", 0, r#""loggedOut":true,"revoked":true}"#, "");
    assert!(server.issuer.count(Endpoint::Revocation) > 0);
    server.check("logout URL --json", 0, r#""loggedOut":false,"revoked":false}"#, "");

    server.check("login URL", 0, "", "in the browser");
    server.issuer.misbehave(Misbehavior::Response(Endpoint::Revocation, ResponseFault::Status(503)));
    server.check("logout URL", 0, "logged out of", "copies of the tokens are valid until their end: ");
    assert!(server.secrets().is_empty());
    server.issuer.behave();

    // The authorization server is away. The tokens are removed nevertheless.
    server.check("login URL", 0, "", "in the browser");
    server.issuer.misbehave(Misbehavior::Response(Endpoint::Metadata, ResponseFault::Status(503)));
    server.check("logout URL", 0, "logged out of", "copies of the tokens are valid until their end: ");
    assert!(server.secrets().is_empty());
}

#[test]
fn the_end_of_a_command_loses_no_refresh_token() {
    for is_interrupted in [false, true] {
        // A second use of a refresh token revokes all tokens of the login.
        let issuer =
            |builder: AuthorizationServerBuilder| builder.auto_approve().misbehave(Misbehavior::NoRefreshGrace);
        let server = Protected::with(&format!("renewal-{is_interrupted}"), issuer, |config| config);
        server.check("login URL", 0, "", "in the browser");
        // A token that ends soon still serves the request of its renewal, and an expired token does not.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        server.edit_tokens(|record| {
            record["obtained_at"] = (now - 1_000).into();
            record["expires_at"] = if is_interrupted { 1 } else { now + 25 }.into();
        });
        let (old, tokens) = (server.secrets(), server.issuer.count(Endpoint::Token));
        let slow = ResponseFault::Slow(Duration::from_millis(if is_interrupted { 2_000 } else { 3_500 }));
        server.issuer.misbehave_times(Misbehavior::Response(Endpoint::Token, slow), 1);
        if is_interrupted {
            let mut command = mcp();
            command.args(["call", &server.url, "whoami"]).env("XDG_STATE_HOME", &server.state);
            let mut call = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let renewal = || (server.issuer.count(Endpoint::Token) > tokens).then_some(());
            process::ready("the command renews its token", renewal);
            assert!(process::signal(&mut call, "INT"));
            assert_eq!(process::wait(&mut call).code(), Some(130));
        } else {
            server.check("call URL whoami", 0, "ann\n", "");
        }
        assert_eq!(server.issuer.count(Endpoint::Token), tokens + 1);
        let new = server.secrets();
        assert!(new.len() == 2 && new.iter().all(|token| !old.contains(token)), "the new tokens are stored");
        server.check("call URL whoami", 0, "ann\n", "");
        assert_eq!(server.issuer.count(Endpoint::Authorization), 1);
    }
}

#[test]
fn a_failed_browser_program_is_named_and_the_user_can_open_the_url() {
    let server = Protected::start("browser-fails");
    let output = server.run_with("login URL", Some("/no/such/program".into()));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("the program \"/no/such/program\" of BROWSER cannot be started"), "{stderr}");

    // A program that ran and failed may have shown the page.
    let mut command = mcp();
    command.args(["login", &server.url]).env("XDG_STATE_HOME", &server.state).env("BROWSER", "false");
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = Lines::of(login.stderr.take().unwrap());
    let mut before = Vec::new();
    while let Some(note) = notes.next().filter(|note| !note.contains("open this page to log in at")) {
        before.push(note);
    }
    let failure = "the program \"false\" of BROWSER failed: exit status: 1";
    assert!(before.iter().any(|note| note.contains(failure)), "{before:?}");
    let page = notes.next().unwrap();
    assert_eq!(notes.next().as_deref(), Some("mcp: the time limit is 10 min; Ctrl-C ends the wait"));
    assert!(std::process::Command::new(example("browser")).arg(page).status().unwrap().success());
    assert_eq!(process::wait(&mut login).code(), Some(0));
    assert!(!server.secrets().is_empty());
}

#[test]
fn whoami_checks_the_headers_of_the_command_line() {
    let server = Protected::start("whoami-header");
    server.check("login URL", 0, "", "in the browser");
    let token = server.secrets().swap_remove(0);
    let whoami = |header: &str, words: &[&str]| {
        let mut command = mcp();
        command.args(["whoami", "--header", header]).args(words).env("XDG_STATE_HOME", &server.state);
        let output = command.bounded_output();
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    for is_logged_in in [true, false] {
        if !is_logged_in {
            server.check("logout URL", 0, "", "");
        }
        let (valid, invalid) = (format!("Authorization: Bearer {token}"), "Authorization: Bearer invalid");
        for (header, words, code, part) in [
            (valid.as_str(), &[server.url.as_str()][..], 0, "accepts the headers of --header"),
            (&valid, &[&server.url, "--json"], 0, r#""credentials":"header""#),
            (invalid, &[&server.url], 1, "does not accept the headers of --header"),
            (&valid, &[], 2, "no server is given"),
        ] {
            let (found, shown) = whoami(header, words);
            assert_eq!(found, Some(code), "{words:?}\n{shown}");
            assert!(shown.contains(part) && !shown.contains(&token), "{words:?}\n{shown}");
        }
    }
}

impl Protected {
    /// Runs a command line in a project with a configuration file, and checks its exit code and parts of its output.
    fn check_in_project(&self, line: &str, code: i32, out: &str, err: &str) {
        let mut command = mcp();
        command.args(line.split(' ')).current_dir(self.state.join("project"));
        command.env("XDG_STATE_HOME", &self.state).env("BROWSER", example("browser")).env("SSH_CONNECTION", "1");
        let output = command.env("HOME", &self.state).env_remove("XDG_CONFIG_HOME").bounded_output();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
        assert!(stdout.contains(out) && stderr.contains(err), "{line}\n{stdout}\n{stderr}");
        assert!(!format!("{stdout}{stderr}").contains("hunter2"), "{line}\n{stdout}\n{stderr}");
    }

    pub(crate) fn write_project(&self, servers: &Value) {
        fs::create_dir_all(self.state.join("project")).unwrap();
        let text = serde_json::json!({ "mcpServers": servers }).to_string();
        fs::write(self.state.join("project/.mcp.json"), text).unwrap();
    }
}

#[test]
fn a_name_of_the_configuration_file_selects_the_server_of_a_login() {
    let server = Protected::start("named");
    server.write_project(&serde_json::json!({
        "team": { "type": "http", "url": server.url },
        "keyed": { "type": "http", "url": server.url, "headers": { "Authorization": "Bearer hunter2" } },
        "local": { "command": "no-such-program-anywhere" },
    }));
    for (line, code, out, err) in [
        ("login team", 3, "", "is not approved"),
        // A logout starts nothing, so it needs no approval.
        ("logout team", 0, "there was no login at", ""),
        ("approve --all", 0, "", ""),
        ("auth explain team", 0, "a login is possible", ""),
        ("whoami team", 1, "", "not logged in at"),
        ("login team", 0, "renewed automatically", "in the browser"),
        ("whoami team", 0, "renewed automatically", ""),
        ("whoami --server team", 0, "renewed automatically", ""),
        ("call --server team whoami", 0, "ann", ""),
        ("login keyed", 2, "", "has a header Authorization, which replaces a login"),
        ("login local", 2, "", "the server `local` is a command, which has no login"),
        ("login nothing", 2, "", "nor a server of a configuration file"),
        ("logout team", 0, "logged out of", ""),
        ("whoami team", 1, "", "not logged in at"),
    ] {
        server.check_in_project(line, code, out, err);
    }
}

#[test]
fn a_login_uses_the_oauth_settings_of_the_entry() {
    let client = RegisteredClient::with_secret("team-app", "hunter2").redirect_uri("http://127.0.0.1/callback");
    let issuer = |builder: AuthorizationServerBuilder| builder.auto_approve().no_registration().client(client);
    let server = Protected::with("oauth-settings", issuer, |config| config);
    let oauth = serde_json::json!({ "clientId": "team-app", "clientSecret": "hunter2", "scopes": ["admin"] });
    let entry = |x: Value| serde_json::json!({ "type": "http", "url": server.url, "oauth": oauth, "x-mcp": x });
    server.write_project(&serde_json::json!({
        "team": entry(serde_json::json!({ "oauthIssuer": server.issuer.issuer() })),
        "other": entry(serde_json::json!({ "oauthIssuer": "https://as.example" })),
        "unbound": entry(serde_json::json!({})),
    }));
    server.check_in_project("approve --all", 0, "", "");
    for (line, code, out, err) in [
        ("login unbound", 2, "", "in the member `oauthIssuer` of `x-mcp`"),
        ("call --server unbound whoami", 2, "", "in the member `oauthIssuer` of `x-mcp`"),
        ("login other", 4, "", "the configured issuer is https://as.example"),
        ("login team", 0, "team-app", "in the browser"),
        ("whoami team", 0, "admin", ""),
        ("call --server team admin", 0, "administered", ""),
    ] {
        server.check_in_project(line, code, out, err);
    }
    // The renewal of a token uses the secret of the entry too.
    server.edit_tokens(|record| record["expires_at"] = 1.into());
    let tokens = server.issuer.count(Endpoint::Token);
    server.check_in_project("call --server team admin", 0, "administered", "");
    assert_eq!(server.issuer.count(Endpoint::Token), tokens + 1);
}

#[test]
fn a_logout_of_an_entry_without_an_approval_removes_the_tokens() {
    let server = Protected::start("unapproved");
    let entry = |name: &str| serde_json::json!({ "team": { "type": "http", "url": server.url, "description": name } });
    server.write_project(&entry("first"));
    server.check_in_project("approve --all", 0, "", "");
    server.check_in_project("login team", 0, "renewed automatically", "in the browser");
    server.write_project(&entry("changed"));
    server.check_in_project("whoami team", 3, "", "is not approved");
    server.check_in_project("logout team", 0, "logged out of", "");
    assert_eq!(server.issuer.count(Endpoint::Revocation), 2);
    server.check("whoami URL", 1, "", "not logged in at");
}

#[test]
fn a_login_uses_the_client_of_the_command_line_until_the_logout() {
    let client = RegisteredClient::with_secret("team-app", "hunter2").redirect_uri("http://127.0.0.1/callback");
    let issuer = |builder: AuthorizationServerBuilder| builder.auto_approve().no_registration().client(client);
    let server = Protected::with("client-options", issuer, |config| config);
    fs::create_dir_all(&server.state).unwrap();
    let file = server.state.join("secret");
    fs::write(&file, "hunter2\n").unwrap();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = occupied.local_addr().unwrap().port();
    let (secret, own) = (format!("--client-secret @{}", file.display()), server.issuer.issuer());
    let options = format!("--client-id team-app {secret} --issuer {own}");
    for (line, code, out, err) in [
        ("login URL".to_owned(), 4, "", "no dynamic registration"),
        (
            "login URL --client-id team-app --client-secret hunter2".to_owned(),
            2,
            "",
            "--client-secret requires `@FILE`",
        ),
        (format!("login URL {secret}"), 2, "", "--client-id"),
        (format!("login URL --client-id team-app {secret}"), 2, "", "a client secret requires --issuer"),
        (
            format!("login URL --client-id team-app {secret} --issuer https://as.example"),
            4,
            "",
            "the configured issuer",
        ),
        (format!("login URL {options} --redirect-port {port}"), 2, "", "the port"),
        (format!("login URL {options} --redirect-port 0"), 2, "", "--redirect-port"),
        ("auth explain URL".to_owned(), 4, "no dynamic registration", "no dynamic registration"),
        (format!("auth explain URL {options} --scope admin"), 0, "the configured client team-app", ""),
        (format!("auth explain URL {options} --redirect-port {port}"), 2, "the port", "the port"),
        (
            format!("auth explain URL {options} --scope a\"b"),
            2,
            "characters that no scope may have",
            "no scope may have",
        ),
        (format!("login URL {options}"), 0, "team-app", "in the browser"),
        ("call URL whoami".to_owned(), 0, "ann", ""),
        ("auth explain URL".to_owned(), 0, "the configured client team-app", ""),
    ] {
        let output = server.run(&line);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
        assert!(stdout.contains(out) && stderr.contains(err), "{line}\n{stdout}\n{stderr}");
        assert!(!format!("{stdout}{stderr}").contains("hunter2"), "{line}\n{stdout}\n{stderr}");
    }
    // The renewal of a token uses the secret too, and so does a login without options.
    server.edit_tokens(|record| record["expires_at"] = 1.into());
    let tokens = server.issuer.count(Endpoint::Token);
    server.check("call URL whoami", 0, "ann", "");
    assert_eq!(server.issuer.count(Endpoint::Token), tokens + 1);
    server.check("login URL", 0, "team-app", "in the browser");
    let revocations = server.issuer.count(Endpoint::Revocation);
    server.check("logout URL", 0, "logged out of", "");
    assert_eq!(server.issuer.count(Endpoint::Revocation), revocations + 2);
    server.check("login URL", 4, "", "no dynamic registration");

    // The secret of the variable, and an entry with a client of its own.
    let mut command = mcp();
    command
        .args(["login", &server.url, "--client-id", "team-app", "--issuer", own])
        .env("MCP_CLIENT_SECRET", "hunter2");
    command.env("XDG_STATE_HOME", &server.state).env("BROWSER", example("browser"));
    let output = command.bounded_output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    server.write_project(&serde_json::json!({ "team": { "url": server.url, "oauth": { "clientId": "other" } } }));
    server.check_in_project("approve --all", 0, "", "");
    server.check_in_project("login team --client-id team-app", 2, "", "the entry of the server names a client");
}
