//! Elicitation: a server requests input from the user, by a form or at a URL (client, elicitation; 2025-06-18).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{JsonObject, Meta, RpcError, tasks::TaskMetadata};

/// Parameters of `elicitation/create`. The `mode` selects the variant; without a mode it is a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// The user fills in a form. Written without a `mode`, which every revision reads.
    Form(FormElicitParams),
    /// The user is sent to a URL (2025-11-25).
    Url(UrlElicitParams),
}

impl ElicitParams {
    /// Asks for a form.
    pub fn form(message: impl Into<String>, requested_schema: impl Into<JsonObject>) -> Self {
        Self::Form(FormElicitParams::new(message, requested_schema))
    }

    /// Sends the user to a URL.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(UrlElicitParams::new(message, url))
    }

    /// Returns the text for the user.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Form(params) => &params.message,
            Self::Url(params) => &params.message,
        }
    }

    /// Metadata of the request.
    #[must_use]
    pub fn meta_mut(&mut self) -> &mut Option<Meta> {
        match self {
            Self::Form(params) => &mut params.meta,
            Self::Url(params) => &mut params.meta,
        }
    }
}

impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "mode", rename_all = "lowercase")]
        enum Tagged<'a> {
            Url(&'a UrlElicitParams),
        }
        match self {
            Self::Form(params) => params.serialize(serializer),
            Self::Url(params) => Tagged::Url(params).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = JsonObject::deserialize(deserializer)?;
        let mode = members.remove("mode").unwrap_or(Value::Null);
        let members = Value::from(members);
        let params = match &mode {
            Value::Null => FormElicitParams::deserialize(members).map(Self::Form),
            Value::String(mode) if mode == "form" => FormElicitParams::deserialize(members).map(Self::Form),
            Value::String(mode) if mode == "url" => UrlElicitParams::deserialize(members).map(Self::Url),
            _ => return Err(de::Error::custom("`mode` must be \"form\" or \"url\"")),
        };
        params.map_err(de::Error::custom)
    }
}

/// The JSON Schema of the form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FormElicitParams {
    /// The text for the user.
    pub message: String,
    /// The JSON Schema of the answer: a flat object of primitive values. It must not request secrets.
    pub requested_schema: JsonObject,
    /// Requests a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl FormElicitParams {
    /// Asks for what a schema describes.
    pub fn new(message: impl Into<String>, requested_schema: impl Into<JsonObject>) -> Self {
        Self { message: message.into(), requested_schema: requested_schema.into(), ..Self::default() }
    }
}

