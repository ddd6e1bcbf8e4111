//! The state of the server. Handlers take the part that they need: `State<Notes>`, `State<App>`.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_server::{FromRef, Server};

use crate::{notes::Notes, observed::Observed};

/// Everything that handlers share.
#[derive(Clone, Default)]
pub(crate) struct App {
    notes: Notes,
    observed: Observed,
    watched: Watched,
    server: Arc<OnceLock<Server>>,
}

impl App {
    /// Tells handlers which server they belong to, for those that change its lists. It lives as long as the process.
    pub(crate) fn serve_as(&self, server: &Server) {
        self.server.get_or_init(|| server.clone());
    }

    /// The server, once it is built.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.get()
    }
}

/// The URI of the resource that changes by itself.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// How often it changes.
const BEAT: Duration = Duration::from_secs(3);

/// What changes by itself: a number that grows.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<AtomicU64>);

impl Watched {
    /// The number at the moment.
    pub(crate) fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl App {
    /// Changes the watched resource every few seconds, and tells who subscribed to it. Never ends.
    pub(crate) async fn beat(&self, server: &Server) {
        let mut beat = tokio::time::interval(BEAT);
        beat.tick().await;
        loop {
            beat.tick().await;
            self.watched.0.fetch_add(1, Ordering::Relaxed);
            server.notify().resource_updated(WATCHED);
        }
    }
}

impl FromRef<App> for Observed {
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
