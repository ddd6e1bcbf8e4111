//! Adds routes and extensions to a server, each name once.

use super::ServerBuilder;
use crate::{
    extension::{Installation, Registrar, RegistrationTarget, ServerExtension, SharedValues},
    handler::Erased,
    registry::{MethodRoute, PromptRoute, RegistrationError, ResourceRoute, TemplateRoute, ToolRoute},
};

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Adds a tool.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics in the cases in which [`ServerBuilder::try_tool`] returns an error.
    #[track_caller]
    pub fn tool(self, route: ToolRoute<S>) -> Self {
        accept(self.try_tool(route))
    }

    /// Adds a tool.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    ///
    /// let server = Server::builder("notes", "1.0.0").try_tool(tool("greet", async || "Hello!"))?.build();
    /// # let _: Server = server;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when the name is taken or not valid, or a schema is not valid.
    pub fn try_tool(mut self, route: ToolRoute<S>) -> Result<Self, RegistrationError> {
        self.add_tool(route)?;
        Ok(self)
    }

    /// Adds a resource.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics in the cases in which [`ServerBuilder::try_resource`] returns an error.
    #[track_caller]
    pub fn resource(self, route: ResourceRoute<S>) -> Self {
        accept(self.try_resource(route))
    }

    /// Adds a resource.
    ///
    /// ```
    /// use mcp_server_core::{Server, resource};
    ///
    /// let server = Server::builder("notes", "1.0.0").try_resource(resource("notes://today", async || "Buy milk."))?.build();
    /// # let _: Server = server;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when the URI is taken or not valid.
    pub fn try_resource(mut self, route: ResourceRoute<S>) -> Result<Self, RegistrationError> {
        self.add_resource(route)?;
        Ok(self)
    }

    /// Adds a resource template.
    ///
    /// If several templates match a URI, the first one reads it. A resource with exactly this URI comes before all templates.
    ///
    /// [`template`](crate::template()) has an example.
    ///
    /// # Panics
    /// Panics in the cases in which [`ServerBuilder::try_resource_template`] returns an error.
    #[track_caller]
    pub fn resource_template(self, route: TemplateRoute<S>) -> Self {
        accept(self.try_resource_template(route))
    }

    /// Adds a resource template.
    ///
    /// ```
    /// use mcp_server_core::{Server, template};
    ///
    /// let server = Server::builder("notes", "1.0.0").try_resource_template(template("notes://{date}", async || "Nothing."))?.build();
    /// # let _: Server = server;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when the template is taken or not valid.
    pub fn try_resource_template(mut self, route: TemplateRoute<S>) -> Result<Self, RegistrationError> {
        self.add_resource_template(route)?;
        Ok(self)
    }

    /// Adds a prompt.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics in the cases in which [`ServerBuilder::try_prompt`] returns an error.
    #[track_caller]
    pub fn prompt(self, route: PromptRoute<S>) -> Self {
        accept(self.try_prompt(route))
    }

    /// Adds a prompt.
    ///
    /// ```
    /// use mcp_server_core::{Server, prompt};
    ///
    /// let server = Server::builder("notes", "1.0.0").try_prompt(prompt("review", async || "Review my code."))?.build();
    /// # let _: Server = server;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when the name is taken, or an argument is given twice.
    pub fn try_prompt(mut self, route: PromptRoute<S>) -> Result<Self, RegistrationError> {
        self.add_prompt(route)?;
        Ok(self)
    }

    /// Adds an extension: methods, capabilities and registrations that one type brings along.
    ///
    /// ```
    /// use mcp_server_core::{
    ///     RegistrationError, Server,
    ///     extension::{MethodResult, MethodRoute, Registrar, ServerExtension},
    /// };
    ///
    /// struct Uptime(std::time::Instant);
    ///
    /// impl ServerExtension for Uptime {
    ///     fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    ///         let started = self.0;
    ///         registrar.method(MethodRoute::immediate("com.example/uptime", move |_request| {
    ///             MethodResult::json(&serde_json::json!({ "seconds": started.elapsed().as_secs() }))
    ///         }))
    ///     }
    /// }
    ///
    /// let server = Server::builder("clock", "1.0.0").extension(Uptime(std::time::Instant::now())).build();
    /// # let _: Server = server;
    /// ```
    ///
    /// # Panics
    /// Panics when the extension cannot be added: see [`ServerBuilder::try_extension`].
    #[track_caller]
    pub fn extension(self, extension: impl ServerExtension) -> Self {
        accept(self.try_extension(extension))
    }

    /// Adds an extension. [`ServerBuilder::extension`] has an example.
    ///
    /// ```
    /// use mcp_server_core::{
    ///     RegistrationError, Server,
    ///     extension::{Registrar, ServerExtension},
    /// };
    ///
    /// struct Refused;
    ///
    /// impl ServerExtension for Refused {
    ///     fn register(&mut self, _registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    ///         Err(RegistrationError::new("the licence has expired"))
    ///     }
    /// }
    ///
    /// let error = Server::builder::<()>("app", "1.0.0").try_extension(Refused).unwrap_err();
    /// assert_eq!(error.to_string(), "the licence has expired");
    /// ```
    ///
    /// # Errors
    /// Returns the error of [`ServerExtension::register`].
    pub fn try_extension(mut self, mut extension: impl ServerExtension) -> Result<Self, RegistrationError> {
        extension.register(&mut Registrar::new(&mut self))?;
        self.extensions.push(Box::new(Installation(extension)));
        Ok(self)
    }

    /// Adds a tool. A refused route changes nothing.
    fn add_tool(&mut self, route: ToolRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("tool", &spec.tool.name)?;
        self.tools.push((spec, handler));
        Ok(())
    }

    /// Adds a resource. A refused route changes nothing.
    fn add_resource(&mut self, route: ResourceRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("resource", &spec.resource.uri)?;
        self.resources.push((spec, handler));
        Ok(())
    }

    /// Adds a resource template. A refused route changes nothing.
    fn add_resource_template(&mut self, route: TemplateRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("resource template", &spec.template.uri_template)?;
        self.templates.push((spec, handler, completions));
        Ok(())
    }

    /// Adds a prompt. A refused route changes nothing.
    fn add_prompt(&mut self, route: PromptRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("prompt", &spec.prompt.name)?;
        self.prompts.push((spec, handler, completions));
        Ok(())
    }

    fn claim(&mut self, noun: &'static str, name: &str) -> Result<(), RegistrationError> {
        if self.names.insert((noun, name.to_owned())) {
            return Ok(());
        }
        Err(RegistrationError::new(format!("the {noun} `{name}` is already registered")))
    }
}

