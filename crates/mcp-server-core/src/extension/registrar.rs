//! The interface by which an extension registers its parts with a builder.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
};

use crate::registry::{MethodRoute, PromptRoute, RegistrationError, ResourceRoute, TemplateRoute, ToolRoute};

/// The builder of a server, as an extension sees it in [`ServerExtension::register`](super::ServerExtension::register).
///
/// A failed registration changes nothing, so that an extension can continue without it.
///
/// # Example
/// ```
/// use mcp_server_core::{
///     RegistrationError,
///     extension::{MethodResult, MethodRoute, Registrar, ServerExtension},
///     prompt, resource, tool,
/// };
///
/// struct Clock;
///
/// impl ServerExtension for Clock {
///     fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
///         *registrar.shared::<u32>() += 1; // the number of clocks of this server
///         registrar.tool(tool("now", async || "12:00"))?;
///         registrar.resource(resource("clock://now", async || "12:00"))?;
///         registrar.prompt(prompt("ask-time", async || "What is the time?"))?;
///         registrar.method(MethodRoute::immediate("com.example/now", |_| {
///             MethodResult::json(&serde_json::json!({ "now": "12:00" }))
///         }))
///     }
/// }
/// ```
pub struct Registrar<'a> {
    target: &'a mut dyn RegistrationTarget,
}

/// Accepts registrations for a builder of any state type.
pub(crate) trait RegistrationTarget {
    fn tool(&mut self, route: ToolRoute) -> Result<(), RegistrationError>;
    fn resource(&mut self, route: ResourceRoute) -> Result<(), RegistrationError>;
    fn resource_template(&mut self, route: TemplateRoute) -> Result<(), RegistrationError>;
    fn prompt(&mut self, route: PromptRoute) -> Result<(), RegistrationError>;
    fn method(&mut self, route: MethodRoute) -> Result<(), RegistrationError>;
    fn shared(&mut self) -> &mut SharedValues;
}

/// Values that extensions of one builder share, by type.
pub(crate) type SharedValues = HashMap<TypeId, Box<dyn Any + Send + Sync>>;

impl<'a> Registrar<'a> {
    pub(crate) fn new(target: &'a mut dyn RegistrationTarget) -> Self {
        Self { target }
    }

    /// Registers a tool.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// See [`ServerBuilder::try_tool`](crate::ServerBuilder::try_tool).
    pub fn tool(&mut self, route: ToolRoute) -> Result<(), RegistrationError> {
        self.target.tool(route)
    }

    /// Registers a resource.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// See [`ServerBuilder::try_resource`](crate::ServerBuilder::try_resource).
    pub fn resource(&mut self, route: ResourceRoute) -> Result<(), RegistrationError> {
        self.target.resource(route)
    }

    /// Registers a resource template.
    ///
    /// # Errors
    /// See [`ServerBuilder::try_resource_template`](crate::ServerBuilder::try_resource_template).
    pub fn resource_template(&mut self, route: TemplateRoute) -> Result<(), RegistrationError> {
        self.target.resource_template(route)
    }

    /// Registers a prompt.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// See [`ServerBuilder::try_prompt`](crate::ServerBuilder::try_prompt).
    pub fn prompt(&mut self, route: PromptRoute) -> Result<(), RegistrationError> {
        self.target.prompt(route)
    }

    /// Registers a method.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns an error when the method is already registered, or belongs to the protocol itself.
    pub fn method(&mut self, route: MethodRoute) -> Result<(), RegistrationError> {
        self.target.method(route)
    }

    /// Returns a value that all extensions of this builder share, and creates it on the first call.
    ///
    /// Several instances of one extension use it to register their methods once.
    ///
    /// See the [example](Self#example).
    pub fn shared<T: Default + Send + Sync + 'static>(&mut self) -> &mut T {
        let value = self.target.shared().entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        #[expect(clippy::expect_used, reason = "the key of the entry is the type of its value")]
        value.downcast_mut().expect("a value of this type")
    }
}

impl fmt::Debug for Registrar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registrar")
    }
}
