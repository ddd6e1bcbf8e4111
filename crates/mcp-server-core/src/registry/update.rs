//! Several changes of the resource list in one step.

use std::collections::HashSet;

use super::{RegistrationError, ResourceEntry, ResourceRoute};

/// Changes of the resource list that [`Resources::apply`](crate::Resources::apply) makes in one step.
///
/// # Example
/// ```
/// use mcp_server_core::{Server, extension::ResourceUpdate, resource};
///
/// let server = Server::builder("news", "1.0.0").resource(resource("news://1", async || "old")).build();
/// let mut update = ResourceUpdate::default();
/// update.remove("news://1");
/// update.add(resource("news://2", async || "new"))?;
/// assert!(server.resources().apply(update).is_empty());
/// assert_eq!(server.resources().names(), ["news://2"]);
/// # Ok::<(), mcp_server_core::RegistrationError>(())
/// ```
#[derive(Default)]
pub struct ResourceUpdate {
    pub(crate) removed: HashSet<String>,
    pub(crate) replaced: Vec<ResourceEntry>,
    pub(crate) added: Vec<ResourceEntry>,
}

impl ResourceUpdate {
    /// Removes the resource at a URI, if it is registered.
    ///
    /// See the [example](Self#example).
    pub fn remove(&mut self, uri: impl Into<String>) {
        self.removed.insert(uri.into());
    }

    /// Replaces the resource at the URI of the route, if it is registered. Its place in the list stays the same.
    ///
    /// ```
    /// use mcp_server_core::{Server, extension::ResourceUpdate, resource};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder("news", "1.0.0").resource(resource("news://1", async || "old")).build();
    /// let mut update = ResourceUpdate::default();
    /// update.replace(resource("news://1", async || "new"))?;
    /// server.resources().apply(update);
    /// assert_eq!(server.read_resource("news://1").await?.contents[0].body.bytes()?, b"new");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error when the definition is not valid.
    pub fn replace(&mut self, route: ResourceRoute) -> Result<(), RegistrationError> {
        self.replaced.push(entry(route)?);
        Ok(())
    }

    /// Adds a resource at the end of the list.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns an error when the definition is not valid.
    pub fn add(&mut self, route: ResourceRoute) -> Result<(), RegistrationError> {
        self.added.push(entry(route)?);
        Ok(())
    }
}

fn entry(route: ResourceRoute) -> Result<ResourceEntry, RegistrationError> {
    let (spec, run) = route.check()?;
    Ok(ResourceEntry { spec, run: run.with_state(()) })
}

impl std::fmt::Debug for ResourceUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceUpdate")
            .field("removed", &self.removed)
            .field("replaced", &self.replaced.len())
            .field("added", &self.added.len())
            .finish()
    }
}
