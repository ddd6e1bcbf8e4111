//! The listeners of a server, and the end of its work. Each listener waits for tasks and calls without a connection. The last listener
//! deletes the lease of the node.

use std::{
    sync::{OnceLock, atomic::Ordering},
    time::Duration,
};

use tokio::time::sleep;

use crate::Server;

/// How long the ends of tasks and calls may take to reach the store after the grace period.
const STORING: Duration = Duration::from_secs(2);

/// A listener of a server: stdio, or an HTTP endpoint. The last listener ends the work of the server.
#[derive(Debug)]
#[must_use]
pub struct ServerListener {
    server: Server,
    /// Whether this listener was the last when it stopped.
    was_last: OnceLock<bool>,
}

impl ServerListener {
    /// Waits until tasks and calls without a connection have ended and are stored, if the server shuts down. A node without
    /// them can end its sessions and its lease.
    pub async fn work_ended(&self) {
        if self.server.is_shutting_down() {
            self.server.work_ended().await;
        }
    }

    /// Deletes the lease of the node if this is the last listener, so that the other nodes need not wait until it expires. Waits for
    /// the store for one second.
    pub async fn release(&self) {
        let Some(node) = self.server.data.node.as_ref().filter(|_| self.leave()) else { return };
        if self.server.is_shutting_down() { node.release().await } else { node.delete_lease().await }
    }

    /// Returns whether this listener was the last.
    fn leave(&self) -> bool {
        *self.was_last.get_or_init(|| self.server.data.listeners.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}

impl Drop for ServerListener {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Server {
    /// Registers a listener whose calls have a grace period. Running tasks have the longest of these periods.
    pub(crate) fn listener(&self, grace_period: Duration) -> ServerListener {
        self.data.shutdown.extend_tasks(grace_period);
        self.data.listeners.fetch_add(1, Ordering::AcqRel);
        ServerListener { server: self.clone(), was_last: OnceLock::new() }
    }

    /// Waits until a server that shuts down has ended its work. The ends of its tasks and of its calls without a connection
    /// are then stored, and the lease of its node is deleted.
    ///
    /// The listeners of this library do this before they return. An application with a listener of its own waits for this
    /// before the process ends. The wait lasts at most three seconds longer than the grace period.
    ///
    /// ```
    /// use mcp_server_core::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = Server::builder("hello", "1.0").build();
    /// server.shutdown();
    /// server.ended().await;
    /// # }
    /// ```
    pub async fn ended(&self) {
        self.data.shutdown.wait().await;
        self.work_ended().await;
        if let Some(node) = &self.data.node {
            node.release().await;
        }
    }

    /// Waits until all work has ended and is stored, at most until the end of the grace period and two seconds more.
    async fn work_ended(&self) {
        let late = async {
            self.data.shutdown.is_over_for_tasks().await;
            sleep(STORING).await;
        };
        tokio::select! {
            biased;
            () = self.data.work.ended() => {}
            () = late => tracing::warn!("the store does not have the ends of all tasks and calls, so other nodes end them later"),
        }
    }
}
