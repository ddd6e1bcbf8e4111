//! The foreign clients and their options.

use std::fmt;

/// One client.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Its script in `xtask/interop`.
    pub(super) script: &'static str,
    pub(super) runtime: Runtime,
    /// The package whose pinned version is shown.
    pub(super) package: &'static str,
    pub(super) eras: &'static [Era],
    pub(super) login: Login,
    /// It is the client of an SDK, and not an application.
    pub(super) is_sdk: bool,
}

/// How a client logs in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Login {
    /// By this script in `xtask/interop`.
    Script(&'static str),
    /// Not without a person, for this reason.
    No(&'static str),
}

/// The interpreter of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    Node,
    Python,
}

/// The revisions that a client is configured to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// The handshake revisions.
    Legacy,
    /// 2026-07-28 only.
    Modern,
    /// The client detects the era; our server offers 2026-07-28.
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Stdio,
    Http,
}

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "inspector",
        title: "MCP Inspector",
        script: "inspector.mjs",
        runtime: Runtime::Node,
        package: "@modelcontextprotocol/inspector",
        eras: &[Era::Legacy, Era::Modern],
        login: Login::No("its command line opens a browser"),
        is_sdk: false,
    },
    Peer {
        name: "typescript-v1",
        title: "TypeScript SDK",
        script: "typescript_v1.mjs",
        runtime: Runtime::Node,
        package: "@modelcontextprotocol/sdk",
        eras: &[Era::Legacy],
        login: Login::Script("login_v1.mjs"),
        is_sdk: true,
    },
    Peer {
        name: "typescript-v2",
        title: "TypeScript SDK",
        script: "typescript_v2.mjs",
        runtime: Runtime::Node,
        package: "@modelcontextprotocol/client",
        eras: &[Era::Legacy, Era::Modern, Era::Auto],
        login: Login::Script("login_v2.mjs"),
        is_sdk: true,
    },
    Peer {
        name: "python-v2",
        title: "Python SDK",
        script: "python_v2.py",
        runtime: Runtime::Python,
        package: "mcp",
        eras: &[Era::Legacy, Era::Modern, Era::Auto],
        login: Login::Script("login.py"),
        is_sdk: true,
    },
];

impl Era {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Transport {
    pub(super) const ALL: [Self; 2] = [Self::Stdio, Self::Http];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}