/// The handlers of extensions need no state from the builder.
impl<S: Clone + Send + Sync + 'static> RegistrationTarget for ServerBuilder<S> {
    fn tool(&mut self, route: ToolRoute) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("tool", &spec.tool.name)?;
        self.tools.push((spec, Erased::ready(handler.with_state(()))));
        Ok(())
    }

    fn resource(&mut self, route: ResourceRoute) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("resource", &spec.resource.uri)?;
        self.resources.push((spec, Erased::ready(handler.with_state(()))));
        Ok(())
    }

    fn resource_template(&mut self, route: TemplateRoute) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("resource template", &spec.template.uri_template)?;
        self.templates.push((spec, Erased::ready(handler.with_state(())), completions.with_state(&())));
        Ok(())
    }

    fn prompt(&mut self, route: PromptRoute) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("prompt", &spec.prompt.name)?;
        self.prompts.push((spec, Erased::ready(handler.with_state(())), completions.with_state(&())));
        Ok(())
    }

    fn method(&mut self, route: MethodRoute) -> Result<(), RegistrationError> {
        route.check()?;
        self.claim("method", &route.name)?;
        self.methods.push(route);
        Ok(())
    }

    fn shared(&mut self) -> &mut SharedValues {
        &mut self.shared
    }
}

#[track_caller]
fn accept<T>(result: Result<T, RegistrationError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
