//! Capabilities of clients.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::TasksCapability;
use crate::JsonObject;

/// The capabilities of a client: for its session (up to 2025-11-25) or for one request (2026-07-28).
///
/// ```
/// use mcp_protocol::{ClientCapabilities, ElicitationCapability, RootsCapability};
///
/// let capabilities = ClientCapabilities::new()
///     .with_roots(RootsCapability::new().with_list_changed(true))
///     .with_elicitation(ElicitationCapability::form_and_url());
/// assert!(capabilities.supports_roots() && capabilities.supports_url_elicitation());
/// assert!(!capabilities.supports_sampling());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Capabilities outside the protocol, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
    /// The client can list its roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// The client can sample a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// The client can elicit input from the user (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// It can run requests of the server as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksCapability>,
    /// Extensions of the protocol, by their identifiers (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ClientCapabilities {
    /// Returns an empty set of capabilities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the client supports elicitation by a form.
    #[must_use]
    pub fn supports_form_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(ElicitationCapability::has_form)
    }

    /// Whether the client supports elicitation at a URL.
    #[must_use]
    pub fn supports_url_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|e| e.url.is_some())
    }

    /// Whether the client supports sampling.
    #[must_use]
    pub fn supports_sampling(&self) -> bool {
        self.sampling.is_some()
    }

    /// Whether the client supports sampling with tools.
    #[must_use]
    pub fn supports_sampling_tools(&self) -> bool {
        self.sampling.as_ref().is_some_and(|s| s.tools.is_some())
    }

    /// Whether the client can list its roots.
    #[must_use]
    pub fn supports_roots(&self) -> bool {
        self.roots.is_some()
    }

    /// Whether the client declares an extension.
    #[must_use]
    pub fn supports_extension(&self, identifier: &str) -> bool {
        self.extensions.as_ref().and_then(|e| e.get(identifier)).is_some_and(|value| !value.is_null())
    }

    /// Adds an extension.
    #[must_use]
    pub fn with_extension(mut self, identifier: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.extensions.get_or_insert_default().insert(identifier.into(), settings.into().into());
        self
    }

    /// Returns the part of these capabilities that a client has not declared; `None` when it has declared all of
    /// them. The result belongs in a `-32021` error.
    ///
    /// Extensions, experimental and unknown members count as declared with any settings.
    #[must_use]
    pub fn missing_from(&self, declared: &Self) -> Option<Self> {
        let missing = Self {
            experimental: missing_members(self.experimental.as_ref(), declared.experimental.as_ref()),
            roots: self.roots.as_ref().and_then(|r| r.missing_from(declared.roots.as_ref())),
            sampling: self.sampling.as_ref().and_then(|s| s.missing_from(declared.sampling.as_ref())),
            elicitation: self.elicitation.as_ref().and_then(|e| e.missing_from(declared.elicitation.as_ref())),
            tasks: self.tasks.as_ref().and_then(|t| t.missing_from(declared.tasks.as_ref())),
            extensions: missing_members(self.extensions.as_ref(), declared.extensions.as_ref()),
            extra: missing_members(Some(&self.extra), Some(&declared.extra)).unwrap_or_default(),
        };
        (missing != Self::default()).then_some(missing)
    }
}

setters! {
    ClientCapabilities {
        /// Sets capabilities outside of the protocol, by their names.
        with_experimental = into experimental: JsonObject;
        /// Declares roots.
        with_roots = some roots: RootsCapability;
        /// Declares sampling.
        with_sampling = some sampling: SamplingCapability;
        /// Declares elicitation (2025-06-18).
        with_elicitation = some elicitation: ElicitationCapability;
        /// Declares requests of the server that the client can run as tasks (2025-11-25 only).
        with_tasks = some tasks: TasksCapability;
    }
}

/// The roots capability of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// Whether the client sends a notification when the roots change (up to 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl RootsCapability {
    /// Roots without notices of change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn missing_from(&self, declared: Option<&Self>) -> Option<Self> {
        let Some(declared) = declared else { return Some(self.clone()) };
        let lacks_notice = self.list_changed == Some(true) && declared.list_changed != Some(true);
        lacks_notice.then(|| Self { list_changed: Some(true), ..Self::default() })
    }
}

setters! {
    RootsCapability {
        /// Sets whether the client sends a notification when its roots change (up to 2025-11-25).
        with_list_changed = flag list_changed;
    }
}

