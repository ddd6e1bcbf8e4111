//! The commands about logins.

use clap::Subcommand;

/// The commands about logins at servers over HTTP.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Account {
    /// Log in to a server with the browser, and store the tokens for all commands.
    ///
    /// A name is the host of an earlier login, an address without a scheme, or a server of the configuration file. The variable BROWSER selects the browser,
    /// also over SSH and in a container. Without a browser, `mcp` shows the URL of the page, and you can paste the URL at
    /// which the browser ends. With --device, you enter a code in the browser of any machine and paste nothing.
    #[command(override_usage = "mcp login [URL|NAME] [--no-browser|--device] [--scope SCOPE]...")]
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
    #[command(override_usage = "mcp auth explain [URL|NAME]")]
    Explain {
        #[arg(hide = true)]
        server: Option<String>,
    },
}
