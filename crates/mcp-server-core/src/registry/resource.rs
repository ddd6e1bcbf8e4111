//! Resources at fixed URIs, and resource templates that serve every URI of a form.

use mcp_protocol::{Annotations, Icon, Meta, ProtocolVersion, Resource, ResourceTemplate};
use mcp_uri_template::UriTemplate;
use serde_json::Value;

use super::{
    CompletionSource, Definition, Entry, List, RegistrationError,
    completion::Sources,
    text_fields::{self, TextField},
};
use crate::{
    access::Access,
    cache_hint::CacheHint,
    handler::{CompletionKind, Description, Erased, Handler, Ready, ResourceKind},
};

/// A resource before its registration. `S` is the state that its handler still needs.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::{Annotations, Icon, Meta};
/// use mcp_server_core::{CacheHint, ResourceRoute, resource};
///
/// let route: ResourceRoute = resource("config://app", async || "{}")
///     .name("app")
///     .title("Application")
///     .description("The configuration.")
///     .mime_type("application/json")
///     .annotations(Annotations::default())
///     .icon(Icon::new("https://example.com/icon.png"))
///     .meta(Meta::default())
///     .cache(CacheHint::private(Duration::from_secs(60)))
///     .requires_scopes(["config:read"])
///     .requires_authentication()
///     .size(2);
/// # let _ = route;
/// ```
#[must_use = "a route does nothing until a server is given it"]
pub struct ResourceRoute<S = ()> {
    resource: Resource,
    cache: Option<CacheHint>,
    access: Access,
    handler: Erased<S, ResourceKind>,
    /// The schema of the arguments. A resource has no variables for required fields.
    arguments: Option<Value>,
}

/// Creates a resource at a URI. The handler reads it.
///
/// Its name is the last segment of the URI, unless [`ResourceRoute::name`] sets another.
///
/// ```
/// use mcp_server_core::{ResourceRoute, resource};
///
/// let route: ResourceRoute = resource("notes://today", async || "Buy milk.").mime_type("text/plain");
/// # let _ = route;
/// ```
pub fn resource<M, S, H>(uri: impl Into<String>, handler: H) -> ResourceRoute<S>
where
    S: Clone + Send + Sync + 'static,
    H: Handler<M, S, ResourceKind>,
{
    let uri = uri.into();
    let name = uri.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&uri).to_owned();
    let mut description = Description::default();
    H::describe(&mut description);
    let mut resource = Resource::new(uri, name);
    resource.mime_type = description.mime_type;
    ResourceRoute {
        resource,
        cache: None,
        access: Access::default(),
        handler: Erased::new(handler),
        arguments: description.input,
    }
}

/// A resource template before its registration. `S` is the state that its handler still needs.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::{Annotations, Icon, Meta};
/// use mcp_server_core::{CacheHint, TemplateRoute, template};
///
/// let route: TemplateRoute = template("config://{name}", async || "{}")
///     .name("app")
///     .title("Application")
///     .description("The configuration.")
///     .mime_type("application/json")
///     .annotations(Annotations::default())
///     .icon(Icon::new("https://example.com/icon.png"))
///     .meta(Meta::default())
///     .cache(CacheHint::private(Duration::from_secs(60)))
///     .requires_scopes(["config:read"])
///     .requires_authentication()
///     .complete_from("name", ["app", "log"])
///     .complete("name", async || vec!["app".to_owned()]);
/// # let _ = route;
/// ```
#[must_use = "a route does nothing until a server is given it"]
pub struct TemplateRoute<S = ()> {
    template: ResourceTemplate,
    cache: Option<CacheHint>,
    access: Access,
    handler: Erased<S, ResourceKind>,
    /// The schema of the arguments. Its required fields need variables.
    arguments: Option<Value>,
    completions: Sources<S>,
}

/// Creates a resource template (RFC 6570). The handler reads the URIs that match it.
///
/// The handler receives the decoded variables as its [`Args`]: `{name}` is one path segment, `{+path}` may span several, and
/// `{?a,b}` are query parameters. The doc comment of the arguments is the description, unless
/// [`TemplateRoute::description`] sets another.
///
/// ```
/// use mcp_server_core::{Args, TemplateRoute, template};
///
/// /// A note, by its date.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Note { date: String }
///
/// let route: TemplateRoute = template("notes://{date}", async |Args(note): Args<Note>| format!("Notes of {}", note.date))
///     .complete_from("date", ["monday", "tuesday"]);
/// # let _ = route;
/// ```
///
/// [`Args`]: crate::Args
pub fn template<M, S, H>(uri_template: impl Into<String>, handler: H) -> TemplateRoute<S>
where
    S: Clone + Send + Sync + 'static,
    H: Handler<M, S, ResourceKind>,
{
    let uri_template = uri_template.into();
    let name = uri_template.clone();
    let mut description = Description::default();
    H::describe(&mut description);
    let mut template = ResourceTemplate::new(uri_template, name);
    template.description = description.text;
    template.mime_type = description.mime_type;
    let (handler, completions) = (Erased::new(handler), Sources::default());
    TemplateRoute {
        template,
        cache: None,
        access: Access::default(),
        handler,
        arguments: description.input,
        completions,
    }
}