setters! {
    FormElicitParams {
        /// Requests a task (2025-11-25 only).
        with_task = some task: TaskMetadata;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The page that the user shall visit (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UrlElicitParams {
    /// The text for the user.
    pub message: String,
    /// The URL of the page. The client shows the full URL and requires consent before it opens the page.
    pub url: String,
    /// The name of this elicitation (2025-11-25 only, and required there).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// Requests a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl UrlElicitParams {
    /// Sends the user to a URL.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), ..Self::default() }
    }

    /// Sets the id of the elicitation.
    #[must_use]
    pub fn with_elicitation_id(mut self, id: impl Into<String>) -> Self {
        self.elicitation_id = Some(id.into());
        self
    }
}

setters! {
    UrlElicitParams {
        /// Requests a task (2025-11-25 only).
        with_task = some task: TaskMetadata;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `elicitation/create`.
///
/// ```
/// use mcp_protocol::{ElicitAction, ElicitResult};
/// use serde_json::json;
///
/// let accepted = ElicitResult::accept_json(json!({ "name": "Ada" }))?;
/// assert_eq!(accepted.action, ElicitAction::Accept);
/// assert_eq!(ElicitResult::decline().content, None);
/// # Ok::<(), mcp_protocol::RpcError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitResult {
    /// The action of the user.
    pub action: ElicitAction,
    /// The values of an accepted form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<JsonObject>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitResult {
    /// Returns a result with this action and without content.
    #[must_use]
    pub fn new(action: ElicitAction) -> Self {
        Self { action, content: None, meta: None }
    }

    /// Returns an accepted form with this content.
    pub fn accept(content: impl Into<JsonObject>) -> Self {
        Self { content: Some(content.into()), ..Self::new(ElicitAction::Accept) }
    }

    /// Returns an accepted form with content that serializes to a JSON object: a struct, a map, or `json!`. `()` is
    /// an empty object. The return type fits the handlers of a client.
    ///
    /// # Errors
    /// An internal error when the content does not serialize to an object.
    pub fn accept_json(content: impl Serialize) -> Result<Self, RpcError> {
        match serde_json::to_value(content) {
            Ok(Value::Object(content)) => Ok(Self::accept(content)),
            Ok(Value::Null) => Ok(Self::accept(JsonObject::new())),
            _ => Err(RpcError::internal("what a form is filled in with is a JSON object")),
        }
    }

    /// Returns the result for a user who declined.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Returns the result for a user who closed the request without an answer.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

setters! {
    ElicitResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The action of the user in an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// The user agreed.
    Accept,
    /// The user declined.
    Decline,
    /// The user went away without an answer.
    Cancel,
}

/// Parameters of `notifications/elicitation/complete` (2025-11-25 only).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCompleteParams {
    /// The elicitation that ended.
    pub elicitation_id: String,
    /// Metadata of the notification.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitationCompleteParams {
    /// Tells that an elicitation ended.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self { elicitation_id: elicitation_id.into(), meta: None }
    }
}

setters! {
    ElicitationCompleteParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_content_of_a_form_is_an_object() {
        let filled = ElicitResult::accept_json(json!({"a": 1})).unwrap();
        assert_eq!(filled, ElicitResult::accept(JsonObject::new().with("a", 1)));
        assert_eq!(ElicitResult::accept_json(()).unwrap().content, Some(JsonObject::new()));
        assert!(ElicitResult::accept_json(1).is_err());
    }

    #[test]
    fn the_mode_selects_the_parameters() {
        let schema = json!({"type": "object", "properties": {}});
        let form = ElicitParams::form("m", JsonObject::from_value(schema.clone()).unwrap());
        let bare = json!({"message": "m", "requestedSchema": schema});
        assert_eq!(serde_json::to_value(&form).unwrap(), bare);
        for mode in [json!("form"), json!(null)] {
            let mut json = bare.clone();
            json["mode"] = mode;
            assert_eq!(serde_json::from_value::<ElicitParams>(json).unwrap(), form);
        }
        let url = ElicitParams::Url(UrlElicitParams::new("m", "https://a.example").with_elicitation_id("e"));
        let json = json!({"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "e"});
        assert_eq!(serde_json::to_value(&url).unwrap(), json);
        assert_eq!(serde_json::from_value::<ElicitParams>(json).unwrap(), url);
        for mut params in [form, url] {
            assert_eq!(params.message(), "m");
            *params.meta_mut() = Some(Meta::new());
            assert_eq!(serde_json::to_value(&params).unwrap()["_meta"], json!({}));
        }
        for bad in
            [json!({"mode": "voice", "message": "m"}), json!({"mode": 1}), json!({"mode": "url", "message": "m"})]
        {
            assert!(serde_json::from_value::<ElicitParams>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn results_round_trip() {
        for (result, json) in [
            (ElicitResult::accept(JsonObject::new().with("a", 1)), json!({"action": "accept", "content": {"a": 1}})),
            (ElicitResult::decline(), json!({"action": "decline"})),
            (ElicitResult::cancel(), json!({"action": "cancel"})),
        ] {
            assert_eq!(serde_json::to_value(&result).unwrap(), json);
            assert_eq!(serde_json::from_value::<ElicitResult>(json).unwrap(), result);
        }
        assert!(serde_json::from_value::<ElicitResult>(json!({"action": "maybe"})).is_err());
    }
}
