//! The programs under test: built by cargo, started on a free port, killed at the end.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

use super::Leg;
use crate::{
    process::{self, Running},
    workspace::Metadata,
};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const START_LIMIT: Duration = Duration::from_secs(30);
/// The number of output lines in the error of a failed start.
const KEPT_LINES: usize = 20;
/// The program of the gateway.
const GATEWAY: &str = "mcp";
/// The program that starts Redis, the nodes and the balancer.
pub(crate) const FLEET: &str = "fleet-check";

/// The package (and binary) that a leg is run against.
pub(crate) fn package(leg: Leg) -> &'static str {
    match leg {
        Leg::Server | Leg::Gateway | Leg::Fleet => "everything",
        Leg::Client => "conformance-client",
        Leg::Authorization => "protected",
    }
}

/// Builds the fixture of a leg and returns its binary.
pub(crate) fn build(root: &Path, metadata: &Metadata, leg: Leg) -> Result<PathBuf, Error> {
    let name = package(leg);
    if metadata.member(name).is_none() {
        return Err(Error::msg(format!("nothing to test: the {leg} fixture `{name}` is not in this workspace")));
    }
    if leg == Leg::Fleet {
        binary(root, FLEET)?;
    }
    binary(root, name)
}

/// Builds the binary of a package of this workspace that has its name.
pub(crate) fn binary(root: &Path, name: &str) -> Result<PathBuf, Error> {
    println!("building `{name}`");
    let mut command = process::cargo(root);
    // With the features that `cargo test` uses, so that both share one build.
    command.args(["build", "--workspace", "--all-features", "--bin", name, "--message-format=json-render-diagnostics"]);
    let built = process::capture(&mut command, BUILD_LIMIT)?;
    if !built.status.success() {
        return Err(Error::msg(format!("cannot build `{name}`\n{}", built.stderr)));
    }
    executable(&built.stdout, name).ok_or_else(|| Error::msg(format!("cargo built no binary `{name}`")))
}

fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut built = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == name
            && message["executable"].is_string()
    });
    built.next().and_then(|message| message["executable"].as_str().map(PathBuf::from))
}

/// A running server. The drop of this value kills it.
pub(crate) struct Server {
    pub(crate) url: String,
    process: Running,
    /// The server behind a gateway.
    upstream: Option<Box<Server>>,
}

impl Server {
    /// Starts `binary` on a free port and waits for the line with its address.
    pub(crate) fn start(binary: &Path) -> Result<Self, Error> {
        Self::start_with(binary, &[])
    }

