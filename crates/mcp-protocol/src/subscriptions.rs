//! Subscriptions: `subscriptions/listen` (2026-07-28), and the notices that lists and resources changed.

use serde::{Deserialize, Serialize};

use crate::{Meta, json};

/// The notifications that a client requests, or that a server agrees to send. Absent members are not subscribed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// The list of tools changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// The list of prompts changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// The list of resources changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// The URIs of resources whose changes are sent.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// The tasks whose changes are sent (tasks extension).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

impl SubscriptionFilter {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes of every list.
    #[must_use]
    pub fn lists() -> Self {
        let all = Some(true);
        Self { tools_list_changed: all, prompts_list_changed: all, resources_list_changed: all, ..Self::default() }
    }

    /// Adds the changes of these resources.
    #[must_use]
    pub fn with_resources<U: Into<String>>(mut self, uris: impl IntoIterator<Item = U>) -> Self {
        self.resource_subscriptions.extend(uris.into_iter().map(Into::into));
        self
    }

    /// Adds the changes of these tasks (tasks extension).
    #[must_use]
    pub fn with_tasks<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.task_ids.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Whether the filter has no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let flags = [self.tools_list_changed, self.prompts_list_changed, self.resources_list_changed];
        flags.iter().all(|flag| *flag != Some(true))
            && self.resource_subscriptions.is_empty()
            && self.task_ids.is_empty()
    }
}

setters! {
    SubscriptionFilter {
        /// Sets whether changes of the tool list are sent.
        with_tools_list_changed = flag tools_list_changed;
        /// Sets whether changes of the prompt list are sent.
        with_prompts_list_changed = flag prompts_list_changed;
        /// Sets whether changes of the resource list are sent.
        with_resources_list_changed = flag resources_list_changed;
    }
}

/// Parameters of `subscriptions/listen`.
///
/// ```
/// use mcp_protocol::{ListenParams, SubscriptionFilter};
///
/// let filter = SubscriptionFilter::new().with_tools_list_changed(true).with_resources(["file:///a.txt"]);
/// assert!(!ListenParams::new(filter).notifications.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListenParams {
    /// The requested notifications.
    pub notifications: SubscriptionFilter,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListenParams {
    /// Asks for these notices.
    #[must_use]
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: None }
    }
}

setters! {
    ListenParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `subscriptions/listen`, when the server ends it; its `_meta` names the subscription.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListenResult {
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListenResult {
    /// Returns the end of a subscription.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    ListenResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `notifications/subscriptions/acknowledged`: the requested notifications that the server will send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionsAcknowledgedParams {
    /// The notices that will come.
    pub notifications: SubscriptionFilter,
    /// Metadata of the notification, which names the subscription.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SubscriptionsAcknowledgedParams {
    /// Returns an acknowledgement of these notifications.
    #[must_use]
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: None }
    }
}

setters! {
    SubscriptionsAcknowledgedParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `notifications/resources/updated`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceUpdatedParams {
    /// The resource that changed; may be a part of the one that was subscribed to.
    pub uri: String,
    /// Metadata of the notification.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceUpdatedParams {
    /// Returns a resource changed.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: None }
    }
}

setters! {
    ResourceUpdatedParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_without_subscriptions_is_empty() {
        for (json, is_empty) in [
            (json!({}), true),
            (json!({"toolsListChanged": false, "resourceSubscriptions": null}), true),
            (json!({"resourceSubscriptions": []}), true),
            (json!({"toolsListChanged": true}), false),
            (json!({"promptsListChanged": true}), false),
            (json!({"resourcesListChanged": true}), false),
            (json!({"resourceSubscriptions": ["a:b"]}), false),
            (json!({"taskIds": ["t"]}), false),
        ] {
            let params: ListenParams = serde_json::from_value(json!({"notifications": json})).unwrap();
            assert_eq!(params.notifications.is_empty(), is_empty, "{json}");
        }
        assert!(serde_json::from_value::<ListenParams>(json!({})).is_err());
    }
}
