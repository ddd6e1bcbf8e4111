//! Runs the program `mcp` as a user does, and checks its output and its exit codes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod colour;
mod configuration;
mod exit;
#[cfg(unix)]
mod explain;
mod format;
mod gateway;
#[cfg(target_os = "linux")]
mod gateway_audit;
#[cfg(unix)]
mod gateway_faults;
#[cfg(unix)]
mod gateway_login;
mod gateway_pins;
mod gateway_spans;
mod help;
mod lint;
mod listen;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod login_device;
#[cfg(unix)]
mod login_shared;
#[cfg(all(target_os = "linux", feature = "keyring"))]
mod login_store;
#[cfg(unix)]
mod login_terminal;
mod merged;
mod names;
mod policies;
mod process;
mod project;
mod serve;
mod server;
mod servers;
#[cfg(unix)]
mod startup;
#[cfg(unix)]
mod terminal;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use mcp_server::prelude::*;
use serde_json::{Value, json};

use self::process::BoundedOutput as _;

/// A server over HTTP. Dropping it stops the server.
struct Http {
    url: String,
    _runtime: tokio::runtime::Runtime,
}

impl Http {
    fn start() -> Self {
        Self::serve(server::server(), HttpConfig::new())
    }

    fn serve(server: Server, config: HttpConfig) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        runtime.spawn(async move { server.serve_http_on(listener, config).await });
        Self { url, _runtime: runtime }
    }
}

fn mcp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    // The variables of the machine that runs the tests do not decide about the server, the colours and the browser.
    for variable in ["MCP_SERVER", "CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    for variable in ["BROWSER", "DISPLAY", "SSH_CONNECTION", "SSH_TTY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"] {
        command.env_remove(variable);
    }
    // Logins and the keyring of the user do not take part in the tests.
    command.env("MCP_TOKEN_STORE", "file").env_remove("DBUS_SESSION_BUS_ADDRESS");
    command.env("XDG_STATE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"));
    command.stdin(Stdio::null());
    command
}

