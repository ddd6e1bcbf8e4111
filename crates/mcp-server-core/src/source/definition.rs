//! A definition as JSON, and its forms in the revisions.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use mcp_protocol::{ProtocolVersion, TaskSupport, ToolExecution, shape_raw_definition};
use mcp_schema::header::{HeaderParam, header_params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::SourceList;
use crate::{json, registry::RegistrationError};

/// A tool, resource, resource template or prompt as JSON, in its newest form. Cheap to clone.
///
/// Clients receive the JSON byte for byte, also members that this library does not know. A client of an older revision
/// receives it without the members that its revision lacks. The server writes each form once, so keep the definition between
/// requests.
///
/// ```
/// use mcp_server_core::source::SourceDefinition;
/// use serde_json::json;
///
/// let json = r#"{"name":"a","inputSchema":{"type":"object"},"vendor":{"price":1.50}}"#;
/// assert_eq!(SourceDefinition::new(json)?.json(), json.as_bytes());
/// assert_eq!(SourceDefinition::of(&json!({ "name": "a" }))?.json(), br#"{"name":"a"}"#);
/// assert!(SourceDefinition::new("[]").is_err());
/// # Ok::<(), mcp_server_core::RegistrationError>(())
/// ```
#[derive(Clone)]
pub struct SourceDefinition {
    data: Arc<Data>,
}

struct Data {
    json: Bytes,
    /// The form of each revision.
    forms: [OnceLock<Bytes>; ProtocolVersion::ALL.len()],
    headers: OnceLock<Box<[HeaderParam]>>,
    task_support: OnceLock<TaskSupport>,
}

impl SourceDefinition {
    /// Creates a definition from a JSON object.
    ///
    /// # Errors
    /// Fails when the JSON is not a valid object.
    pub fn new(json: impl Into<Bytes>) -> Result<Self, RegistrationError> {
        let json = json.into();
        let raw = json::from_slice::<&RawValue>(&json);
        match raw {
            Ok(raw) if raw.get().starts_with('{') => {}
            Ok(_) => return Err(RegistrationError::new("the definition is not a JSON object")),
            Err(error) => return Err(RegistrationError::new(format!("the definition is not valid JSON: {error}"))),
        }
        let (forms, headers, task_support) = (Default::default(), OnceLock::new(), OnceLock::new());
        Ok(Self { data: Arc::new(Data { json, forms, headers, task_support }) })
    }

    /// Creates a definition from a value that serializes as a JSON object.
    ///
    /// See the example of the [type](Self).
    ///
    /// # Errors
    /// Fails when the value does not serialize, or is not an object.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, RegistrationError> {
        let json = serde_json::to_vec(value)
            .map_err(|error| RegistrationError::new(format!("the definition cannot be written as JSON: {error}")))?;
        Self::new(json)
    }

    /// Returns the JSON.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.data.json
    }

    /// Returns the form of a revision.
    pub(crate) fn form(&self, list: SourceList, version: ProtocolVersion) -> &Bytes {
        let slot = ProtocolVersion::ALL.iter().position(|known| *known == version).unwrap_or_default();
        self.data.forms[slot].get_or_init(|| {
            let json = std::str::from_utf8(&self.data.json).unwrap_or_default();
            shape_raw_definition(list.method(), json, version).map_or_else(|| self.data.json.clone(), Bytes::from)
        })
    }

    /// Returns whether a tool can run as a task. A tool without a valid value cannot.
    pub(crate) fn task_support(&self) -> TaskSupport {
        #[derive(Deserialize)]
        struct Tool {
            execution: ToolExecution,
        }
        *self.data.task_support.get_or_init(|| {
            let tool = json::from_slice::<Tool>(&self.data.json).ok();
            tool.and_then(|tool| tool.execution.task_support).unwrap_or_default()
        })
    }

    /// Returns the arguments of a tool that HTTP headers mirror. A tool with invalid annotations has none.
    pub(crate) fn header_params(&self) -> &[HeaderParam] {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            input_schema: Value,
        }
        self.data.headers.get_or_init(|| {
            let tool = json::from_slice::<Tool>(&self.data.json).ok();
            tool.and_then(|tool| header_params(&tool.input_schema).ok()).unwrap_or_default().into()
        })
    }
}

impl fmt::Debug for SourceDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceDefinition").field(&String::from_utf8_lossy(&self.data.json)).finish()
    }
}
