//! Checks messages against the JSON schemas of the specification, for each revision.
//!
//! The schemas are not part of this crate. [`ProtocolSchemas::load`] reads `<revision>/schema.json` from a folder, for
//! example the folder `schema` in the repository of the specification.
//!
//! A schema of the specification accepts unknown members. This check rejects them in objects that the schema describes in
//! full: a server must not send members of a newer revision to an older client. `_meta`, capabilities and the JSON schemas
//! of tools stay open.
//!
//! ```no_run
//! use mcp_protocol::ProtocolVersion;
//! use mcp_test::schemas::ProtocolSchemas;
//! use serde_json::json;
//!
//! let schemas = ProtocolSchemas::load("specification/schema").unwrap();
//! let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}});
//! let definitions = schemas.check_message(ProtocolVersion::V2025_11_25, Some("tools/list"), &message).unwrap();
//! assert_eq!(definitions, ["JSONRPCResultResponse", "ListToolsResult"]);
//! ```

mod closed;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env, fmt, fs,
    path::Path,
    sync::Arc,
};

use mcp_protocol::ProtocolVersion;
use mcp_schema::{Limits, Schema};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::transcript::ServerMessage;

/// The environment variable that names the folder of the schemas.
pub const SCHEMAS_VARIABLE: &str = "MCP_SCHEMAS";

/// The schemas of every revision.
pub struct ProtocolSchemas {
    revisions: BTreeMap<ProtocolVersion, Revision>,
}

/// An invalid message, or a schema that cannot be read.
#[derive(Debug, Clone)]
pub struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

impl ProtocolSchemas {
    /// Reads `<revision>/schema.json` of every revision.
    ///
    /// # Errors
    ///
    /// Fails if a schema cannot be read.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, SchemaError> {
        let mut revisions = BTreeMap::new();
        for &version in ProtocolVersion::ALL {
            let path = folder.as_ref().join(version.as_str()).join("schema.json");
            revisions.insert(version, Revision::load(&path)?);
        }
        Ok(Self { revisions })
    }

    /// Reads the schemas of the folder in the variable `MCP_SCHEMAS`. Returns `None` if the variable is not set.
    ///
    /// # Errors
    ///
    /// Fails if a schema cannot be read.
    pub fn from_env() -> Result<Option<Self>, SchemaError> {
        env::var_os(SCHEMAS_VARIABLE).filter(|folder| !folder.is_empty()).map(Self::load).transpose()
    }

    /// Checks a message of a server: its envelope, then its content. Returns the names of the matching definitions.
    ///
    /// # Errors
    ///
    /// Fails if the message is invalid, or if its revision is unknown.
    pub fn check(&self, message: &ServerMessage) -> Result<Vec<String>, SchemaError> {
        match message.version {
            Some(version) => self.check_message(version, message.method.as_deref(), &message.message),
            None => Err(SchemaError(format!("the revision of the message is unknown: {}", message.message))),
        }
    }

    /// Checks a message of a client or a server: its envelope, then its content. Returns the names of the matching
    /// definitions.
    ///
    /// For a response, `answered` is the method of the request.
    ///
    /// # Errors
    ///
    /// Fails if the message is invalid.
    pub fn check_message(
        &self,
        version: ProtocolVersion,
        answered: Option<&str>,
        message: &Value,
    ) -> Result<Vec<String>, SchemaError> {
        let Some(revision) = self.revisions.get(&version) else {
            return Err(SchemaError(format!("no schema for {version}")));
        };
        revision.check(answered, message).map_err(|error| SchemaError(format!("{version}: {error}")))
    }

    /// Returns the definitions of the messages that a server of this revision may send: results and notifications.
    #[must_use]
    pub fn definitions(&self, version: ProtocolVersion) -> BTreeSet<String> {
        self.definitions_of(version, &["ServerResult", "ServerNotification"])
    }

    /// Returns the definitions of the messages that a client of this revision may send: requests, results and
    /// notifications.
    #[must_use]
    pub fn client_definitions(&self, version: ProtocolVersion) -> BTreeSet<String> {
        self.definitions_of(version, &["ClientRequest", "ClientResult", "ClientNotification"])
    }

    fn definitions_of(&self, version: ProtocolVersion, unions: &[&str]) -> BTreeSet<String> {
        self.revisions.get(&version).map(|revision| revision.definitions_in(unions)).unwrap_or_default()
    }
}

impl fmt::Debug for ProtocolSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.revisions.keys()).finish()
    }
}

/// The schema of one revision.
struct Revision {
    dialect: Value,
    /// `definitions` or `$defs`.
    keyword: &'static str,
    definitions: Map<String, Value>,
    /// The cache of compiled definitions.
    compiled: Mutex<HashMap<String, Arc<Schema>>>,
}