macro_rules! definition_setters {
    ($route:ident, $field:ident) => {
        impl<S> $route<S> {
            /// Sets the name, which programs use.
            ///
            /// See the [example](Self#example).
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.$field.name = name.into();
                self
            }

            /// Sets the title, which people see instead of the name.
            ///
            /// See the [example](Self#example).
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.$field.title = Some(title.into());
                self
            }

            /// Sets the description of the contents, for the model.
            ///
            /// See the [example](Self#example).
            pub fn description(mut self, text: impl Into<String>) -> Self {
                self.$field.description = Some(text.into());
                self
            }

            /// Sets the media type of contents that do not name one themselves.
            ///
            /// See the [example](Self#example).
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.$field.mime_type = Some(mime_type.into());
                self
            }

            /// Sets the annotations: the audience, the priority and the time of the last change.
            ///
            /// See the [example](Self#example).
            pub fn annotations(mut self, annotations: Annotations) -> Self {
                self.$field.annotations = Some(annotations);
                self
            }

            /// Adds an icon.
            ///
            /// See the [example](Self#example).
            pub fn icon(mut self, icon: Icon) -> Self {
                self.$field.icons.push(icon);
                self
            }

            /// Sets `_meta` of the definition.
            ///
            /// See the [example](Self#example).
            pub fn meta(mut self, meta: Meta) -> Self {
                self.$field.meta = Some(meta);
                self
            }

            /// Requires that a caller over a network was granted all of these scopes, to read, to subscribe and to complete.
            /// Other callers do not see the definition in the list.
            ///
            /// See the [example](Self#example).
            pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
                self.access.require(scopes);
                self
            }

            /// Requires that a caller over a network is authenticated. Other callers do not see the definition in the list.
            ///
            /// See the [example](Self#example).
            pub fn requires_authentication(mut self) -> Self {
                self.access.require_caller();
                self
            }

            /// Sets how long clients may cache the contents, instead of the hint of the server.
            ///
            /// See the [example](Self#example).
            pub fn cache(mut self, hint: CacheHint) -> Self {
                self.cache = Some(hint);
                self
            }
        }

        impl<S> std::fmt::Debug for $route<S> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($route)).field("definition", &self.$field).finish_non_exhaustive()
            }
        }
    };
}

definition_setters!(ResourceRoute, resource);
definition_setters!(TemplateRoute, template);

impl<S> ResourceRoute<S> {
    /// Sets the size of the contents in bytes, before base64.
    ///
    /// See the [example](Self#example).
    pub fn size(mut self, bytes: u64) -> Self {
        self.resource.size = Some(bytes);
        self
    }
}

