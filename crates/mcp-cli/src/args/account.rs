//! The commands about logins.

use clap::{Args, Subcommand};

/// The registered client of a login.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClientOptions {
    /// Use this client, which the operator of the authorization server registered.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Read the secret of the client from this file. The variable MCP_CLIENT_SECRET has the same effect.
    #[arg(long, value_name = "@FILE", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// Use only this authorization server. A client secret requires it.
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Receive the response of the login at this port of 127.0.0.1. The default is any free port.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) redirect_port: Option<u16>,
}

/// The commands about logins at servers over HTTP.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Account {
    /// Log in to a server with the browser, and store the tokens for all commands.
    ///
    /// A name is the host of an earlier login, an address without a scheme, or a server of the configuration file. The variable BROWSER selects the browser,
    /// also over SSH and in a container. Without a browser, `mcp` shows the URL of the page, and you can paste the URL at
    /// which the browser ends. With --device, you enter a code in the browser of any machine and paste nothing.
    /// `mcp` stores the client of --client-id with the tokens, until `mcp logout`.
    #[command(override_usage = "mcp login [URL|NAME] [--no-browser|--device] [--scope SCOPE]... [--client-id ID]")]
    Login {
        #[arg(hide = true)]
        server: Option<String>,
        /// Show the URL of the page and open no browser.
        #[arg(long)]
        no_browser: bool,
        /// Show a code, which you enter in a browser of any machine. The authorization server must support the device flow.
        #[arg(long, conflicts_with = "no_browser")]
        device: bool,
        /// Request this scope too.
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        #[command(flatten)]
        client: ClientOptions,
    },
    /// Remove the tokens of a server.
    #[command(override_usage = "mcp logout [URL|NAME]")]
    Logout {
        #[arg(hide = true)]
        server: Option<String>,
    },
    /// Show the login at a server, or all stored logins.
    ///
    /// For one server, `mcp` connects to it, which also renews the tokens. The exit code is 0 only if the server accepts them.
    /// With `--header Authorization:…`, `mcp` checks the header instead of the stored login.
    #[command(override_usage = "mcp whoami [URL|NAME]")]
    Whoami {
        #[arg(hide = true)]
        server: Option<String>,
    },
    /// Examine how a server authorizes its callers.
    #[command(subcommand)]
    Auth(Auth),
}

/// The commands about the authorization of a server.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Auth {
    /// Show each step before a login: the documents, the rules that hold and those that do not, and the remedies.
    ///
    /// The command reads the metadata of the server and of its authorization server. It neither logs in nor registers, and
    /// sends no stored token. The exit code is 0 if nothing prevents a login.
    #[command(override_usage = "mcp auth explain [URL|NAME] [--scope SCOPE]... [--client-id ID]")]
    Explain {
        #[arg(hide = true)]
        server: Option<String>,
        /// Explain a login with this scope too.
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        #[command(flatten)]
        client: ClientOptions,
    },
}
