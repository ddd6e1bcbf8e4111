//! Input requests inside a result, and their answers inside the next request (2026-07-28, patterns/mrtr).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{
    CreateMessageParams, ElicitParams, JsonObject, Meta,
    method::{self, Method},
};

/// The input requests of a result or of a task, by keys that the server chose.
///
/// ```
/// use mcp_protocol::{InputRequest, InputRequests, InputRequiredResult};
///
/// let requests = InputRequests::new().with("roots", InputRequest::list_roots());
/// let result = InputRequiredResult::new(requests).with_request_state("sealed");
/// let json = serde_json::to_string(&result)?;
/// assert_eq!(json, r#"{"inputRequests":{"roots":{"method":"roots/list","params":{}}},"requestState":"sealed"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "the questions are its entries and nothing else")]
pub struct InputRequests(pub BTreeMap<String, InputRequest>);

impl InputRequests {
    /// Returns an empty set of input requests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input request.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, request: InputRequest) -> Self {
        self.0.insert(key.into(), request);
        self
    }
}

impl std::ops::Deref for InputRequests {
    type Target = BTreeMap<String, InputRequest>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for InputRequests {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, InputRequest)> for InputRequests {
    fn from_iter<I: IntoIterator<Item = (String, InputRequest)>>(requests: I) -> Self {
        Self(requests.into_iter().collect())
    }
}

/// An input request: a request without `jsonrpc` and `id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequest {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters of that method. `None` is written as an empty object, because some clients require the member.
    #[serde(default, serialize_with = "or_empty_object")]
    pub params: Option<Value>,
}

impl InputRequest {
    /// Returns a question by method name and raw parameters.
    pub fn new(method: impl Into<String>, params: Option<Value>) -> Self {
        Self { method: method.into(), params }
    }

    /// Returns an elicitation.
    ///
    /// # Errors
    /// Never for parameters that this library can build; the error of the JSON writer otherwise.
    pub fn elicit(params: &ElicitParams) -> Result<Self, serde_json::Error> {
        Ok(Self::new(method::Elicit::NAME, Some(serde_json::to_value(params)?)))
    }

    /// Returns a sampling request.
    ///
    /// # Errors
    /// As for [`InputRequest::elicit`].
    pub fn create_message(params: &CreateMessageParams) -> Result<Self, serde_json::Error> {
        Ok(Self::new(method::CreateMessage::NAME, Some(serde_json::to_value(params)?)))
    }

    /// Returns a request for the roots.
    #[must_use]
    pub fn list_roots() -> Self {
        Self::new(method::ListRoots::NAME, None)
    }
}

fn or_empty_object<S: Serializer>(params: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    match params {
        Some(params) => params.serialize(serializer),
        None => JsonObject::new().serialize(serializer),
    }
}

/// The result of a request that needs answers first; its `resultType` is `input_required`.
///
/// At least one of its members is present. With a state and without input requests, the client repeats the call at
/// once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// The input requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// The state that the client must send back unchanged. It is opaque to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InputRequiredResult {
    /// Returns a result with these input requests.
    #[must_use]
    pub fn new(input_requests: InputRequests) -> Self {
        Self { input_requests: Some(input_requests), ..Self::default() }
    }

    /// Sets the request state.
    #[must_use]
    pub fn with_request_state(mut self, state: impl Into<String>) -> Self {
        self.request_state = Some(state.into());
        self
    }
}

setters! {
    InputRequiredResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_requests_are_requests_without_an_envelope() {
        let questions = InputRequests::new()
            .with("name", InputRequest::elicit(&ElicitParams::form("m", JsonObject::new())).unwrap())
            .with("roots", InputRequest::list_roots())
            .with("ask", InputRequest::create_message(&CreateMessageParams::new(vec![], 5)).unwrap());
        let result = InputRequiredResult::new(questions).with_request_state("s");
        let json = json!({
            "inputRequests": {
                "ask": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
                "name": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}},
                "roots": {"method": "roots/list", "params": {}}
            },
            "requestState": "s"
        });
        assert_eq!(serde_json::to_value(&result).unwrap(), json);
        let read: InputRequiredResult = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }

    #[test]
    fn input_requests_are_a_map() {
        let mut requests: InputRequests = [("a".to_owned(), InputRequest::list_roots())].into_iter().collect();
        assert_eq!((requests.len(), requests.get("a")), (1, Some(&InputRequest::list_roots())));
        requests.insert("b".to_owned(), InputRequest::new("x", None));
        requests.remove("a");
        assert_eq!(requests, InputRequests::new().with("b", InputRequest::new("x", None)));
    }

    #[test]
    fn input_requests_without_params_are_accepted() {
        let request: InputRequest = serde_json::from_value(json!({"method": "roots/list"})).unwrap();
        assert_eq!(request, InputRequest::list_roots());
    }
}
