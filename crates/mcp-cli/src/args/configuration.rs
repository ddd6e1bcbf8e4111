//! The commands about configuration files.

use clap::Subcommand;

/// The commands about configuration files and the servers in them.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Configuration {
    /// Add a server to the configuration file of a client.
    ///
    /// `mcp` changes the file of the user, or that of --config. It keeps comments, order and line ends. For goose and
    /// Continue, `mcp` prints the text to insert. --env, --cwd and --header belong to the new entry, and the file then
    /// contains their values.
    #[command(override_usage = "mcp install CLIENT NAME (URL | -- SERVER COMMAND)")]
    Install {
        /// The client, for example claude-desktop, cursor, vscode or mcp for the file of this program.
        client: String,
        /// The name of the server.
        name: String,
        #[arg(hide = true)]
        url: Option<String>,
        #[arg(last = true, hide = true)]
        command: Vec<String>,
    },
    /// Remove a server from the configuration file of a client.
    Uninstall {
        /// The client.
        client: String,
        /// The name of the server.
        name: String,
    },
    /// Approve servers of the discovered project file, so that `mcp` may start them.
    ///
    /// The approval is for the present definition. A changed definition needs another approval.
    #[command(override_usage = "mcp approve NAME...|--all")]
    Approve {
        /// The names of the servers.
        names: Vec<String>,
        /// Approve all servers of the file.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Deny servers of the discovered project file.
    #[command(override_usage = "mcp deny NAME...|--all")]
    Deny {
        /// The names of the servers.
        names: Vec<String>,
        /// Deny all servers of the file.
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
    /// Check the configuration file and connect to each server: states, logins and the tokens of the tools.
    ///
    /// The exit code is 0 if all servers are ready, 1 if a server failed, and 2 if the file is wrong. The folder
    /// `docs/doctor` describes each code.
    Doctor,
}
