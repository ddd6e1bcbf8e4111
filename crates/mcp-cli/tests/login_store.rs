//! The store of the tokens of a login: sealed with a key in a keyring, or plain files.

use std::{
    path::Path,
    process::Output,
    time::{Duration, Instant},
};

use mcp_test::secret_service::SecretService;

use super::{example, login::Protected, mcp, process::BoundedOutput as _, text};

/// A user with a session bus.
struct User<'a> {
    server: &'a Protected,
    /// The address of the bus.
    bus: String,
}

impl User<'_> {
    /// Runs a command line with a choice of the store. The word `URL` is replaced by the server's URL.
    fn run(&self, line: &str, choice: &str) -> Output {
        let mut command = mcp();
        command.args(line.split(' ').map(|word| if word == "URL" { self.server.url.as_str() } else { word }));
        command.env("XDG_STATE_HOME", &self.server.state).env("HOME", &self.server.state);
        command.env("BROWSER", example("browser")).env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        command.env("MCP_TOKEN_STORE", choice).bounded_output()
    }

    /// Runs a command line that must have an exit code, and returns its stderr.
    fn check(&self, line: &str, choice: &str, code: i32) -> String {
        let output = self.run(line, choice);
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}: {shown}");
        for token in self.server.secrets() {
            assert!(!shown.contains(&token), "{line}: {shown}");
        }
        text(&output.stderr)
    }

    /// Returns the contents of all records.
    fn records(&self) -> String {
        let files = std::fs::read_dir(self.server.state.join("mcp/logins")).into_iter().flatten();
        let records = files.map(|file| file.unwrap().path()).filter(|path| is_record(path));
        records.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

const PLAIN: &str = "stored in files that are not encrypted";

#[test]
fn the_tokens_of_a_login_are_sealed_with_a_key_in_the_keyring() {
    let (server, service) = (Protected::start("sealed"), SecretService::start().unwrap());
    let user = User { server: &server, bus: service.address().to_owned() };
    assert!(!user.check("login URL", "auto", 0).contains(PLAIN));
    let records = user.records();
    assert!(records.contains("mcp-sealed-1 ") && !records.contains("access_token"), "{records}");
    assert_eq!(service.secrets().len(), 1);
    for choice in ["auto", "sealed"] {
        assert_eq!(user.check("call URL whoami", choice, 0), "", "{choice}");
    }
    assert!(user.check("call URL whoami", "file", 4).contains("the store has no key"));
    // An explanation asks no keyring.
    service.lock();
    for choice in ["auto", "sealed", "file"] {
        let output = user.run("auth explain URL", choice);
        let stdout = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{choice}: {stdout}");
        assert!(stdout.contains("a stored registration cannot be read"), "{choice}: {stdout}");
    }
    assert_eq!(service.prompts(), 0);
    user.check("logout URL", "auto", 0);
    user.check("whoami URL", "auto", 1);
}

#[test]
fn without_a_keyring_the_tokens_are_plain_and_one_command_warns() {
    let server = Protected::start("plain");
    let user = User { server: &server, bus: format!("unix:path={}", server.state.join("no-bus").display()) };
    let start = Instant::now();
    let warning = user.check("login URL", "auto", 0);
    assert_eq!(warning.matches(PLAIN).count(), 1, "{warning}");
    assert!(warning.contains("there is no session bus of D-Bus"), "{warning}");
    assert!(user.records().contains("access_token"));
    server.spoil_access_token();
    // The command renews the tokens, and the user knows already that they are plain.
    assert_eq!(user.check("call URL whoami", "auto", 0), "");
    assert_eq!(user.check("call URL whoami", "file", 0), "");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(user.check("login URL", "auto", 0).contains(PLAIN), "each login warns");
}

#[test]
fn plain_tokens_can_be_refused() {
    let server = Protected::start("refused");
    let user = User { server: &server, bus: format!("unix:path={}", server.state.join("no-bus").display()) };
    let error = user.check("login URL", "sealed", 1);
    assert!(error.contains("the tokens cannot be sealed: there is no session bus of D-Bus"), "{error}");
    assert!(!user.records().contains("access_token"));
    let error = user.check("login URL", "keychain", 2);
    assert!(error.contains("MCP_TOKEN_STORE is `keychain` and must be `auto`, `sealed` or `file`"), "{error}");

    user.check("login URL", "file", 0);
    let service = SecretService::start().unwrap();
    let user = User { server: &server, bus: service.address().to_owned() };
    // Plain records are readable, and the next write seals them.
    assert_eq!(user.check("call URL whoami", "sealed", 0), "");
    server.spoil_access_token();
    assert_eq!(user.check("call URL whoami", "sealed", 0), "");
    assert!(!user.records().contains("access_token"));
}
