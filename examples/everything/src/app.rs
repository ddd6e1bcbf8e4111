//! The state of the server. Handlers take the part that they need: `State<Notes>`, `State<App>`.

use std::sync::{Arc, OnceLock};

use mcp_server::{FromRef, Server};

use crate::notes::Notes;

/// Everything that handlers share.
#[derive(Clone, Default)]
pub(crate) struct App {
    notes: Notes,
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

impl FromRef<App> for Notes {
    fn from_ref(app: &App) -> Self {
        app.notes.clone()
    }
}
