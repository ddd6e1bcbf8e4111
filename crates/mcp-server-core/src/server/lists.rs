//! The lists of a running server. Tools, resources, templates and prompts can be added and removed while it serves.

use crate::{
    Server,
    change::Change,
    registry::{
        Entry as _, PromptEntry, PromptRoute, RegistrationError, ResourceEntry, ResourceRoute, ResourceUpdate,
        TemplateEntry, TemplateRoute, ToolEntry, ToolRoute, UpdateOutcome,
    },
};

macro_rules! live_list {
    ($(#[$doc:meta])* $name:ident, $registry:ident, $route:ident => $convert:expr, $change:expr) => {
        $(#[$doc])*
        ///
        /// # Example
        /// ```
        /// use mcp_server_core::{RegistrationError, Server, tool};
        ///
        /// let server = Server::builder("plugins", "1.0.0").dynamic_tools().build();
        /// let tools = server.tools(); // resources, templates and prompts have the same methods
        /// tools.add(tool("now", async || "12:00"))?;
        /// tools.extend([tool("today", async || "Monday"), tool("month", async || "May")])?;
        /// assert_eq!(tools.names(), ["now", "today", "month"]);
        /// assert!(tools.remove("now"));
        /// # Ok::<(), RegistrationError>(())
        /// ```
        #[derive(Debug)]
        pub struct $name<'a> {
            pub(super) server: &'a Server,
        }

        impl $name<'_> {
            /// Adds one entry. The server notifies its clients.
            ///
            /// See the [example](Self#example).
            ///
            /// # Errors
            /// Fails when the definition is invalid, or its name is registered already.
            pub fn add(&self, route: $route<()>) -> Result<(), RegistrationError> {
                self.extend([route])
            }

            /// Adds several entries, or none of them. The server notifies its clients.
            ///
            /// See the [example](Self#example).
            ///
            /// # Errors
            /// Fails when a definition is invalid, when a name is registered already, or when the server has a source.
            pub fn extend(&self, routes: impl IntoIterator<Item = $route<()>>) -> Result<(), RegistrationError> {
                if self.server.source().is_some() {
                    return Err(RegistrationError::new("the lists of the server come from its source"));
                }
                let entries: Vec<_> = routes.into_iter().map($convert).collect::<Result<_, RegistrationError>>()?;
                if self.server.data.$registry.add(entries)? > 0 {
                    self.server.data.publisher.publish($change);
                }
                Ok(())
            }

            /// Removes an entry. Returns false when the name is unknown. Running calls continue.
            pub fn remove(&self, name: &str) -> bool {
                let removed = self.server.data.$registry.remove(name);
                if removed {
                    self.server.data.publisher.publish($change);
                }
                removed
            }

            /// Returns the names in the order of registration.
            #[must_use]
            pub fn names(&self) -> Vec<String> {
                self.server.data.$registry.load().iter().map(|entry| entry.key().to_owned()).collect()
            }
        }
    };
}

live_list!(
    /// The tools of a running server, by name.
    Tools, tools, ToolRoute => |route| {
        let (spec, run) = route.check()?;
        Ok(ToolEntry { spec, run: run.with_state(()) })
    }, Change::Tools
);
live_list!(
    /// The resources of a running server, by URI.
    Resources, resources, ResourceRoute => |route| {
        let (spec, run) = route.check()?;
        Ok(ResourceEntry { spec, run: run.with_state(()) })
    }, Change::Resources
);
impl Resources<'_> {
    /// Removes, replaces and adds several resources in one step.
    ///
    /// The server sends one list change if the list of URIs changed. It returns the URIs that the update could not add,
    /// because other resources have them.
    pub fn apply(&self, update: ResourceUpdate) -> Vec<String> {
        let ResourceUpdate { removed, replaced, added } = update;
        let UpdateOutcome { taken, differs } = self.server.data.resources.update(&removed, replaced, added);
        if differs {
            self.server.data.publisher.publish(Change::Resources);
        }
        taken
    }
}

live_list!(
    /// The resource templates of a running server, by template.
    ResourceTemplates, templates, TemplateRoute => |route| {
        let (spec, run, completions) = route.check()?;
        Ok(TemplateEntry { spec, run: run.with_state(()), completions: completions.ready() })
    }, Change::Resources
);
live_list!(
    /// The prompts of a running server, by name.
    Prompts, prompts, PromptRoute => |route| {
        let (spec, run, completions) = route.check()?;
        Ok(PromptEntry { spec, run: run.with_state(()), completions: completions.ready() })
    }, Change::Prompts
);
