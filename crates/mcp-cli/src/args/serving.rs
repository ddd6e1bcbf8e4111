//! The commands that serve.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands that serve clients until a signal.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Serving {
    /// Serve a directory of tools, prompts, resources and skills.
    ///
    /// `docs/content.md` describes the files of the directory. The server prints its URL to stderr when it is ready, and ends
    /// after SIGTERM or Ctrl-C.
    #[command(override_usage = "mcp serve DIR [--port NUMBER | --stdio]")]
    Serve {
        /// The directory.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        #[command(flatten)]
        listen: Listen,
    },
}

/// The transport of a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct Listen {
    /// Serve stdin and stdout instead of HTTP.
    #[arg(long, conflicts_with = "port")]
    pub(crate) stdio: bool,
    /// Serve `http://127.0.0.1:NUMBER/mcp`. The number 0 selects a free port.
    #[arg(long, value_name = "NUMBER", default_value_t = 8080)]
    pub(crate) port: u16,
}