impl<S: Clone + Send + Sync + 'static> ResourceRoute<S> {
    /// Provides the state of the handler, for example to add the resource to a running server.
    ///
    /// ```
    /// use mcp_server_core::{ResourceRoute, Server, State, resource};
    ///
    /// async fn name(State(name): State<String>) -> String {
    ///     name
    /// }
    ///
    /// let server = Server::builder("app", "1.0.0").build();
    /// let route: ResourceRoute<String> = resource("app://name", name);
    /// server.resources().add(route.with_state("Ada".to_owned()))?;
    /// assert_eq!(server.resources().names(), ["app://name"]);
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    pub fn with_state(self, state: S) -> ResourceRoute<()> {
        ResourceRoute {
            resource: self.resource,
            cache: self.cache,
            access: self.access,
            arguments: self.arguments,
            handler: Erased::ready(self.handler.with_state(state)),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> TemplateRoute<S> {
    /// Completes a variable by a handler, which takes [`Completing`](crate::Completing) and returns a list of texts.
    ///
    /// See the [example](Self#example).
    pub fn complete<M, H: Handler<M, S, CompletionKind>>(mut self, variable: impl Into<String>, handler: H) -> Self {
        self.completions.add(variable.into(), CompletionSource::handler(handler));
        self
    }

    /// Completes a variable from a fixed list: the entries that begin with the typed text.
    ///
    /// See the [example](Self#example).
    pub fn complete_from<T: Into<String>>(
        mut self,
        variable: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.completions.add(variable.into(), CompletionSource::list(values));
        self
    }

    /// Provides the state of the handlers, for example to add the template to a running server.
    ///
    /// ```
    /// use mcp_server_core::{Server, State, TemplateRoute, template};
    ///
    /// async fn name(State(name): State<String>) -> String {
    ///     name
    /// }
    ///
    /// let server = Server::builder("app", "1.0.0").build();
    /// let route: TemplateRoute<String> = template("app://{user}", name);
    /// server.resource_templates().add(route.with_state("Ada".to_owned()))?;
    /// assert_eq!(server.resource_templates().names(), ["app://{user}"]);
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    pub fn with_state(self, state: S) -> TemplateRoute<()> {
        TemplateRoute {
            template: self.template,
            cache: self.cache,
            access: self.access,
            arguments: self.arguments,
            completions: self.completions.with_state(&state),
            handler: Erased::ready(self.handler.with_state(state)),
        }
    }
}

impl<S> ResourceRoute<S> {
    /// Checks the definition, and separates it from the handlers.
    pub(crate) fn check(self) -> Result<(ResourceSpec, Erased<S, ResourceKind>), RegistrationError> {
        let uri = &self.resource.uri;
        if !begins_with_scheme(uri) || uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(RegistrationError::new(format!("the resource `{uri}`: not a URI (RFC 3986)")));
        }
        if uri.contains(['{', '}']) {
            let text = format!("the resource `{uri}`: a URI has no braces; use `template` for a URI template");
            return Err(RegistrationError::new(text));
        }
        let refuse = |what: String| RegistrationError::new(format!("the resource `{uri}`: {what}"));
        self.handler.check_extractors().map_err(refuse)?;
        if let Some(field) = required(self.arguments.as_ref()).next() {
            let text = "but a resource has no variables; use `template` for a URI with variables";
            return Err(refuse(format!("its handler needs the argument `{field}`, {text}")));
        }
        Ok((ResourceSpec { resource: self.resource, cache: self.cache, access: self.access }, self.handler))
    }
}

impl<S> TemplateRoute<S> {
    /// Checks the definition, and separates it from the handlers.
    #[expect(clippy::type_complexity, reason = "three parts that travel together once")]
    pub(crate) fn check(self) -> Result<(TemplateSpec, Erased<S, ResourceKind>, Sources<S>), RegistrationError> {
        let text = &self.template.uri_template;
        let refuse = |what: String| RegistrationError::new(format!("the resource template `{text}`: {what}"));
        let matcher = UriTemplate::parse(text).map_err(|e| refuse(e.to_string()))?;
        // The value of a leading variable is unknown until a URI matches.
        if !text.starts_with('{') && !begins_with_scheme(text) {
            return Err(refuse("it does not begin with the scheme of a URI (RFC 3986)".into()));
        }
        for variable in self.completions.names() {
            if !matcher.variables().any(|known| known == variable) {
                return Err(refuse(format!("there is no variable `{variable}` to complete")));
            }
        }
        self.completions.check().map_err(&refuse)?;
        self.handler.check_extractors().map_err(&refuse)?;
        if let Some(schema) = &self.arguments {
            let is_variable = |name: &str| matcher.variables().any(|known| known == name);
            text_fields::check(schema, TextField::OneOrMany, is_variable).map_err(&refuse)?;
        }
        // A required field without a variable would make every read fail.
        for field in required(self.arguments.as_ref()) {
            if !matcher.variables().any(|known| known == field) {
                return Err(refuse(format!("there is no variable `{field}` for the field of the arguments")));
            }
        }
        let spec = TemplateSpec { template: self.template, matcher, cache: self.cache, access: self.access };
        Ok((spec, self.handler, self.completions))
    }
}

/// Returns the required fields of the arguments.
fn required(arguments: Option<&Value>) -> impl Iterator<Item = &str> {
    let required = arguments.and_then(|schema| schema["required"].as_array());
    required.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a text begins with the scheme of a URI (RFC 3986, section 3.1).
fn begins_with_scheme(uri: &str) -> bool {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The definition of a registered resource, without its handler.
pub(crate) struct ResourceSpec {
    pub(crate) resource: Resource,
    pub(crate) cache: Option<CacheHint>,
    pub(crate) access: Access,
}

/// A registered resource.
pub(crate) struct ResourceEntry {
    pub(crate) spec: ResourceSpec,
    pub(crate) run: Ready<ResourceKind>,
}

impl Definition for ResourceEntry {
    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        super::definition(&self.spec.resource, version)
    }
}

impl Entry for ResourceEntry {
    const LIST: List = List::Resources;

    fn key(&self) -> &str {
        &self.spec.resource.uri
    }

    fn access(&self) -> &Access {
        &self.spec.access
    }
}

/// The definition of a registered resource template, without its handlers.
pub(crate) struct TemplateSpec {
    pub(crate) template: ResourceTemplate,
    pub(crate) matcher: UriTemplate,
    pub(crate) cache: Option<CacheHint>,
    pub(crate) access: Access,
}

/// A registered resource template.
pub(crate) struct TemplateEntry {
    pub(crate) spec: TemplateSpec,
    pub(crate) completions: Vec<(String, Ready<CompletionKind>)>,
    pub(crate) run: Ready<ResourceKind>,
}

impl Definition for TemplateEntry {
    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        super::definition(&self.spec.template, version)
    }
}

impl Entry for TemplateEntry {
    const LIST: List = List::ResourceTemplates;

    fn key(&self) -> &str {
        &self.spec.template.uri_template
    }

    fn access(&self) -> &Access {
        &self.spec.access
    }

    fn brings_more(&self) -> bool {
        !self.completions.is_empty()
    }
}
