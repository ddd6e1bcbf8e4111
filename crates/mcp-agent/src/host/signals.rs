//! The end of a host by a signal of the system.

use super::Host;

impl Host {
    /// Waits for SIGTERM or SIGINT (Ctrl-C), and then ends all servers as [`Host::shutdown`] does.
    ///
    /// Without this, a signal ends the program at once. Servers that end with their standard input then end too, but servers
    /// that ignore it stay. No program can end its servers after SIGKILL.
    ///
    /// ```no_run
    /// # async fn example(host: mcp_agent::Host) -> std::io::Result<()> {
    /// tokio::select! {
    ///     ended = host.shutdown_on_signal() => ended?,
    ///     () = run(&host) => host.shutdown().await,
    /// }
    /// # Ok(())
    /// # }
    /// # async fn run(_: &mcp_agent::Host) {}
    /// ```
    ///
    /// # Errors
    /// If the system does not deliver signals to the program.
    pub async fn shutdown_on_signal(&self) -> std::io::Result<()> {
        wait().await?;
        self.shutdown().await;
        Ok(())
    }
}

#[cfg(unix)]
async fn wait() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}

#[cfg(not(unix))]
async fn wait() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
