//! The tool and the prompt that are added and removed while the server runs. Records in the store contain the current state, and
//! each node of a fleet follows them.

use std::{sync::Arc, time::Duration};

use mcp_server::{
    RegistrationError, Server,
    prelude::*,
    store::{MemoryStore, Store, StoreError, Swap},
};
use tokio::sync::Mutex;

/// The topic on which the nodes announce changes.
const TOPIC: &str = "dynamic-items";
/// The pause after a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// An item that is added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Tool,
    Prompt,
}

impl Item {
    const ALL: [Self; 2] = [Self::Tool, Self::Prompt];

    fn name(self) -> &'static str {
        match self {
            Self::Tool => "test_dynamic_tool",
            Self::Prompt => "test_dynamic_prompt",
        }
    }

    /// Returns the key of the record that exists while the item does.
    fn key(self) -> String {
        format!("dynamic-items/{}", self.name())
    }

    fn is_listed(self, server: &Server) -> bool {
        let names = match self {
            Self::Tool => server.tools().names(),
            Self::Prompt => server.prompts().names(),
        };
        names.iter().any(|name| name == self.name())
    }

    /// Adds or removes the item on this node. The server notifies its clients of a change.
    fn set(self, server: &Server, exists: bool) -> Result<(), RegistrationError> {
        const DESCRIPTION: &str = "Was added while the server ran.";
        async fn text() -> &'static str {
            "This was added while the server ran."
        }
        match (exists == self.is_listed(server), exists, self) {
            (true, ..) => {}
            (false, true, Self::Tool) => server.tools().add(tool(self.name(), text).description(DESCRIPTION))?,
            (false, true, Self::Prompt) => server.prompts().add(prompt(self.name(), text).description(DESCRIPTION))?,
            (false, false, Self::Tool) => drop(server.tools().remove(self.name())),
            (false, false, Self::Prompt) => drop(server.prompts().remove(self.name())),
        }
        Ok(())
    }
}

/// The items of this node.
#[derive(Clone)]
pub(crate) struct DynamicItems {
    store: Arc<dyn Store>,
    /// A node reads and applies the records one at a time, so that it does not apply an older state last.
    applying: Arc<Mutex<()>>,
}

impl Default for DynamicItems {
    fn default() -> Self {
        Self::new(Arc::new(MemoryStore::new()))
    }
}

impl DynamicItems {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, applying: Arc::default() }
    }

    /// Adds an item that does not exist, and removes an item that exists, on all nodes. Returns whether it exists now.
    pub(crate) async fn toggle(&self, server: &Server, item: Item) -> Result<bool, ToolError> {
        let mut current = self.store.get(&item.key()).await.map_err(|error| failed(&error))?;
        let exists = loop {
            let new = if current.is_some() { None } else { Some(Arc::from(*b"exists")) };
            let exists = new.is_some();
            match self
                .store
                .compare_and_swap(&item.key(), current.as_deref(), new, None)
                .await
                .map_err(|error| failed(&error))?
            {
                Swap::Lost { current: newer } => current = newer,
                _ => break exists,
            }
        };
        self.apply(server, item).await?;
        self.store.publish(TOPIC, Arc::from(*b"changed")).await.map_err(|error| failed(&error))?;
        Ok(exists)
    }

    async fn apply(&self, server: &Server, item: Item) -> Result<(), ToolError> {
        let _applying = self.applying.lock().await;
        let exists = self.store.get(&item.key()).await.map_err(|error| failed(&error))?.is_some();
        item.set(server, exists).map_err(|error| ToolError::new(error.to_string()))
    }

    /// Follows the changes of the other nodes. Never completes.
    pub(crate) async fn follow(&self, server: &Server) {
        loop {
            if self.follow_once(server).await.is_err() {
                eprintln!("the changes of the lists by other nodes are late, because the store fails");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self, server: &Server) -> Result<(), ToolError> {
        let mut changes = self.store.subscribe(TOPIC, 1).await.map_err(|error| failed(&error))?;
        loop {
            for item in Item::ALL {
                self.apply(server, item).await?;
            }
            // The content of a message has no meaning, also if messages were lost.
            if changes.recv().await.is_none() {
                return Ok(());
            }
        }
    }
}

fn failed(error: &StoreError) -> ToolError {
    ToolError::new(format!("the lists cannot be changed: {error}"))
}
