//! The recordings and the watched files of a new host.

use std::time::Duration;

use super::HostBuilder;
use crate::{
    config::ConfigWatch,
    record::{Recorder, Recording},
};

impl HostBuilder {
    /// Records all connections of the host, with a placeholder for the secrets of definitions:
    ///
    /// - the values of headers, and the OAuth client secret;
    /// - the values of variables of the process, also of inherited variables;
    /// - the arguments and the parts of the URL that have the name or the form of a secret, and all values of its query.
    ///
    /// Values with less than 4 bytes stay. Values with less than 8 bytes stay too if they are variables or parts of a query, and
    /// their names are not those of a secret. The recorder does not know the secrets of a connector of the application.
    ///
    /// ```
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("mcp-agent-host-{}.jsonl", std::process::id()));
    /// # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
    /// use mcp_agent::{
    ///     Host,
    ///     record::{Recorder, Recording},
    /// };
    ///
    /// let recorder = Recorder::create(&path)?;
    /// let host = Host::builder("my-app", "1.0").server("weather", &weather).record(recorder.clone()).start().await?;
    /// host.call("weather:forecast", ()).await?;
    /// host.shutdown().await;
    /// recorder.finish()?;
    ///
    /// // The replay needs no servers.
    /// let recording = Recording::load(&path)?;
    /// let host = Host::builder("my-app", "1.0").replay(recording.clone()).start().await?;
    /// assert_eq!(host.call("weather:forecast", ()).await?.text(), "rain");
    /// assert!(recording.differences().is_empty());
    /// # std::fs::remove_file(path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(mut self, recorder: Recorder) -> Self {
        self.wire.recorder = Some(recorder);
        self
    }

    /// Answers all connections from a recording. No server starts, and no connection is opened. Recorded servers that the builder
    /// does not name come after the others, in alphabetical order.
    ///
    /// See the example of [`HostBuilder::record`].
    pub fn replay(mut self, recording: Recording) -> Self {
        self.wire.recording = Some(recording);
        self
    }

    /// Adds the servers of a configuration file. The host fails to start if the file cannot be read, or if a required entry has a
    /// fault. The server of another entry with a fault has the state [`ServerState::Failed`](crate::ServerState::Failed).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), mcp_agent::StartError> {
    /// use std::time::Duration;
    ///
    /// use mcp_agent::{
    ///     Host,
    ///     config::{ConfigWatch, Environment, Scope},
    /// };
    ///
    /// let file = ConfigWatch::new("/projects/demo/.mcp.json", Scope::Project, Environment::of_process());
    /// let host = Host::builder("my-app", "1.0").config(file).watch(Duration::from_secs(1)).start().await?;
    /// # let _ = host;
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(mut self, file: ConfigWatch) -> Self {
        self.configs.push(file);
        self
    }

    /// Follows the files of the host, and reads them at each interval: configuration files, policy files and the file of pins.
    ///
    /// A changed entry replaces its server, a new one adds a server, and a missing one removes it. A file or an entry with a fault
    /// changes nothing: the last valid reading stays, and [`Host::file_faults`](crate::Host::file_faults) has the fault.
    /// If the file of pins has a fault, the comparisons of known definitions stay. A new list has the stricter effect of
    /// [`PinRules`](crate::pins::PinRules).
    pub fn watch(mut self, every: Duration) -> Self {
        self.watch = Some(every);
        self
    }
}
