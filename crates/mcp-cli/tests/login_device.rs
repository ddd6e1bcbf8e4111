//! Logins with the device flow: the code, the wait, and their end.

use std::time::Duration;

use mcp_server::{
    auth::BearerTokens,
    prelude::{HttpConfig, Principal},
};
use mcp_test::authorization_server::Endpoint;

use super::{Http, login::Protected, run, server, terminal::Terminal, text};

fn protected(name: &str) -> Protected {
    Protected::with(name, |builder| builder.device_interval(Duration::from_secs(1)), |config| config)
}

impl Terminal {
    /// Waits for the code that the user enters at the page.
    fn code(&mut self) -> String {
        self.expect("open this page on any machine to log in at http://127.0.0.1:");
        self.expect("/device\r\n");
        self.expect("enter the code ");
        let code = self.expect("\r\n");
        self.expect("the code is valid for 10 min; Ctrl-C ends the wait");
        code
    }
}

#[test]
fn a_user_enters_the_code_on_another_machine() {
    let server = protected("device");
    let mut terminal = server.terminal("login URL --device --scope admin", &[]);
    let code = terminal.code();
    // The time that is left changes while the user acts.
    terminal.expect("waiting for the login, 9 min 5");
    terminal.expect("waiting for the login, 9 min 5");
    assert!(server.runtime.block_on(server.issuer.approve_device(&code)).unwrap());
    terminal.ends("renewed automatically", 0);
    server.check("call URL admin", 0, "administered", "");
    server.check("whoami URL", 0, "admin", "");
    let counts = [Endpoint::DeviceAuthorization, Endpoint::Authorization];
    assert_eq!(counts.map(|endpoint| server.issuer.count(endpoint)), [1, 0]);
}

#[test]
fn a_denied_code_is_an_error_and_an_interrupt_ends_the_wait() {
    let server = protected("device-end");
    let mut terminal = server.terminal("login URL --device", &[]);
    let code = terminal.code();
    assert!(server.runtime.block_on(server.issuer.deny_device(&code)).unwrap());
    terminal.ends("access_denied", 4);

    let mut terminal = server.terminal("login URL --device", &[]);
    terminal.code();
    terminal.interrupt();
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(server.secrets().is_empty());
    server.check("whoami URL", 1, "", "not logged in at");
}

#[test]
fn a_login_without_a_terminal_prints_the_code() {
    let approved = |builder: mcp_test::authorization_server::AuthorizationServerBuilder| {
        builder.auto_approve().device_interval(Duration::from_secs(1))
    };
    let server = Protected::with("device-pipe", approved, |config| config);
    server.check("login URL --device", 0, "renewed automatically", "enter the code ");
    server.check("call URL whoami", 0, "ann\n", "");
    server.check("login URL --device --no-browser", 2, "", "cannot be used with");
}

#[test]
fn a_server_without_the_device_flow_is_an_error_that_names_another_way() {
    let tokens = BearerTokens::new().token("a-token-with-many-random-characters", Principal::new("ann"));
    let http = Http::serve(server::server(), HttpConfig::new().authenticate(tokens));
    let output = run(&http.url, "login URL --device");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    for part in ["does not support the device flow", "use --no-browser instead of --device"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}