    /// Starts `binary` with further arguments.
    pub(crate) fn start_with(binary: &Path, args: &[&str]) -> Result<Self, Error> {
        let mut command = Command::new(binary);
        command.args(["--port", "0"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (url, process) = start(command, url_in)?;
        Ok(Self { url, process, upstream: None })
    }

    /// The reason why the server has exited, if it has.
    pub(crate) fn gone(&mut self) -> Option<String> {
        let gone = self.process.ended().map(|status| format!("the server exited ({status})"));
        gone.or_else(|| self.upstream.as_mut()?.gone().map(|reason| format!("behind the gateway: {reason}")))
    }
}

/// Builds the program of the gateway. It must be beside the server, where [`gateway`] looks for it.
pub(crate) fn build_gateway(root: &Path, server: &Path) -> Result<(), Error> {
    let built = binary(root, GATEWAY)?;
    if built == gateway_beside(server) {
        return Ok(());
    }
    Err(Error::msg(format!("the gateway {} is not beside the server", built.display())))
}

fn gateway_beside(server: &Path) -> PathBuf {
    server.with_file_name(GATEWAY).with_extension(std::env::consts::EXE_EXTENSION)
}

/// Starts `server` with the revisions of one era, and a gateway with raw names in front of it. The gateway has its files in
/// `directory`.
pub(crate) fn gateway(server: &Path, era: &str, directory: &Path) -> Result<Server, Error> {
    let upstream = Server::start_with(server, &["--only", era])?;
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let config = directory.join("mcp.json");
    let servers = serde_json::json!({ "mcpServers": { "everything": { "url": upstream.url } } });
    std::fs::write(&config, servers.to_string()).with_context(|| config.display().to_string())?;
    let mut command = Command::new(gateway_beside(server));
    command.args(["gateway", "--port", "0", "--names", "raw", "--config"]).arg(&config);
    // The logins and the approvals of the user do not take part.
    command.env("XDG_STATE_HOME", directory).env("MCP_TOKEN_STORE", "file").env_remove("MCP_SERVER");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (url, process) = start(command, |line| url_in(line.split_once("is served at")?.1))?;
    Ok(Server { url, process, upstream: Some(Box::new(upstream)) })
}

/// Starts three nodes of `server` with one Redis, and a balancer in front of them. The program that starts them is beside the
/// server.
pub(crate) fn fleet(server: &Path) -> Result<Server, Error> {
    let mut command = Command::new(server.with_file_name(FLEET).with_extension(std::env::consts::EXE_EXTENSION));
    // Any key serves, if all nodes have it.
    command.args(["serve", "--program"]).arg(server).args(["--", "--state-key"]).arg("5e".repeat(32));
    // The program ends with its standard input, which this process holds.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let (url, process) = start(command, url_in)?;
    Ok(Server { url, process, upstream: None })
}

/// The example `protected`, with the authorization server that it starts. The drop of this value kills both.
pub(crate) struct Protected {
    pub(crate) url: String,
    pub(crate) issuer: String,
    _process: Running,
}

impl Protected {
    /// Starts `binary` on a free port and waits for the line with its URLs.
    pub(crate) fn start(binary: &Path, args: &[&str]) -> Result<Self, Error> {
        let mut command = Command::new(binary);
        command.args(["--port", "0"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let ((url, issuer), process) = start(command, urls_in)?;
        Ok(Self { url, issuer, _process: process })
    }
}

/// Starts a server, and waits for the line of its piped stream that `found` accepts.
fn start<T>(mut command: Command, found: impl Fn(&str) -> Option<T>) -> Result<(T, Running), Error> {
    let name = process::display(&command);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let stdout = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
    let stream = stdout.or(child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let process = Running(child);
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let Some(stream) = stream else { return };
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // The thread reads the stream to its end, also without a receiver: a full pipe would stop the server.
            let _ = send.send(line);
        }
    });
    let deadline = Instant::now() + START_LIMIT;
    let mut output: Vec<String> = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if let Some(found) = found(&line) {
            return Ok((found, process));
        }
        if output.len() < KEPT_LINES {
            output.push(line);
        }
    }
    let (limit, output) = (START_LIMIT.as_secs(), output.join("\n"));
    Err(Error::msg(format!("{name} printed no address within {limit} s; its output:\n{output}")))
}

/// The URLs of the server and of its issuer.
fn urls_in(line: &str) -> Option<(String, String)> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    Some((line["url"].as_str()?.to_owned(), line["issuer"].as_str()?.to_owned()))
}

fn url_in(line: &str) -> Option<String> {
    let start = line.find("http://")?;
    let url = line[start..].split(|c: char| c.is_whitespace() || "\"'`,)".contains(c)).next()?;
    Some(url.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_address_in_the_output_of_the_server() {
        for (line, url) in [
            ("listening on http://127.0.0.1:8080/mcp", Some("http://127.0.0.1:8080/mcp")),
            ("INFO up url=\"http://127.0.0.1:1/mcp\" pid=3", Some("http://127.0.0.1:1/mcp")),
            ("ready: http://127.0.0.1:1/mcp.", Some("http://127.0.0.1:1/mcp")),
            ("warming up", None),
        ] {
            assert_eq!(url_in(line).as_deref(), url, "{line}");
        }
    }

    #[test]
    fn finds_both_urls_in_the_line_of_the_example() {
        let line = r#"{"url":"http://127.0.0.1:1/mcp","issuer":"http://127.0.0.1:2","header":"Authorization"}"#;
        assert_eq!(urls_in(line), Some(("http://127.0.0.1:1/mcp".to_owned(), "http://127.0.0.1:2".to_owned())));
        assert_eq!(urls_in(r#"{"url":"http://127.0.0.1:1/mcp","issuer":null}"#), None);
    }

    #[test]
    fn finds_the_binary_in_the_messages_of_cargo() {
        let other = r#"{"reason":"compiler-artifact","target":{"name":"everything"},"executable":null}"#;
        let ours = r#"{"reason":"compiler-artifact","target":{"name":"everything"},"executable":"bin/everything"}"#;
        let messages = format!("noise\n{other}\n{ours}\n");
        assert_eq!(executable(&messages, "everything"), Some(PathBuf::from("bin/everything")));
        assert_eq!(executable(&messages, "else"), None);
    }
}
