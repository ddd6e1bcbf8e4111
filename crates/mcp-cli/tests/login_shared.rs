//! Several processes that log in at one server: one page opens, and the others wait for its result.

use std::process::{Child, Command, Stdio};

use mcp_test::authorization_server::{AuthorizationServerBuilder, Endpoint};

use super::{
    Http, check, example,
    login::Protected,
    mcp,
    process::{self, Lines},
    text,
};

/// Starts a login. Returns its process and its notes.
fn start(server: &Protected, options: &[&str]) -> (Child, Lines) {
    let mut command = mcp();
    command.args(["login", &server.url]).args(options).env("XDG_STATE_HOME", &server.state);
    command.env("BROWSER", example("browser")).stdin(Stdio::null());
    let mut login = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let notes = Lines::of(login.stderr.take().unwrap());
    (login, notes)
}

/// Starts a login that waits for its user. Returns its page too.
fn start_waiting(server: &Protected) -> (Child, String) {
    let (login, mut notes) = start(server, &["--no-browser"]);
    assert!(notes.next().is_some_and(|line| line.contains("open this page to log in at http://127.0.0.1:")));
    let page = notes.next().unwrap();
    // The other notes of the process need a reader.
    std::thread::spawn(move || notes.count());
    (login, page)
}

#[test]
fn further_commands_show_the_page_of_a_login_and_use_its_result() {
    let server = Protected::start("shared");
    let (mut first, page) = start_waiting(&server);
    let mut others: Vec<(Child, Lines)> = (0..3).map(|_| start(&server, &[])).collect();
    for (_, notes) in &mut others {
        let note = notes.next().unwrap();
        assert!(note.contains("another process waits for the login at http://127.0.0.1:"), "{note}");
        let limit = notes.next().unwrap();
        assert!(limit.contains("open this URL within 9 min") || limit.contains("within 10 min"), "{limit}");
        assert_eq!(notes.next().as_deref(), Some(&*page));
    }
    let mut terminal = server.terminal("call URL whoami", &[]);
    terminal.expect("another process waits for the login at");
    assert!(Command::new(example("browser")).arg(&page).status().unwrap().success());
    assert_eq!(process::wait(&mut first).code(), Some(0));
    for (login, _) in others {
        let output = login.wait_with_output().unwrap();
        let stdout = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{stdout}");
        assert!(stdout.contains("renewed automatically"), "{stdout}");
    }
    terminal.ends("ann", 0);
    assert_eq!((server.issuer.count(Endpoint::Authorization), server.issuer.count(Endpoint::Token)), (1, 1));
    // A later login is a login of its own.
    server.check("login URL", 0, "", "in the browser");
    assert_eq!(server.issuer.count(Endpoint::Authorization), 2);
}

#[test]
fn the_page_of_a_process_that_was_killed_is_not_shown() {
    let server = Protected::start("killed");
    let (mut first, page) = start_waiting(&server);
    first.kill().unwrap();
    first.wait().unwrap();
    let output = server.run_with("login URL", Some(example("browser")));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("another process") && !stderr.contains(&page), "{stderr}");
}

#[test]
fn a_login_with_a_scope_keeps_the_scopes_of_the_stored_login() {
    let issuer = |builder: AuthorizationServerBuilder| builder.auto_approve().scopes(["admin", "reports"]);
    let server = Protected::with("union", issuer, |config| config);
    // The requested scopes.
    let scopes = |line: &str| {
        let output = server.run_with(&format!("{line} --json"), Some(example("browser")));
        let login: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let scopes = login["scopes"].as_array().unwrap();
        let mut scopes: Vec<String> = scopes.iter().map(|scope| scope.as_str().unwrap().to_owned()).collect();
        scopes.sort();
        scopes
    };
    assert_eq!(scopes("login URL --scope reports"), ["reports"]);
    assert_eq!(scopes("login URL --scope admin"), ["admin", "reports"]);
    // Without the option, the authorization server chooses the scopes.
    assert!(scopes("login URL").is_empty());
}

#[test]
fn a_login_at_a_server_without_logins_names_the_cause() {
    let http = Http::start();
    check(&http.url, "login URL", 4, "", "answers without a login, and names no authorization server");
}