impl Revision {
    fn load(path: &Path) -> Result<Self, SchemaError> {
        let invalid = |what: &dyn fmt::Display| SchemaError(format!("{}: {what}", path.display()));
        let text = fs::read(path).map_err(|error| invalid(&error))?;
        let document: Value = serde_json::from_slice(&text).map_err(|error| invalid(&error))?;
        Self::of(document).ok_or_else(|| invalid(&"has no definitions"))
    }

    fn of(mut document: Value) -> Option<Self> {
        let keyword = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        let dialect = document.get_mut("$schema")?.take();
        let Value::Object(mut definitions) = document.get_mut(keyword)?.take() else { return None };
        closed::close(&mut definitions);
        Some(Self { dialect, keyword, definitions, compiled: Mutex::default() })
    }

    fn check(&self, method: Option<&str>, message: &Value) -> Result<Vec<String>, String> {
        let envelope = self.envelope(message)?;
        let mut envelope_of = message.clone();
        if envelope == "JSONRPCError" && message["id"].is_null() {
            // Up to 2025-06-18 the schema requires an id. The response to an unreadable request has none.
            envelope_of["id"] = json!(0);
        }
        self.validate(envelope, &envelope_of)?;
        let mut fits = vec![envelope.to_owned()];
        if let Some(code) = message["error"]["code"].as_i64() {
            if let Some(name) = self.error_of(code) {
                self.validate(&name, message)?;
                fits.push(name);
            }
        } else if let Some(name) = message["method"].as_str() {
            let definition = self.with_method(name).ok_or_else(|| format!("the revision has no {name}"))?;
            self.validate(&definition, message)?;
            fits.push(definition);
        } else if let Some(method) = method {
            let definition = self.result_of(method, &message["result"])?;
            self.validate(&definition, &message["result"])?;
            fits.push(definition);
        } else {
            return Err(format!("the result belongs to no request: {message}"));
        }
        Ok(fits)
    }