/// The sampling capability of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingCapability {
    /// It can include the context of servers (2025-11-25, deprecated).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<JsonObject>,
    /// The model may use tools (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<JsonObject>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl SamplingCapability {
    /// Sampling without context and tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn missing_from(&self, declared: Option<&Self>) -> Option<Self> {
        let Some(declared) = declared else { return Some(self.clone()) };
        let missing = Self {
            context: missing_presence(self.context.as_ref(), declared.context.as_ref()),
            tools: missing_presence(self.tools.as_ref(), declared.tools.as_ref()),
            extra: missing_members(Some(&self.extra), Some(&declared.extra)).unwrap_or_default(),
        };
        (missing != Self::default()).then_some(missing)
    }
}

setters! {
    SamplingCapability {
        /// Declares that the client can include the context of servers (2025-11-25, deprecated).
        with_context = empty context;
        /// Declares that the model may use tools (2025-11-25).
        with_tools = empty tools;
    }
}

/// The client can ask the user (2025-06-18). An object without members means forms; one with members names the modes
/// (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// The user can fill in a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<JsonObject>,
    /// The user can be sent to a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<JsonObject>,
    /// Members that are unknown to this library, and modes that are `null`. They show that the object is not empty.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ElicitationCapability {
    /// Forms only, in the bare form that every revision reads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forms and URLs.
    #[must_use]
    pub fn form_and_url() -> Self {
        Self { form: Some(JsonObject::new()), url: Some(JsonObject::new()), extra: JsonObject::new() }
    }

    /// URLs only.
    #[must_use]
    pub fn url() -> Self {
        Self { url: Some(JsonObject::new()), ..Self::default() }
    }

    /// Whether the user can fill in a form.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some() || (self.url.is_none() && self.extra.is_empty())
    }

    fn missing_from(&self, declared: Option<&Self>) -> Option<Self> {
        let Some(declared) = declared else { return Some(self.clone()) };
        let missing = Self {
            form: (self.has_form() && !declared.has_form()).then(|| self.form.clone().unwrap_or_default()),
            url: missing_presence(self.url.as_ref(), declared.url.as_ref()),
            extra: missing_members(Some(&self.extra), Some(&declared.extra)).unwrap_or_default(),
        };
        (missing != Self::default()).then_some(missing)
    }
}

setters! {
    ElicitationCapability {
        /// Declares the form mode explicitly (2025-11-25).
        with_form = empty form;
        /// Declares the URL mode (2025-11-25).
        with_url = empty url;
    }
}

impl<'de> Deserialize<'de> for ElicitationCapability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut extra = JsonObject::deserialize(deserializer)?;
        let mut mode = |name: &str| match extra.remove(name) {
            Some(Value::Object(settings)) => Ok(Some(settings.into())),
            Some(Value::Null) => {
                extra.insert(name.into(), Value::Null);
                Ok(None)
            }
            Some(_) => Err(serde::de::Error::custom(format_args!("elicitation: `{name}` must be an object"))),
            None => Ok(None),
        };
        let (form, url) = (mode("form")?, mode("url")?);
        Ok(Self { form, url, extra })
    }
}

impl TasksCapability {
    fn missing_from(&self, declared: Option<&Self>) -> Option<Self> {
        let Some(declared) = declared else { return Some(self.clone()) };
        let mut missing = Self {
            list: missing_presence(self.list.as_ref(), declared.list.as_ref()),
            cancel: missing_presence(self.cancel.as_ref(), declared.cancel.as_ref()),
            ..Self::default()
        };
        for (category, operations) in self.requests.iter().flatten() {
            for operation in operations.as_object().into_iter().flat_map(|o| o.keys()) {
                if !declared.supports_request(category, operation) {
                    missing = missing.with_request(category, operation);
                }
            }
        }
        (missing != Self::default()).then_some(missing)
    }
}

fn missing_presence(required: Option<&JsonObject>, declared: Option<&JsonObject>) -> Option<JsonObject> {
    required.filter(|_| declared.is_none()).cloned()
}

