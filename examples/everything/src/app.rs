//! The state of the server. Handlers extract a part of it, for example `State<Notes>` or `State<App>`.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_server::{Server, extract::FromRef};

use crate::{notes::Notes, observations::Observations};

/// The state that all handlers share.
#[derive(Clone, Default)]
pub(crate) struct App {
    notes: Notes,
    observed: Observations,
    watched: Watched,
    server: Arc<OnceLock<Server>>,
}

impl App {
    /// Stores the server for handlers that change its lists. The server then lives as long as the process.
    pub(crate) fn set_server(&self, server: &Server) {
        self.server.get_or_init(|| server.clone());
    }

    /// Returns the server after it is built.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.get()
    }
}

/// The URI of the resource that changes periodically.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// The time between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_secs(3);

/// The content of the watched resource: a counter.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<AtomicU64>);

impl Watched {
    /// Returns the counter.
    pub(crate) fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl App {
    /// Changes the watched resource every few seconds, and notifies its subscribers. Never completes.
    pub(crate) async fn change_periodically(&self, server: &Server) {
        let mut interval = tokio::time::interval(CHANGE_INTERVAL);
        interval.tick().await;
        loop {
            interval.tick().await;
            self.watched.0.fetch_add(1, Ordering::Relaxed);
            server.notify().resource_updated(WATCHED);
        }
    }
}

impl FromRef<App> for Observations {
    fn from_ref(app: &App) -> Self {
        app.observed.clone()
    }
}

impl FromRef<App> for Watched {
    fn from_ref(app: &App) -> Self {
        app.watched.clone()
    }
}

impl FromRef<App> for Notes {
    fn from_ref(app: &App) -> Self {
        app.notes.clone()
    }
}
