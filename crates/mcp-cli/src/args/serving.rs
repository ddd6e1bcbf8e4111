//! The commands that serve.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
    /// Serve the servers of a configuration file as one server.
    ///
    /// Clients of each revision work with servers of each revision. The gateway prints its URL to stderr when it is ready, and
    /// ends its servers after SIGTERM or Ctrl-C. `docs/gateway.md` describes the files of --policy and --auth.
    #[command(
        override_usage = "mcp gateway [--config FILE] [--port NUMBER | --stdio] [--names FORM] [--strict] [--policy FILE] [--auth FILE]"
    )]
    Gateway(GatewayOptions),
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

/// The options of a gateway.
#[derive(Debug, Clone, Args)]
pub(crate) struct GatewayOptions {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Serve this address. Beyond loopback, the gateway needs --auth.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", conflicts_with = "stdio")]
    pub(crate) host: String,
    /// The names of tools and prompts.
    #[arg(long, value_name = "FORM", value_enum, default_value = "provider")]
    pub(crate) names: NameForm,
    /// Do not start if a definition is dropped because its name is that of another server.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Authenticate the clients as this TOML file describes. Without a rule of --policy, the gateway then denies each call.
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    pub(crate) auth: Option<PathBuf>,
    /// Append a line of JSON for each decision about a call to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Refuse each call whose line the file of --audit does not accept.
    #[arg(long, requires = "audit")]
    pub(crate) audit_required: bool,
    /// Append each span of the gateway to this file, as a line of OTLP JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) spans: Option<PathBuf>,
    /// Share the requests of a client between several gateways: each line of this file is a key of 32 bytes in 64 hexadecimal
    /// digits. The first key is the newest.
    #[arg(long, value_name = "FILE")]
    pub(crate) state_keys: Option<PathBuf>,
    /// Share the sessions of clients between several gateways in this Redis or Valkey: `redis://` or `rediss://`. Needs
    /// --state-keys. The environment variable keeps a password out of the list of processes.
    #[arg(long, value_name = "URL", env = "MCP_REDIS_URL", hide_env_values = true, requires = "state_keys")]
    pub(crate) redis: Option<String>,
}

/// The names of tools and prompts that a gateway serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameForm {
    /// `server__tool`. No server changes the names of another server.
    Provider,
    /// The names of the servers. If two servers have one name, the server that is configured first keeps it.
    Raw,
}