fn missing_members(required: Option<&JsonObject>, declared: Option<&JsonObject>) -> Option<JsonObject> {
    let is_declared = |key: &str| declared.and_then(|d| d.get(key)).is_some_and(|value| !value.is_null());
    let is_required = |value: &Value| !value.is_null();
    let missing: JsonObject = required?
        .iter()
        .filter(|(key, value)| is_required(value) && !is_declared(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!missing.is_empty()).then_some(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &Value) -> ClientCapabilities {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn unknown_members_survive() {
        let json = json!({
            "roots": {"listChanged": true, "x": 1}, "sampling": {"tools": {}, "y": {}}, "elicitation": {"url": {}},
            "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}, "z": 1},
            "extensions": {"com.example/a": {"b": 1}}, "experimental": {"c": {}}, "later": {}
        });
        assert_eq!(serde_json::to_value(read(&json)).unwrap(), json);
    }

    #[test]
    fn extensions_with_settings_are_supported() {
        for (json, is_supported) in [
            (json!({}), false),
            (json!({"extensions": {"a/b": {}}}), true),
            (json!({"extensions": {"a/b": null}}), false),
            (json!({"extensions": {"a/c": {}}}), false),
        ] {
            assert_eq!(read(&json).supports_extension("a/b"), is_supported, "{json}");
        }
        assert!(ClientCapabilities::new().with_extension("a/b", JsonObject::new()).supports_extension("a/b"));
    }

    #[test]
    fn empty_elicitation_capability_means_forms() {
        for (json, form, url) in [
            (json!({}), false, false),
            (json!({"elicitation": null}), false, false),
            (json!({"elicitation": {}}), true, false),
            (json!({"elicitation": {"form": {}}}), true, false),
            (json!({"elicitation": {"form": null}}), false, false),
            (json!({"elicitation": {"url": {}}}), false, true),
            (json!({"elicitation": {"form": null, "url": {}}}), false, true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true, true),
            (json!({"elicitation": {"voice": {}}}), false, false),
        ] {
            let capabilities = read(&json);
            assert_eq!(capabilities.supports_form_elicitation(), form, "{json}");
            assert_eq!(capabilities.supports_url_elicitation(), url, "{json}");
            if json["elicitation"].is_object() {
                assert_eq!(serde_json::to_value(&capabilities).unwrap(), json);
            }
        }
        assert!(serde_json::from_value::<ClientCapabilities>(json!({"elicitation": {"form": 1}})).is_err());
    }

    #[test]
    fn sampling_with_tools_is_declared_separately() {
        for (json, sampling, tools) in [
            (json!({}), false, false),
            (json!({"sampling": {}}), true, false),
            (json!({"sampling": {"tools": {}}}), true, true),
        ] {
            let capabilities = read(&json);
            let found = (capabilities.supports_sampling(), capabilities.supports_sampling_tools());
            assert_eq!(found, (sampling, tools), "{json}");
        }
    }

    #[test]
    fn only_missing_capabilities_are_returned() {
        for (required, declared, missing) in [
            (json!({}), json!({}), None),
            (json!({"roots": {}}), json!({"roots": {"listChanged": false}}), None),
            (json!({"roots": {}}), json!({}), Some(json!({"roots": {}}))),
            (
                json!({"roots": {"listChanged": true}}),
                json!({"roots": {}}),
                Some(json!({"roots": {"listChanged": true}})),
            ),
            (json!({"sampling": {}}), json!({"sampling": {"tools": {}}}), None),
            (json!({"sampling": {"tools": {}}}), json!({"sampling": {}}), Some(json!({"sampling": {"tools": {}}}))),
            (json!({"elicitation": {}}), json!({"elicitation": {"form": {}}}), None),
            (json!({"elicitation": {"form": {}}}), json!({"elicitation": {}}), None),
            (
                json!({"elicitation": {}}),
                json!({"elicitation": {"url": {}}}),
                Some(json!({"elicitation": {"form": {}}})),
            ),
            (
                json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}),
                json!({"elicitation": {}}),
                Some(json!({"elicitation": {"url": {}}, "sampling": {}})),
            ),
            (
                json!({"extensions": {"a/b": {"x": 1}, "c/d": {}}}),
                json!({"extensions": {"a/b": {}}}),
                Some(json!({"extensions": {"c/d": {}}})),
            ),
            (
                json!({"tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}}),
                json!({"tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}}),
                Some(json!({"tasks": {"requests": {"elicitation": {"create": {}}}}})),
            ),
            (
                json!({"tasks": {"list": {}, "cancel": {}}}),
                json!({"tasks": {}}),
                Some(json!({"tasks": {"list": {}, "cancel": {}}})),
            ),
            (json!({"tasks": {"list": {}}}), json!({"tasks": {"list": {}}}), None),
            (json!({"later": {}}), json!({}), Some(json!({"later": {}}))),
        ] {
            let got = read(&required).missing_from(&read(&declared)).map(|m| serde_json::to_value(m).unwrap());
            assert_eq!(got, missing, "{required} of {declared}");
        }
    }
}
