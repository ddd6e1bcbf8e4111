//! The check of messages against the JSON schemas of the specification, revision by revision.
//!
//! The schemas are not part of this crate: [`WireSchemas::load`] reads them from a folder that has one
//! `<revision>/schema.json` for each revision, as the folder `schema` of the specification's repository does.
//!
//! Objects of the protocol are open, so that a schema alone does not notice a member that its revision does not know. This
//! check closes the objects that the schema describes in full, apart from `_meta`, capabilities and the JSON schemas of
//! tools: what a newer revision brought must not reach an older client.

mod close;

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

/// The variable of the environment that names the folder of the schemas.
pub const SCHEMAS_VARIABLE: &str = "MCP_SCHEMAS";

/// The schemas of every revision.
pub struct WireSchemas {
    revisions: BTreeMap<ProtocolVersion, Revision>,
}

/// A message that does not fit its revision, or a schema that cannot be used.
#[derive(Debug, Clone)]
pub struct WireError(String);

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WireError {}

impl WireSchemas {
    /// Reads `<revision>/schema.json` of every revision.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, WireError> {
        let mut revisions = BTreeMap::new();
        for &version in ProtocolVersion::ALL {
            let path = folder.as_ref().join(version.as_str()).join("schema.json");
            revisions.insert(version, Revision::load(&path)?);
        }
        Ok(Self { revisions })
    }

    /// The schemas of the folder that the environment names (`MCP_SCHEMAS`); `None` when it names none.
    ///
    /// # Errors
    /// When it names one that cannot be used.
    pub fn from_env() -> Result<Option<Self>, WireError> {
        env::var_os(SCHEMAS_VARIABLE).filter(|folder| !folder.is_empty()).map(Self::load).transpose()
    }

    /// Checks a message: its envelope, then what it carries by the method that it is about. Returns the definitions that it
    /// fits.
    ///
    /// # Errors
    /// What does not fit, by place.
    pub fn check(&self, said: &ServerMessage) -> Result<Vec<String>, WireError> {
        match said.version {
            Some(version) => self.check_message(version, said.method.as_deref(), &said.message),
            None => Err(WireError(format!("nobody knows the revision of {}", said.message))),
        }
    }

    /// Checks a message of either side: its envelope, then what it carries by its method, or by that of the request that it
    /// answers. Returns the definitions that it fits.
    ///
    /// # Errors
    /// What does not fit, by place.
    pub fn check_message(
        &self,
        version: ProtocolVersion,
        answered: Option<&str>,
        message: &Value,
    ) -> Result<Vec<String>, WireError> {
        let Some(revision) = self.revisions.get(&version) else {
            return Err(WireError(format!("there is no schema of {version}")));
        };
        revision.check(answered, message).map_err(|error| WireError(format!("{version}: {error}")))
    }

    /// What the servers of a revision may send, by definition: results and notifications.
    #[must_use]
    pub fn definitions(&self, version: ProtocolVersion) -> BTreeSet<String> {
        self.definitions_of(version, &["ServerResult", "ServerNotification"])
    }

    /// What the clients of a revision may send, by definition: requests, results and notifications.
    #[must_use]
    pub fn client_definitions(&self, version: ProtocolVersion) -> BTreeSet<String> {
        self.definitions_of(version, &["ClientRequest", "ClientResult", "ClientNotification"])
    }

    fn definitions_of(&self, version: ProtocolVersion, unions: &[&str]) -> BTreeSet<String> {
        self.revisions.get(&version).map(|revision| revision.definitions_in(unions)).unwrap_or_default()
    }
}

impl fmt::Debug for WireSchemas {
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
    /// Definitions that were used already.
    compiled: Mutex<HashMap<String, Arc<Schema>>>,
}

impl Revision {
    fn load(path: &Path) -> Result<Self, WireError> {
        let refuse = |what: &dyn fmt::Display| WireError(format!("{}: {what}", path.display()));
        let text = fs::read(path).map_err(|error| refuse(&error))?;
        let document: Value = serde_json::from_slice(&text).map_err(|error| refuse(&error))?;
        Self::of(document).ok_or_else(|| refuse(&"has no definitions"))
    }

    fn of(mut document: Value) -> Option<Self> {
        let keyword = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        let dialect = document.get_mut("$schema")?.take();
        let Value::Object(mut definitions) = document.get_mut(keyword)?.take() else { return None };
        close::close(&mut definitions);
        Some(Self { dialect, keyword, definitions, compiled: Mutex::default() })
    }

    fn check(&self, method: Option<&str>, message: &Value) -> Result<Vec<String>, String> {
        let envelope = self.envelope(message)?;
        let mut envelope_of = message.clone();
        if envelope == "JSONRPCError" && message["id"].is_null() {
            // Up to 2025-06-18 the schema wants an id that an unreadable request does not have; the transports do without.
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
            return Err(format!("nobody asked for this result: {message}"));
        }
        Ok(fits)
    }

    /// The definition of the envelope, which has another name in each generation of the schema.
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

    /// The definition of the request or notification with a method.
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

    /// The definition of an error that has a code of its own.
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
        // The empty result, under its other name.
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
        // The schema of the specification is larger than what a stranger's tool may bring.
        let mut limits = Limits::new();
        limits.references = 10_000;
        limits.expansion = 100_000;
        let schema = Schema::compile_with(&document, &limits)
            .map_err(|error| format!("the schema of {definition} cannot be used: {error}"))?;
        let schema = Arc::new(schema);
        compiled.insert(definition.to_owned(), schema.clone());
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema in small, of either generation.
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
    fn messages_are_checked_by_what_they_are_about() {
        let new = revision("$defs", ["JSONRPCResultResponse", "JSONRPCErrorResponse"]);
        let tools = |tool: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}});
        let list = Some("tools/list");
        check(&new, list, &tools(json!({"name": "a"})), Ok(&["JSONRPCResultResponse", "ListToolsResult"]));
        check(&new, list, &tools(json!({"name": "a", "_meta": {}})), Ok(&["JSONRPCResultResponse", "ListToolsResult"]));
        check(&new, list, &tools(json!({"name": 1})), Err("not a valid ListToolsResult"));
        check(&new, list, &tools(json!({"name": "a", "title": "A"})), Err("title"));
        check(&new, list, &json!({"result": {"tools": []}}), Err("not a valid JSONRPCResultResponse"));
        check(&new, None, &tools(json!({"name": "a"})), Err("nobody asked"));
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
        let owed = ["EmptyResult", "ListToolsResult", "ProgressNotification"];
        assert_eq!(old.definitions_in(&["ServerResult", "ServerNotification"]), owed.map(str::to_owned).into());
    }
}