    /// Returns the definition of the envelope. Its name depends on the revision.
    fn envelope(&self, message: &Value) -> Result<&'static str, String> {
        let candidates: &[&'static str] = if message.get("method").is_some() {
            if message.get("id").is_some() { &["JSONRPCRequest"] } else { &["JSONRPCNotification"] }
        } else if message.get("error").is_some() {
            &["JSONRPCErrorResponse", "JSONRPCError"]
        } else {
            &["JSONRPCResultResponse", "JSONRPCResponse"]
        };
        let found = candidates.iter().find(|name| self.definitions.contains_key(**name));
        found.copied().ok_or_else(|| format!("the schema has none of {candidates:?}"))
    }

    /// Returns the definition of the request or notification with this method.
    fn with_method(&self, method: &str) -> Option<String> {
        let is_it = |(name, definition): &(&String, &Value)| {
            definition["properties"]["method"]["const"] == method
                && (name.ends_with("Request") || name.ends_with("Notification"))
                && !name.starts_with("Client")
        };
        self.definitions.iter().find(is_it).map(|(name, _)| name.clone())
    }

    fn result_of(&self, method: &str, result: &Value) -> Result<String, String> {
        if result["resultType"] == "input_required" {
            return Ok("InputRequiredResult".to_owned());
        }
        let request =
            self.with_method(method).ok_or_else(|| format!("the revision has no {method}, and it has a result"))?;
        let named = request.replace("Request", "Result");
        Ok(if self.definitions.contains_key(&named) { named } else { "EmptyResult".to_owned() })
    }

    /// Returns the definition of an error with this code.
    fn error_of(&self, code: i64) -> Option<String> {
        let has_code = |definition: &Value| {
            let parts = definition["properties"]["error"]["allOf"].as_array();
            parts.into_iter().flatten().any(|part| part["properties"]["code"]["const"] == code)
        };
        self.definitions.iter().find(|(_, definition)| has_code(definition)).map(|(name, _)| name.clone())
    }

    fn definitions_in(&self, unions: &[&str]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for union in unions {
            let union = &self.definitions.get(*union).unwrap_or(&Value::Null)["anyOf"];
            for reference in union.as_array().into_iter().flatten().filter_map(|part| part["$ref"].as_str()) {
                names.extend(reference.rsplit('/').next().map(str::to_owned));
            }
        }
        // The definition `Result` is the empty result.
        names.remove("Result");
        names
    }

    fn validate(&self, definition: &str, value: &Value) -> Result<(), String> {
        let schema = self.schema(definition)?;
        schema.validate(value).map_err(|errors| format!("not a valid {definition}: {errors}\n{value:#}"))
    }

    fn schema(&self, definition: &str) -> Result<Arc<Schema>, String> {
        let mut compiled = self.compiled.lock();
        if let Some(schema) = compiled.get(definition) {
            return Ok(schema.clone());
        }
        let document = json!({
            "$schema": self.dialect,
            "$ref": format!("#/{}/{definition}", self.keyword),
            self.keyword: self.definitions,
        });
        // The schema of the specification exceeds the default limits for schemas of tools.
        let limits = Limits::new().references(10_000).expansion(100_000);
        let schema = Schema::compile_with(&document, &limits)
            .map_err(|error| format!("the schema of {definition} is invalid: {error}"))?;
        let schema = Arc::new(schema);
        compiled.insert(definition.to_owned(), schema.clone());
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a small schema in the form of a revision.
    fn revision(keyword: &str, envelopes: [&str; 2]) -> Revision {
        let reference = |name: &str| json!({ "$ref": format!("#/{keyword}/{name}") });
        let tool = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let notification = json!({"type": "object", "properties": {
            "method": {"const": "notifications/progress"},
            "params": {"type": "object", "properties": {"progress": {"type": "number"}}, "required": ["progress"]}
        }, "required": ["method", "params"]});
        let document = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", keyword: {
            envelopes[0]: {"type": "object", "properties": {"id": {}, "result": {"type": "object"}}, "required": ["id"]},
            envelopes[1]: {"type": "object", "properties": {"id": {"type": "integer"}, "error": {}}, "required": ["error"]},
            "JSONRPCNotification": {"type": "object", "properties": {"method": {"type": "string"}}},
            "ProgressNotification": notification,
            "PingRequest": {"type": "object", "properties": {"method": {"const": "ping"}}},
            "EmptyResult": reference("Result"),
            "Result": {"type": "object", "additionalProperties": {}},
            "ListToolsRequest": {"type": "object", "properties": {"method": {"const": "tools/list"}}},
            "ListToolsResult": {"type": "object", "properties": {
                "tools": {"type": "array", "items": reference("Tool")}
            }, "required": ["tools"]},
            "Tool": tool,
            "LostError": {"type": "object", "properties": {"error": {"allOf": [
                {"properties": {"code": {"const": -32099}, "data": {"type": "string"}}, "required": ["code", "data"]}
            ]}}},
            "ServerResult": {"anyOf": [reference("EmptyResult"), reference("ListToolsResult")]},
            "ServerNotification": {"anyOf": [reference("ProgressNotification")]},
        }});
        Revision::of(document).unwrap()
    }

    fn check(revision: &Revision, method: Option<&str>, message: &Value, expected: Result<&[&str], &str>) {
        match (revision.check(method, message), expected) {
            (Ok(fits), Ok(expected)) => assert_eq!(fits, expected, "{message}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{message}: {error}"),
            (got, expected) => panic!("{message}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn checks_messages_by_their_method() {
        let new = revision("$defs", ["JSONRPCResultResponse", "JSONRPCErrorResponse"]);
        let tools = |tool: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}});
        let list = Some("tools/list");
        check(&new, list, &tools(json!({"name": "a"})), Ok(&["JSONRPCResultResponse", "ListToolsResult"]));
        check(&new, list, &tools(json!({"name": "a", "_meta": {}})), Ok(&["JSONRPCResultResponse", "ListToolsResult"]));
        check(&new, list, &tools(json!({"name": 1})), Err("not a valid ListToolsResult"));
        check(&new, list, &tools(json!({"name": "a", "title": "A"})), Err("title"));
        check(&new, list, &json!({"result": {"tools": []}}), Err("not a valid JSONRPCResultResponse"));
        check(&new, None, &tools(json!({"name": "a"})), Err("belongs to no request"));
        check(&new, Some("tools/none"), &tools(json!({})), Err("has no tools/none"));
        check(&new, Some("ping"), &json!({"id": 1, "result": {}}), Ok(&["JSONRPCResultResponse", "EmptyResult"]));
        let progress = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        check(&new, None, &progress(json!({"progress": 1})), Ok(&["JSONRPCNotification", "ProgressNotification"]));
        check(&new, None, &progress(json!({"progress": 1, "message": "m"})), Err("message"));
        check(&new, None, &json!({"method": "notifications/none"}), Err("has no notifications/none"));
        let error = |error: Value| json!({"jsonrpc": "2.0", "error": error});
        check(&new, None, &error(json!({"code": -32700})), Ok(&["JSONRPCErrorResponse"]));
        check(&new, list, &error(json!({"code": -32099, "data": "x"})), Ok(&["JSONRPCErrorResponse", "LostError"]));
        check(&new, list, &error(json!({"code": -32099})), Err("not a valid LostError"));

        let old = revision("definitions", ["JSONRPCResponse", "JSONRPCError"]);
        check(&old, list, &tools(json!({"name": "a"})), Ok(&["JSONRPCResponse", "ListToolsResult"]));
        check(&old, None, &error(json!({"code": -32700})), Ok(&["JSONRPCError"]));
        let definitions = ["EmptyResult", "ListToolsResult", "ProgressNotification"];
        assert_eq!(old.definitions_in(&["ServerResult", "ServerNotification"]), definitions.map(str::to_owned).into());
    }
}
