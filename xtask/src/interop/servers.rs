//! Servers of other projects: the list, their start, and the configuration of our client for each.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Error};

use serde_json::{Map, Value, json};

use super::{
    install::Ready,
    peers::{Era, Runtime},
};
use crate::process::{self, Running};

const START_LIMIT: Duration = Duration::from_secs(60);
const GIT_LIMIT: Duration = Duration::from_secs(30);

/// One server.
#[derive(Debug)]
pub(super) struct Subject {
    /// Its name on the command line, and in `interop-client`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The package whose pinned version is shown.
    pub(super) package: &'static str,
    pub(super) runtime: Runtime,
    /// The program: a file below the folder of the installation, or a Python module.
    program: Program,
    pub(super) wires: &'static [Wire],
    pub(super) eras: &'static [Era],
    /// Its script in `xtask/interop` that requires tokens, if there is one.
    pub(super) protected: Option<&'static str>,
}

#[derive(Debug)]
enum Program {
    File(&'static str),
    Module(&'static str),
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Stdio,
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl Wire {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

const OLD: &[Era] = &[Era::Legacy, Era::Auto];
const BOTH: &[Era] = &[Era::Legacy, Era::Modern, Era::Auto];

pub(super) const SUBJECTS: &[Subject] = &[
    Subject {
        name: "everything",
        title: "server-everything",
        package: "@modelcontextprotocol/server-everything",
        runtime: Runtime::Node,
        program: Program::File("node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
        wires: &[Wire::Stdio, Wire::Http, Wire::Sse],
        eras: OLD,
        protected: None,
    },
    Subject {
        name: "filesystem",
        title: "server-filesystem",
        package: "@modelcontextprotocol/server-filesystem",
        runtime: Runtime::Node,
        program: Program::File("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"),
        wires: &[Wire::Stdio],
        eras: OLD,
        protected: None,
    },
    Subject {
        name: "memory",
        title: "server-memory",
        package: "@modelcontextprotocol/server-memory",
        runtime: Runtime::Node,
        program: Program::File("node_modules/@modelcontextprotocol/server-memory/dist/index.js"),
        wires: &[Wire::Stdio],
        eras: OLD,
        protected: None,
    },
    Subject {
        name: "time",
        title: "mcp-server-time",
        package: "mcp-server-time",
        runtime: Runtime::Python,
        program: Program::Module("mcp_server_time"),
        wires: &[Wire::Stdio],
        eras: BOTH,
        protected: None,
    },
    Subject {
        name: "git",
        title: "mcp-server-git",
        package: "mcp-server-git",
        runtime: Runtime::Python,
        program: Program::Module("mcp_server_git"),
        wires: &[Wire::Stdio],
        eras: BOTH,
        protected: None,
    },
    Subject {
        name: "fetch",
        title: "mcp-server-fetch",
        package: "mcp-server-fetch",
        runtime: Runtime::Python,
        program: Program::Module("mcp_server_fetch"),
        wires: &[Wire::Stdio],
        eras: BOTH,
        protected: None,
    },
    Subject {
        name: "typescript-v2",
        title: "TypeScript SDK",
        package: "@modelcontextprotocol/server",
        runtime: Runtime::Node,
        program: Program::File("server_v2.mjs"),
        wires: &[Wire::Stdio, Wire::Http],
        eras: BOTH,
        protected: Some("protected_v2.mjs"),
    },
    Subject {
        name: "python-v2",
        title: "Python SDK",
        package: "mcp",
        runtime: Runtime::Python,
        program: Program::File("server_v2.py"),
        wires: &[Wire::Stdio, Wire::Http],
        eras: BOTH,
        protected: Some("protected_v2.py"),
    },
];

/// A server that our client can connect to.
pub(super) struct Started {
    /// The configuration of `interop-client`.
    pub(super) config: Value,
    /// Killed when this value is dropped. Over stdio the client starts the server.
    _server: Option<Running>,
}

impl Started {
    /// Creates a directory for the server and starts the server.
    pub(super) fn new(ready: &Ready, subject: &Subject, wire: Wire, era: Era) -> Result<Self, Error> {
        let dir = ready.dir.join("work").join(subject.name);
        drop(std::fs::remove_dir_all(&dir));
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let (mut args, mut env) = (program(ready, &subject.program), Map::new());
        env.insert("HOME".into(), path(&ready.dir.join("home")));
        match subject.name {
            // The server starts in a folder, and later works in the roots of its client.
            "filesystem" => args.push(path(&ready.dir.join("home"))),
            "memory" => drop(env.insert("MEMORY_FILE_PATH".into(), path(&dir.join("memory.jsonl")))),
            "time" => args.extend(["--local-timezone".into(), "UTC".into()]),
            "git" => {
                let mut init = Command::new("git");
                init.args(["init", "--quiet", "--initial-branch=main"]).arg(&dir);
                let done = process::capture(&mut init, GIT_LIMIT)?;
                if !done.status.success() {
                    return Err(Error::msg(format!("cannot make a repository: {}", done.stderr)));
                }
                args.extend(["--repository".into(), path(&dir)]);
            }
            _ => {}
        }
        let mut config = json!({
            "subject": subject.name,
            "era": era.name(),
            "dir": path(&dir),
            "transport": wire.name(),
        });
        if wire == Wire::Stdio {
            args.extend(match subject.program {
                Program::File(file) if file.starts_with("server_v2") => vec!["stdio".into()],
                _ => Vec::new(),
            });
            config["command"] = path(&ready.program);
            config["args"] = args.into();
            config["env"] = env.into();
            return Ok(Self { config, _server: None });
        }
        let port = free_port()?;
        let kind = if wire == Wire::Sse { "sse" } else { "streamableHttp" };
        match subject.name {
            "everything" => {
                args.push(kind.into());
                env.insert("PORT".into(), port.to_string().into());
            }
            _ => args.extend(["http".into(), port.to_string().into()]),
        }
        let server = listening(ready, &args, &env, port).with_context(|| subject.title)?;
        config["url"] = format!("http://127.0.0.1:{port}/{}", if wire == Wire::Sse { "sse" } else { "mcp" }).into();
        Ok(Self { config, _server: Some(server) })
    }
}

/// Returns the configuration of `interop-client` for a server that requires tokens. The client starts the server, because its
/// authorization server runs first.
pub(super) fn protected(ready: &Ready, subject: &Subject, script: &str, era: Era) -> Result<Value, Error> {
    let port = free_port()?;
    Ok(json!({
        "subject": subject.name,
        "era": era.name(),
        "dir": path(&ready.dir),
        "transport": "protected",
        "command": path(&ready.program),
        "args": [path(&ready.dir.join(script)), port.to_string()],
        "env": { "HOME": path(&ready.dir.join("home")) },
        "url": format!("http://127.0.0.1:{port}/mcp"),
    }))
}

fn program(ready: &Ready, program: &Program) -> Vec<Value> {
    match program {
        Program::File(file) => vec![path(&ready.dir.join(file))],
        Program::Module(module) => vec!["-m".into(), (*module).into()],
    }
}

fn path(path: &Path) -> Value {
    path.to_string_lossy().into()
}

/// A port without a listener.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
    Ok(listener.local_addr().context("cannot find a free port")?.port())
}

/// Starts a server, and waits until it takes connections.
fn listening(ready: &Ready, args: &[Value], env: &Map<String, Value>, port: u16) -> Result<Running, Error> {
    let mut command = Command::new(&ready.program);
    command.args(args.iter().filter_map(Value::as_str)).current_dir(&ready.dir);
    command.envs(env.iter().filter_map(|(name, value)| Some((name, value.as_str()?))));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Running(command.spawn().context("cannot start it")?);
    process::ready(&format!("127.0.0.1:{port}"), START_LIMIT, || match server.ended() {
        Some(status) => Err(Error::msg(format!("the server exited ({status})"))),
        None => Ok(()),
    })
    .context("the server does not listen")?;
    Ok(server)
}
