//! Logins at a terminal: the browser, the URL of the page, and the pasted response.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use mcp_test::authorization_server::Endpoint;

use super::{example, login::Protected, process::TIMEOUT, terminal::Terminal};

impl Protected {
    /// Runs a command line at a terminal in an SSH session, with further variables.
    pub(crate) fn terminal(&self, line: &str, variables: &[(&str, &str)]) -> Terminal {
        let state = self.state.to_str().unwrap();
        let own = [("NO_COLOR", "1"), ("SSH_CONNECTION", "1"), ("XDG_STATE_HOME", state)];
        Terminal::run_with(&self.url, line, &[&own, variables].concat())
    }
}

impl Terminal {
    /// Waits for the URL of the login page.
    fn page(&mut self) -> String {
        self.expect("open this page to log in at http://127.0.0.1:");
        self.expect("\n");
        let page = self.expect("\r\n");
        self.expect("Paste the URL of that page here: ");
        page
    }

    /// Waits for the end of the program, and checks its exit code and a part of its output.
    pub(crate) fn ends(&mut self, text: &str, code: i32) {
        self.expect(text);
        assert_eq!(self.wait().code(), Some(code), "{text}");
    }
}

/// Returns the URL at which a browser ends that cannot open the redirect URI.
fn redirect(page: &str) -> String {
    let rest = page.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_user_pastes_the_response_of_a_browser_on_another_machine() {
    let server = Protected::start("paste");
    server.terminal("whoami URL", &[]).ends("not logged in at", 1);
    let mut terminal = server.terminal("login URL --no-browser", &[]);
    let page = terminal.page();
    terminal.type_text(&format!("{}\n", redirect(&page)));
    terminal.ends("renewed automatically", 0);
    assert_eq!(server.secrets().len(), 2);
    server.terminal("whoami URL", &[]).ends("renewed automatically", 0);
    server.terminal("call URL whoami", &[]).ends("ann", 0);
    server.terminal("logout URL", &[]).ends("logged out of", 0);
    server.terminal("whoami URL", &[]).ends("not logged in at", 1);
    server.terminal("whoami", &[]).ends("no login is stored", 1);
    server.terminal("logout", &[]).ends("no login is stored", 2);
}

#[test]
fn only_the_response_of_the_same_login_counts() {
    let server = Protected::start("other");
    let mut first = server.terminal("login URL --no-browser", &[]);
    let other = redirect(&first.page());
    first.interrupt();
    assert_eq!(first.wait().code(), Some(130));
    // After each wrong text the user can paste again, up to a limit.
    let wrong = [other.as_str(), "http://127.0.0.1:1/callback?code=c&state=s", "c", "?state=s"];
    let mut terminal = server.terminal("login URL --no-browser", &[]);
    terminal.page();
    for pasted in wrong {
        terminal.type_text(&format!("{pasted}\n"));
        terminal.expect("this is not the URL at which the browser ended after this login");
        terminal.expect("Paste the URL of that page here: ");
    }
    terminal.type_text("c\n");
    terminal.ends("the pasted URL does not belong to this login", 4);
    assert!(server.secrets().is_empty());
    assert_eq!(server.issuer.count(Endpoint::Token), 0);

    let mut terminal = server.terminal("login URL --no-browser", &[]);
    let page = terminal.page();
    terminal.type_text(&format!("{other}\n"));
    terminal.expect("Paste the URL of that page here: ");
    terminal.type_text(&format!("{}\n", redirect(&page)));
    terminal.ends("renewed automatically", 0);
}

#[test]
fn a_browser_on_the_same_machine_needs_no_pasted_response() {
    let server = Protected::start("no-paste");
    for typed in ["", "\n", "\u{4}"] {
        let mut terminal = server.terminal("login URL --no-browser", &[]);
        let page = terminal.page();
        terminal.type_text(typed);
        assert!(Command::new(example("browser")).arg(page).status().unwrap().success());
        terminal.ends("renewed automatically", 0);
    }
}

#[test]
fn an_interrupt_ends_a_login_and_keeps_the_old_tokens() {
    let server = Protected::start("interrupt");
    server.check("login URL", 0, "", "in the browser");
    let tokens = server.secrets();
    let mut terminal = server.terminal("login URL --no-browser", &[]);
    terminal.page();
    terminal.interrupt();
    terminal.expect("(the question was cancelled)");
    assert_eq!(terminal.wait().code(), Some(130));
    assert_eq!(server.secrets(), tokens);
    server.check("whoami URL", 0, "", "");
}

#[test]
fn commands_at_a_terminal_log_in_with_the_browser_of_the_variable() {
    let browser = example("browser");
    let variables = [("BROWSER", browser.to_str().unwrap())];
    let server = Protected::start("terminal-browser");
    // A call without a login opens the page, also in an SSH session.
    let mut terminal = server.terminal("call URL whoami", &variables);
    terminal.expect("opening the login page of http://127.0.0.1:");
    terminal.ends("ann", 0);
    assert_eq!(server.issuer.count(Endpoint::Authorization), 1);
    server.terminal("login URL --scope admin", &variables).ends("renewed automatically", 0);
    server.terminal("call URL admin", &[]).ends("administered", 0);
    server.terminal("logout URL", &[]).ends("logged out of", 0);
}

#[test]
fn commands_at_a_terminal_without_a_browser_show_the_url() {
    let server = Protected::start("terminal-url");
    let mut terminal = server.terminal("call URL whoami", &[]);
    terminal.expect("an SSH session has no browser of the user");
    terminal.expect("`mcp login --device` shows a code instead");
    let page = terminal.page();
    terminal.type_text(&format!("{}\n", redirect(&page)));
    terminal.ends("ann", 0);
    // A page that `BROWSER` cannot open is shown too.
    let mut terminal = server.terminal("login URL", &[("BROWSER", "/no/such/program")]);
    let page = terminal.page();
    terminal.type_text(&format!("{}\n", redirect(&page)));
    terminal.ends("renewed automatically", 0);
}

#[test]
fn a_command_waits_for_the_login_at_a_server_of_a_configuration_file() {
    let server = Protected::start("terminal-config");
    server.write_project(&serde_json::json!({ "team": { "url": server.url } }));
    let file = server.state.join("project/.mcp.json");
    let line = format!("call --config {} --server team whoami", file.display());
    let mut terminal = server.terminal(&line, &[]);
    let page = terminal.page();
    terminal.type_text(&format!("{}\n", redirect(&page)));
    terminal.ends("ann", 0);
}
