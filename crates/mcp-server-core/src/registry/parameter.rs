//! Tool arguments as a list of parameters, for tools whose arguments are known at run time only.

use serde_json::{Map, Value, json};

/// The JSON type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterType {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A list of anything.
    Array,
    /// An object of any shape.
    Object,
}

impl ParameterType {
    fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

/// One parameter of a tool.
///
/// # Example
/// ```
/// use mcp_server_core::{Parameter, ParameterType};
///
/// let limit = Parameter::new("limit", ParameterType::Integer).description("The number of hits.").default_value(10);
/// let tenant = Parameter::new("tenant", ParameterType::String).required().header("Tenant");
/// # let _ = (limit, tenant);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Parameter {
    name: String,
    kind: ParameterType,
    description: Option<String>,
    required: bool,
    default: Option<Value>,
    header: Option<String>,
}

impl Parameter {
    /// Creates an optional parameter.
    ///
    /// See the [example](Self#example).
    pub fn new(name: impl Into<String>, kind: ParameterType) -> Self {
        Self { name: name.into(), kind, description: None, required: false, default: None, header: None }
    }

    /// Sets the description of the parameter.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Makes the parameter required.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets the value that the server fills in when the call lacks the parameter.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn default_value(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// Mirrors the parameter in the header `Mcp-Param-{suffix}`, by which proxies can route (2026-07-28, server/tools).
    ///
    /// Do not mirror secrets: proxies and logs see headers.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn header(mut self, suffix: impl Into<String>) -> Self {
        self.header = Some(suffix.into());
        self
    }
}

/// Returns the input schema of a list of parameters, and the default values.
pub(super) fn schema_of(parameters: Vec<Parameter>) -> Result<(Value, Map<String, Value>), String> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut defaults = Map::new();
    for parameter in parameters {
        let mut property = Map::from_iter([("type".to_owned(), json!(parameter.kind.as_str()))]);
        if let Some(text) = parameter.description {
            property.insert("description".into(), text.into());
        }
        if let Some(value) = parameter.default {
            if !parameter.kind.admits(&value) {
                return Err(format!("the default of the parameter `{}` is not of its type", parameter.name));
            }
            property.insert("default".into(), value.clone());
            defaults.insert(parameter.name.clone(), value);
        }
        if let Some(suffix) = parameter.header {
            property.insert("x-mcp-header".into(), suffix.into());
        }
        if parameter.required {
            required.push(Value::String(parameter.name.clone()));
        }
        let name = parameter.name;
        if properties.insert(name.clone(), property.into()).is_some() {
            return Err(format!("the parameter `{name}` is given twice"));
        }
    }
    let mut schema = Map::from_iter([("type".to_owned(), json!("object")), ("properties".into(), properties.into())]);
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    Ok((schema.into(), defaults))
}
