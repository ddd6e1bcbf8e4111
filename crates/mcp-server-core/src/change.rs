//! A list change or a resource update, and the set of changes that wait for one reader.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use mcp_protocol::{Meta, NotificationMethod as _, RequestId, RpcError, jsonrpc, meta::keys, notification};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::json;

/// The most bytes of all URIs that one reader subscribes to.
const URI_BYTES: usize = 64 << 10;
/// The most parts of resources that wait for one reader, and the most bytes of their URIs.
const PARTS: usize = 64;
const PART_BYTES: usize = 64 << 10;

/// A list change or a resource update. It carries no content, so two equal changes are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and templates.
    Resources,
    /// A resource.
    Updated(Arc<str>),
    /// A part of a resource, for the subscribers of this resource.
    Part { of: Arc<str>, uri: Arc<str> },
}

/// The changes that concern every client.
pub(crate) const LISTS: [Change; 3] = [Change::Tools, Change::Prompts, Change::Resources];

impl Change {
    /// Returns the URI of the notification.
    fn uri(&self) -> Option<&str> {
        match self {
            Self::Tools | Self::Prompts | Self::Resources => None,
            Self::Updated(uri) | Self::Part { uri, .. } => Some(uri),
        }
    }

    /// Returns the notification, with the id of its subscription in the stateless era.
    pub(crate) fn message(&self, subscription: Option<&RequestId>) -> Vec<u8> {
        let name = match self {
            Self::Tools => notification::ToolListChanged::NAME,
            Self::Prompts => notification::PromptListChanged::NAME,
            Self::Resources => notification::ResourceListChanged::NAME,
            Self::Updated(_) | Self::Part { .. } => notification::ResourceUpdated::NAME,
        };
        // Strings and ids always serialize.
        jsonrpc::notification(name, &ChangeParams { uri: self.uri(), subscription }).unwrap_or_default()
    }
}

/// The parameters of a notification about a change. They are borrowed, because thousands of streams can receive the same change.
struct ChangeParams<'a> {
    uri: Option<&'a str>,
    subscription: Option<&'a RequestId>,
}

impl Serialize for ChangeParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut params = serializer.serialize_map(None)?;
        if let Some(uri) = self.uri {
            params.serialize_entry("uri", uri)?;
        }
        if let Some(id) = self.subscription {
            params.serialize_entry("_meta", &SubscriptionMeta(id))?;
        }
        params.end()
    }
}

/// The metadata that names a subscription.
struct SubscriptionMeta<'a>(&'a RequestId);

impl Serialize for SubscriptionMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut meta = serializer.serialize_map(Some(1))?;
        meta.serialize_entry(keys::SUBSCRIPTION_ID, self.0)?;
        meta.end()
    }
}

/// Returns the metadata that names a subscription by the id of its request.
pub(crate) fn subscription_meta(id: &RequestId) -> Meta {
    let mut meta = Meta::default();
    meta.insert(keys::SUBSCRIPTION_ID.to_owned(), json!(id));
    meta
}

/// The changes that wait for one reader, without duplicates, in the order of their first occurrence.
///
/// The set is never larger than the subscriptions of the reader and [`PARTS`].
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    order: VecDeque<Change>,
}

impl PendingChanges {
    pub(crate) fn insert(&mut self, change: Change) {
        if self.order.contains(&change) {
            return;
        }
        match change {
            Change::Part { of, uri } if !self.has_room(&uri) => {
                // The client knows that each part can have changed.
                self.order.retain(|change| !matches!(change, Change::Part { of: other, .. } if *other == of));
                self.insert(Change::Updated(of));
            }
            change => self.order.push_back(change),
        }
    }

    /// Whether another part can wait.
    fn has_room(&self, uri: &str) -> bool {
        let parts = self.order.iter().filter_map(|change| match change {
            Change::Part { uri, .. } => Some(uri.len()),
            _ => None,
        });
        let (count, bytes) = parts.fold((0, uri.len()), |(count, bytes), len| (count + 1, bytes + len));
        count < PARTS && bytes <= PART_BYTES
    }

    pub(crate) fn first(&self) -> Option<&Change> {
        self.order.front()
    }

    /// Removes the first change, for a notification. The notification is also that of other changes with its URI: of a resource and of
    /// a part of a resource above it.
    pub(crate) fn pop(&mut self) -> Option<Change> {
        let change = self.order.pop_front();
        if let Some(uri) = change.as_ref().and_then(Change::uri) {
            self.order.retain(|other| other.uri() != Some(uri));
        }
        if self.order.is_empty() {
            // The set is empty most of the time, so its memory is released.
            self.order = VecDeque::new();
        }
        change
    }

    pub(crate) fn forget(&mut self, uri: &str) {
        self.order.retain(
            |change| !matches!(change, Change::Updated(other) | Change::Part { of: other, .. } if **other == *uri),
        );
    }

