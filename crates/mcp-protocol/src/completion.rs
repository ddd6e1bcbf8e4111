//! Completion of prompt arguments and of template variables (server, utilities/completion).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Meta, json};

/// Parameters of `completion/complete`.
///
/// ```
/// use mcp_protocol::{CompleteParams, CompletionArgument, CompletionReference};
///
/// let params = CompleteParams::new(CompletionReference::prompt("review"), CompletionArgument::new("language", "ru"));
/// assert_eq!(params.argument.value, "ru");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteParams {
    /// The owner of the argument.
    #[serde(rename = "ref")]
    pub reference: CompletionReference,
    /// The argument, and what was typed so far.
    pub argument: CompletionArgument,
    /// The values of other arguments (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CompletionContext>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteParams {
    /// Returns a request for values of an argument.
    #[must_use]
    pub fn new(reference: CompletionReference, argument: CompletionArgument) -> Self {
        Self { reference, argument, context: None, meta: None }
    }
}

setters! {
    CompleteParams {
        /// Sets the values of other arguments (2025-06-18).
        with_context = some context: CompletionContext;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The owner of a completed argument: a prompt, or a resource template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The prompt.
        name: String,
        /// Its name for people (2025-06-18).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A variable of a resource template.
    #[serde(rename = "ref/resource")]
    ResourceTemplate {
        /// The URI template.
        uri: String,
    },
}

impl CompletionReference {
    /// Returns an argument of a prompt.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into(), title: None }
    }

    /// Returns a variable of a resource template.
    pub fn resource_template(uri: impl Into<String>) -> Self {
        Self::ResourceTemplate { uri: uri.into() }
    }
}

/// The argument that is completed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Its name.
    pub name: String,
    /// The text that the user has typed.
    pub value: String,
}

impl CompletionArgument {
    /// Returns an argument with the text that the user has typed.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The values of other arguments, which may influence the completion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompletionContext {
    /// Values of other arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
}

impl CompletionContext {
    /// Values of other arguments.
    #[must_use]
    pub fn new(arguments: BTreeMap<String, String>) -> Self {
        Self { arguments: Some(arguments) }
    }
}

/// The result of `completion/complete`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteResult {
    /// The values.
    pub completion: Completion,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CompleteResult {
    /// Returns a result with these values.
    #[must_use]
    pub fn new(completion: Completion) -> Self {
        Self { completion, meta: None }
    }
}

setters! {
    CompleteResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Values that fit, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most [`Completion::MAX_VALUES`].
    pub values: Vec<String>,
    /// How many there are in all, when that is known.
    #[serde(default, deserialize_with = "json::size", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Whether there are more than `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

impl Completion {
    /// The most values that a result may carry.
    pub const MAX_VALUES: usize = 100;

    /// Returns a completion with at most [`Completion::MAX_VALUES`] values. If more are given, `total` and `has_more`
    /// report them.
    pub fn new(values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let count = values.len();
        if count <= Self::MAX_VALUES {
            return Self { values, total: None, has_more: None };
        }
        values.truncate(Self::MAX_VALUES);
        Self { values, total: Some(count as u64), has_more: Some(true) }
    }
}

setters! {
    Completion {
        /// Sets the number of all matching values.
        with_total = some total: u64;
        /// Sets whether more values match than the result carries.
        with_has_more = flag has_more;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_distinguished_by_type() {
        for (json, reference) in [
            (json!({"type": "ref/prompt", "name": "p"}), CompletionReference::prompt("p")),
            (
                json!({"type": "ref/resource", "uri": "file:///{path}"}),
                CompletionReference::resource_template("file:///{path}"),
            ),
        ] {
            assert_eq!(serde_json::to_value(&reference).unwrap(), json);
            assert_eq!(serde_json::from_value::<CompletionReference>(json).unwrap(), reference);
        }
        for bad in [json!({"type": "ref/tool", "name": "p"}), json!({"name": "p"}), json!({"type": "ref/prompt"})] {
            assert!(serde_json::from_value::<CompletionReference>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_over_the_maximum_are_omitted_and_counted() {
        let fits = Completion::new((0..100).map(|n| n.to_string()));
        assert_eq!((fits.values.len(), fits.total, fits.has_more), (100, None, None));
        let cut = Completion::new((0..101).map(|n| n.to_string()));
        assert_eq!((cut.values.len(), cut.total, cut.has_more), (100, Some(101), Some(true)));
    }
}
