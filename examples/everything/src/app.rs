//! The state of the server. Handlers extract a part of it, for example `State<Notes>` or `State<App>`.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_server::{Server, ToolError, extract::FromRef, store::Store};

use crate::{
    dynamic_items::{DynamicItems, Item},
    notes::Notes,
    observations::Observations,
};

/// The state that all handlers share.
#[derive(Clone, Default)]
pub(crate) struct App {
    notes: Notes,
    observed: Observations,
    watched: Watched,
    dynamic_items: DynamicItems,
    server: Arc<OnceLock<Server>>,
}

impl App {
    /// Creates the state of a node. The nodes of a fleet share the store.
    pub(crate) fn new(store: Option<Arc<dyn Store>>) -> Self {
        Self { dynamic_items: store.map(DynamicItems::new).unwrap_or_default(), ..Self::default() }
    }

    /// Adds or removes an item on all nodes. Returns whether it exists now.
    pub(crate) async fn toggle(&self, item: Item) -> Result<bool, ToolError> {
        let server = self.server.get().ok_or_else(|| ToolError::new("the server is not up yet"))?;
        self.dynamic_items.toggle(server, item).await
    }

    /// Follows the items that other nodes add and remove. Never completes.
    pub(crate) async fn follow_items(&self, server: &Server) {
        self.dynamic_items.follow(server).await;
    }

    /// Stores the server for handlers that change its lists. The server then lives as long as the process.
    pub(crate) fn set_server(&self, server: &Server) {
        self.server.get_or_init(|| server.clone());
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