/// Runs a command line; the word `URL` is replaced by the server's URL.
fn run(server: &str, line: &str) -> Output {
    mcp().args(line.split(' ').map(|word| if word == "URL" { server } else { word })).bounded_output()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command line, and checks its exit code and that stdout contains `out` and stderr contains `err`.
///
/// An empty `err` requires an empty stderr.
fn check(server: &str, line: &str, code: i32, out: &str, err: &str) {
    let output = run(server, line);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
    assert!(stdout.contains(out), "{line}\n{stdout}");
    assert!(stderr.contains(err) && (!err.is_empty() || stderr.is_empty()), "{line}\n{stderr}");
}

fn json_of(server: &str, line: &str) -> Value {
    let output = run(server, line);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"))
}

#[test]
fn commands_print_results_and_errors() {
    let http = Http::start();
    for (line, code, out, err) in [
        ("tools URL", 0, "  a:integer b:integer  Add two numbers.\n", ""),
        ("tools URL add", 0, "Nothing is rounded.", ""),
        ("tools URL ad", 2, "", "the server lists no tool `ad` for this caller; did you mean add?"),
        ("tools URL geret", 2, "", "the server lists no tool `geret` for this caller; did you mean greet?"),
        ("prompts URL reviw", 2, "", "the server has no prompt `reviw`; did you mean review?"),
        ("call URL add a=1 b=2", 0, "{\"sum\":3}", ""),
        (r#"call URL add {"a":1,"b":2}"#, 0, "{\"sum\":3}", ""),
        (
            "call URL add a=one b=2",
            2,
            "",
            "`a` must be an integer; `one` is not an integer\n     add takes: a:integer b:integer",
        ),
        ("call URL add a=1", 1, "", "b"),
        ("call URL fail", 1, "", "no luck today"),
        ("call URL nothing", 2, "", "the server lists no tool `nothing`"),
        ("call URL", 2, "", "the name of a tool is required"),
        (
            "call URL greet",
            4,
            "",
            "(-32021); the server asks the user: run `mcp` with stdin and stderr at a terminal, \
             or give --answer, --yes or --decline\n",
        ),
        ("call URL think", 4, "", "name a program that answers them with --sample-with\n"),
        ("call URL roots --root /", 0, "file:///", ""),
        ("call URL think --sample-with cat", 0, "six times seven", ""),
        ("call URL think --sample-with false", 4, "", "false: exit status: 1"),
        ("resources URL", 0, "note://{id}", ""),
        ("resources URL", 0, "Settings     The settings of the program.\n", ""),
        ("read URL config://app", 0, "dark = true", ""),
        ("read URL config://none", 4, "", "not found"),
        ("prompts URL", 0, "review   name", ""),
        ("prompt URL review name=main.rs", 0, "user: Review main.rs.", ""),
        ("prompt URL review main.rs", 2, "", "`main.rs` is not an argument"),
        (r#"prompt URL review {"name":"main.rs"}"#, 0, "user: Review main.rs.", ""),
        (r#"prompt URL review name:="main.rs""#, 0, "user: Review main.rs.", ""),
        ("prompt URL review name:=1", 2, "", "`name` must be a string; `1` is a number"),
        (
            "prompt URL review name=x tome=y",
            0,
            "Review x.",
            "warning: there is no argument `tome`; did you mean `tone`?",
        ),
        ("complete URL note://{id} id=t", 0, "two", ""),
        (r#"complete URL note://{id} {"id":"t"}"#, 0, "two", ""),
        (r#"complete URL note://{id} id:="t""#, 0, "two", ""),
        ("ping URL --count 2", 0, " ms\n", ""),
        ("info URL", 0, "revision      2026-07-28", ""),
        ("info URL --revision 2025-03-26", 0, "revision      2025-03-26", ""),
        ("info URL more", 2, "", "unexpected argument `more`"),
        ("tools URL --header nothing", 2, "", "a header is `Name: value`"),
        ("tools URL --header X:@/no/such/file", 2, "", "cannot read /no/such/file"),
        (
            "tools URL --allow-host a:1",
            2,
            "",
            "an allowed host is invalid: an allowed host is a name or an address alone",
        ),
        ("tools URL --env A=b", 2, "", "--env and --cwd apply to the command of a server, not to a URL"),
        ("read http://h/x", 2, "", "no server is given; write a URL"),
        ("tools", 2, "", "no server is given; write a URL, a command after `--`, or set MCP_SERVER"),
        ("tools 127.0.0.1:1/mcp", 2, "", "if `127.0.0.1:1/mcp` is the server, write http://127.0.0.1:1/mcp\n"),
        ("tools example.com/mcp", 2, "", "if `example.com/mcp` is the server, write https://example.com/mcp\n"),
        ("tools list URL", 2, "", "the URL of the server must be the first word"),
        ("info http://[x/", 2, "", "the URL of the endpoint is invalid: invalid IPv6 address\n"),
        ("info ftp://x", 2, "", "`ftp://x` is not a server; write an http or https URL, or a command after `--`"),
        ("tools http://127.0.0.1:1/mcp", 3, "", "cannot connect to `http://127.0.0.1:1`: Connection refused"),
        ("prompt URL picture", 0, "user: [image/png, 3 bytes: --json shows it]\n", ""),
        ("tools -- no-such-program-anywhere", 3, "", "there is no such program"),
        ("tools URL paint", 0, "red|green", ""),
        ("call URL paint color=red", 0, "None", "warning: there is no argument `color`; did you mean `colour`?"),
        (r#"call URL paint {"color":"red"}"#, 0, "None", "did you mean `colour`?"),
        ("call URL paint size=1", 0, "None", "mcp: warning: the tool declares no argument `size`\n"),
        ("prompt URL review name=x other=y", 0, "Review x.", "warning: the prompt declares no argument `other`"),
        (
            "call URL strict color=red",
            2,
            "",
            "there is no argument `color`; did you mean `colour`?\n     strict takes: [colour:string]",
        ),
        ("call URL strict size=1", 2, "", "the tool has no argument `size`\n     strict takes: [colour:string]"),
        ("tools URL", 0, "[colour:string]", ""),
        ("complete URL review tone k", 2, "", "mcp complete [URL] PROMPT|TEMPLATE ARGUMENT"),
        ("completions bash", 0, "_mcp()", ""),
    ] {
        check(&http.url, line, code, out, err);
    }
}

#[test]
fn calls_a_tool_in_every_revision() {
    let http = Http::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let sum = json_of(&http.url, &format!("call URL add a=1 b=2 --json --revision {version}"));
        assert_eq!(sum["content"][0]["text"], "{\"sum\":3}", "{version}");
    }
}

#[test]
fn prints_json_for_programs() {
    let http = Http::start();
    let json = |line: &str| json_of(&http.url, line);
    assert_eq!(json("tools URL --json")[0]["name"], "add");
    assert_eq!(json("tools URL add --json")["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(json("--json call URL add a=1 b=2")["structuredContent"], json!({"sum": 3}));
    assert_eq!(json("call URL fail --json")["isError"], true);
    assert_eq!(json("resources URL --json")["resourceTemplates"][0]["uriTemplate"], "note://{id}");
    assert_eq!(json("read URL config://app --json")["contents"][0]["text"], "dark = true");
    assert_eq!(json("prompts URL --json")[1]["name"], "review");
    assert_eq!(json("prompt URL review name=x --json")["messages"][0]["content"]["text"], "Review x.");
    assert_eq!(json("complete URL note://{id} id=o --json")["values"], json!(["one"]));
    assert_eq!(json("ping URL --count 3 --json")["milliseconds"].as_array().map(Vec::len), Some(3));
    assert_eq!(json("info URL --json")["serverInfo"]["name"], "fixture");
}

#[test]
fn reads_arguments_from_files_and_writes_contents_to_files() {
    let http = Http::start();
    let directory = tempdir();
    let file = directory.join("arguments.json");
    std::fs::write(&file, r#"{"a": 20, "b": 22}"#).unwrap();
    check(&http.url, &format!("call URL add @{}", file.display()), 0, "{\"sum\":42}", "");
    std::fs::write(&file, r#"{"name": "a.rs"}"#).unwrap();
    check(&http.url, &format!("prompt URL review @{}", file.display()), 0, "Review a.rs.", "");
    std::fs::write(&file, r#"{"id": "t", "before": "o"}"#).unwrap();
    check(&http.url, &format!("complete URL note://{{id}} @{}", file.display()), 0, "two", "");
    std::fs::write(&file, "o").unwrap();
    check(&http.url, &format!("complete URL note://{{id}} id=@{}", file.display()), 0, "one", "");
    check(&http.url, &format!("prompt URL review name=@{}", file.display()), 0, "Review o.", "");
    let saved = directory.join("deep/down/settings.toml");
    check(&http.url, &format!("read URL config://app --output {}", saved.display()), 0, "", "");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), "dark = true");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn reads_secrets_from_files_and_environment_variables() {
    let directory = tempdir();
    let (token, headers) = (directory.join("token"), directory.join("headers"));
    std::fs::write(&token, "Bearer s3cret\n").unwrap();
    std::fs::write(&headers, "# headers of the server\nX-One: 1\n\nX-Two:2\n").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>()
    });
    let (token, headers) = (format!("Authorization: @{}", token.display()), format!("@{}", headers.display()));
    mcp().args(["info", &url, "--timeout", "5", "-H", &token, "-H", &headers]).bounded_output();
    let seen = seen.join().unwrap();
    for header in ["authorization: Bearer s3cret", "x-one: 1", "x-two: 2"] {
        assert!(seen.iter().any(|line| line == header), "{header}: {seen:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();

    let program = fixture();
    let call = |arguments: &[&str]| {
        let mut command = mcp();
        command.env("MCP_TEST_SECRET", "s3cret").args(["call", "secrets"]).args(arguments).arg("--").arg(&program);
        text(&command.bounded_output().stdout)
    };
    assert_eq!(call(&[]), "none\n");
    assert_eq!(call(&["--env", "MCP_TEST_SECRET"]), "s3cret\n");
    assert_eq!(call(&["--env", "MCP_TEST_SECRET=other"]), "other\n");
}

#[test]
fn does_not_use_the_url_of_a_resource_as_the_server() {
    let http = Http::start();
    let output = mcp().args(["read", "http://127.0.0.1:1/none"]).env("MCP_SERVER", &http.url).bounded_output();
    assert_eq!(
        (output.status.code(), &*text(&output.stderr)),
        (Some(4), "mcp: the server answered: Resource not found: http://127.0.0.1:1/none (-32602)\n")
    );
    // In other commands the URL overrides the variable.
    let output = mcp().args(["tools", &http.url]).env("MCP_SERVER", "http://127.0.0.1:1/none").bounded_output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = mcp().arg("tools").env("MCP_SERVER", " ").bounded_output();
    assert!(text(&output.stderr).contains("no server is given; write a URL"), "{output:?}");
}

#[test]
fn prints_each_log_message_in_one_line() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let line = format!("call URL logs --log-level info --revision {version}");
        check(&http.url, &line, 0, "logged", "[info] once\u{23ce}or twice\n");
        let line = format!("call URL logs --log-level error --revision {version}");
        check(&http.url, &line, 0, "logged", "");
    }
}

#[test]
fn reads_the_server_from_the_variable_and_traces_messages() {
    let http = Http::start();
    let output = mcp().args(["tools", "--trace"]).env("MCP_SERVER", &http.url).bounded_output();
    assert!(text(&output.stdout).contains("add"));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("-> {") && stderr.contains("<- {") && stderr.contains("tools/list"), "{stderr}");
}

/// Returns the path of the example `fixture`.
fn fixture() -> PathBuf {
    example("fixture")
}

/// Returns the path of an example, which `cargo test` builds.
fn example(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_mcp")).with_file_name("examples").join(name);
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "cargo build -p mcp-cli --example {name}");
    program
}

#[test]
fn connects_to_a_command() {
    let program = fixture();
    let output = mcp().args(["call", "add", "a=1", "b=2", "--"]).arg(&program).bounded_output();
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "{\"sum\":3}\n"), "{output:?}");
    let output = mcp().args(["tools", "--"]).arg(&program).args(["a", "b"]).bounded_output();
    assert!(text(&output.stdout).contains("add"));
}

#[test]
fn the_shell_runs_commands_over_one_connection() {
    let http = Http::start();
    let mut shell = mcp()
        .args(["shell", &http.url])
        .env("XDG_STATE_HOME", tempdir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "call add a=1 b=2\nadd a=20 b=22\ngeret\ntols\nstderr\nnonsense\ncall fail\nread config://app --json\n'\nhelp\n\
                 tools --revision 2025-11-25\ntools -- other\ncall add -\nquit\n";
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let output = process::finish(shell);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("{\"sum\":42}"), "{stdout}");
    assert!(stdout.contains("{\"sum\":3}") && stdout.contains("\"dark = true\""), "{stdout}");
    for expected in [
        "connected to fixture 1.0",
        "there is no command and no tool `nonsense`\n",
        "there is no command and no tool `geret`; did you mean `greet`?",
        "there is no command and no tool `tols`; did you mean `tools`?",
        "the command has written nothing new to stderr",
        "no luck today",
        "missing closing quote",
        "Call a tool",
        "--revision applies to the whole shell",
        "a shell has one server",
        "the shell reads its commands from stdin",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
}

/// Creates a directory for the current test.
fn tempdir() -> PathBuf {
    let name = format!("mcp-cli-{}-{:?}", std::process::id(), std::thread::current().id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace(['(', ')'], "-"));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}