    pub(crate) fn clear(&mut self) {
        self.order = VecDeque::new();
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

/// Adds a URI to the subscriptions of a reader. Returns false when it is present already.
pub(crate) fn add_uri(uris: &mut HashSet<Arc<str>>, uri: &str, cap: usize) -> Result<bool, RpcError> {
    let is_new = can_add_uri(uris, uri, cap)?;
    if is_new {
        uris.insert(uri.into());
    }
    Ok(is_new)
}

/// Returns false for a URI that the set contains.
///
/// # Errors
/// `-32602` when the set is full.
pub(crate) fn can_add_uri(uris: &HashSet<Arc<str>>, uri: &str, cap: usize) -> Result<bool, RpcError> {
    if uris.contains(uri) {
        return Ok(false);
    }
    let bytes: usize = uris.iter().map(|uri| uri.len()).sum();
    if uris.len() >= cap || bytes + uri.len() > URI_BYTES {
        let text =
            format!("too many subscriptions: {cap} resources, and {URI_BYTES} bytes of their URIs, are the most");
        return Err(RpcError::invalid_params(text));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_pending_change_is_stored_once_in_the_order_of_its_first_insertion() {
        let mut pending = PendingChanges::default();
        let updated = |uri: &str| Change::Updated(uri.into());
        for change in [Change::Tools, updated("x:a"), Change::Tools, updated("x:b"), updated("x:a"), Change::Prompts] {
            pending.insert(change);
        }
        pending.forget("x:b");
        let popped: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
        assert_eq!(popped, [Change::Tools, updated("x:a"), Change::Prompts]);
        assert_eq!((pending.len(), pending.order.capacity()), (0, 0));
    }

    #[test]
    fn a_resource_and_a_part_with_its_uri_cause_one_notification() {
        let updated = |uri: &str| Change::Updated(uri.into());
        let part = |of: &str, uri: &str| Change::Part { of: of.into(), uri: uri.into() };
        let all = [part("x:a/", "x:a/b/c"), updated("x:a/b/c"), part("x:a/b/", "x:a/b/c"), updated("x:a/")];
        for (forgotten, expected) in [
            (None, vec![all[0].clone(), all[3].clone()]),
            // The end of a subscription does not affect the others.
            (Some("x:a/"), vec![all[1].clone()]),
            (Some("x:a/b/c"), vec![all[0].clone(), all[3].clone()]),
        ] {
            let mut pending = PendingChanges::default();
            all.iter().cloned().for_each(|change| pending.insert(change));
            forgotten.into_iter().for_each(|uri| pending.forget(uri));
            let popped: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
            assert_eq!(popped, expected, "{forgotten:?}");
        }
    }

    #[test]
    fn many_parts_become_an_update_of_their_resource() {
        let part = |of: &str, uri: String| Change::Part { of: of.into(), uri: uri.into() };
        let pop = |pending: &mut PendingChanges| std::iter::from_fn(|| pending.pop()).collect::<Vec<_>>();
        let mut pending = PendingChanges::default();
        for at in (0..PARTS - 1).chain([0]) {
            pending.insert(part("x:a/", format!("x:a/{at}")));
        }
        pending.insert(part("x:b/", "x:b/1".to_owned()));
        assert_eq!(pending.len(), PARTS, "a repeated part is stored once");
        pending.insert(part("x:a/", "x:a/other".to_owned()));
        pending.insert(part("x:a/", "x:a/other".to_owned()));
        let expected =
            [part("x:b/", "x:b/1".to_owned()), Change::Updated("x:a/".into()), part("x:a/", "x:a/other".to_owned())];
        assert_eq!(pop(&mut pending), expected);
        pending.insert(part("x:a/", format!("x:a/{}", "b".repeat(PART_BYTES))));
        pending.insert(part("x:b/", "x:b/1".to_owned()));
        pending.forget("x:b/");
        assert_eq!(pop(&mut pending), [Change::Updated("x:a/".into())]);
    }

    #[test]
    fn a_notification_names_its_subscription_in_the_type_of_the_id() {
        for (change, id, expected) in [
            (Change::Tools, None, json!({ "method": "notifications/tools/list_changed", "params": {} })),
            (
                Change::Prompts,
                Some(RequestId::from(1)),
                json!({ "method": "notifications/prompts/list_changed", "params": { "_meta": { keys::SUBSCRIPTION_ID: 1 } } }),
            ),
            (
                Change::Resources,
                Some(RequestId::from("1")),
                json!({
                    "method": "notifications/resources/list_changed",
                    "params": { "_meta": { keys::SUBSCRIPTION_ID: "1" } },
                }),
            ),
            (
                Change::Updated("x:a".into()),
                Some(RequestId::from(2)),
                json!({
                    "method": "notifications/resources/updated",
                    "params": { "uri": "x:a", "_meta": { keys::SUBSCRIPTION_ID: 2 } },
                }),
            ),
        ] {
            let mut message: Value = serde_json::from_slice(&change.message(id.as_ref())).unwrap();
            message.as_object_mut().unwrap().remove("jsonrpc");
            assert_eq!(message, expected);
        }
    }
}
