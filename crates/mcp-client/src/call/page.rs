//! One page of a list.

use std::{borrow::Cow, collections::HashMap, time::Duration};

use mcp_protocol::{CacheScope, Meta, Prompt, Resource, ResourceTemplate, Tool, tasks::Task};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    ClientCore, Reply,
    omitted::{MAX_OMITTED, OmittedItem},
};
use crate::Error;

/// A type that servers list: a tool, a resource, a resource template, a prompt or a task; with the feature `skills` also a skill.
///
/// The trait is sealed.
///
/// ```
/// use mcp_client::{
///     ListItem,
///     protocol::{Prompt, Tool},
/// };
///
/// /// Returns the name of the counter for the pages of a list.
/// fn counter<T: ListItem>() -> String {
///     format!("pages of {}", T::METHOD)
/// }
/// assert_eq!(counter::<Tool>(), "pages of tools/list");
/// assert_eq!(<Prompt as ListItem>::MEMBER, "prompts");
/// ```
pub trait ListItem: DeserializeOwned + Send + Unpin + sealed::Listed + 'static {
    /// The method of the request that lists the items.
    const METHOD: &'static str;
    /// The member of the result that contains the items.
    const MEMBER: &'static str;
}

pub(super) mod sealed {
    use super::{Prompt, Resource, ResourceTemplate, Task, Tool};

    #[expect(unnameable_types, reason = "the trait is sealed")]
    pub trait Listed: Sized {
        /// Returns the item as a tool, if it is a tool.
        fn as_tool(&self) -> Option<&Tool> {
            None
        }
    }

    impl Listed for Resource {}
    impl Listed for ResourceTemplate {}
    impl Listed for Prompt {}
    impl Listed for Task {}
    #[cfg(feature = "skills")]
    impl Listed for mcp_protocol::skills::Skill {}
    impl Listed for Tool {
        fn as_tool(&self) -> Option<&Tool> {
            Some(self)
        }
    }
}

macro_rules! listed {
    ($($(#[$cfg:meta])? $item:ty: $method:literal, $member:literal;)*) => {$(
        $(#[$cfg])?
        impl ListItem for $item {
            const METHOD: &'static str = $method;
            const MEMBER: &'static str = $member;
        }
    )*};
}

listed! {
    Tool: "tools/list", "tools";
    Resource: "resources/list", "resources";
    ResourceTemplate: "resources/templates/list", "resourceTemplates";
    Prompt: "prompts/list", "prompts";
    Task: "tasks/list", "tasks";
    #[cfg(feature = "skills")]
    mcp_protocol::skills::Skill: "skills/list", "skills";
}

/// One page of a list ([`List::page`](crate::List::page)).
///
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let page = client.list_tools().page().await?;
/// assert_eq!(page.items[0].name, "greet");
/// assert_eq!(page.next_cursor, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The valid items.
    pub items: Vec<T>,
    /// The invalid items, which are left out. At most 100.
    pub omitted: Vec<OmittedItem>,
    /// The cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// The time for which the page stays fresh (2026-07-28).
    pub ttl: Option<Duration>,
    /// The scope in which caches can share the page (2026-07-28).
    pub cache_scope: Option<CacheScope>,
    /// The metadata of the page.
    pub meta: Option<Meta>,
    /// The size of the page in bytes.
    pub(super) bytes: usize,
    /// The number of all items, with the invalid ones.
    pub(super) length: usize,
}

/// Reads a page from a raw result.
pub(super) fn read_page<T: ListItem>(core: &ClientCore, reply: &Reply) -> Result<Page<T>, Error> {
    let mut members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(&reply.bytes)
        .map_err(|error| Error::invalid(format!("the result of {}: {error}", T::METHOD)))?;
    let missing = || Error::invalid(format!("the result of {} has no {:?}", T::METHOD, T::MEMBER));
    let raw = members.remove(T::MEMBER).ok_or_else(missing)?;
    let entries: Option<Vec<&RawValue>> = serde_json::from_str(raw.get())
        .map_err(|error| Error::invalid(format!("{:?} of {}: {error}", T::MEMBER, T::METHOD)))?;
    let entries = entries.unwrap_or_default();
    let mut items = Vec::with_capacity(entries.len());
    let mut omitted = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        match serde_json::from_str(entry.get()) {
            Ok(item) => items.push(item),
            Err(error) if omitted.len() < MAX_OMITTED => {
                let item = OmittedItem::new::<T>(index + 1, entry.get(), &error);
                tracing::warn!(method = T::METHOD, %item, "an invalid item of a list is left out");
                omitted.push(item);
            }
            Err(_) => {}
        }
    }
    let length = entries.len();
    core.inbound.catalog.learn(&mut items, T::as_tool, reply.is_mirrored);
    let next_cursor: Option<String> = optional(&members, "nextCursor")?;
    let ttl: Option<f64> = optional(&members, "ttlMs")?;
    Ok(Page {
        items,
        omitted,
        // Older revisions do not define empty cursors, and servers send them on the last page.
        next_cursor: next_cursor.filter(|cursor| !cursor.is_empty() || reply.version.has_empty_cursors()),
        ttl: ttl.map(|millis| Duration::from_millis(millis.max(0.0) as u64)),
        cache_scope: optional(&members, "cacheScope")?,
        meta: optional(&members, "_meta")?,
        bytes: reply.bytes.len(),
        length,
    })
}

fn optional<T: DeserializeOwned>(members: &HashMap<Cow<'_, str>, &RawValue>, name: &str) -> Result<Option<T>, Error> {
    let Some(raw) = members.get(name) else { return Ok(None) };
    serde_json::from_str(raw.get()).map_err(|error| Error::invalid(format!("{name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_protocol::ProtocolVersion;

    use super::*;

    fn page(version: ProtocolVersion, json: &'static str) -> Result<Page<Tool>, Error> {
        let connector = Arc::new(crate::OpenTransport::new(mcp_transport::memory::duplex(1).0));
        let config = crate::config::Config::new(mcp_protocol::Implementation::default());
        let core = ClientCore::new(config, Default::default(), connector);
        let method = "tools/list".into();
        read_page(
            &core,
            &Reply {
                bytes: json.as_bytes().into(),
                method,
                name: None,
                version,
                connection: 1,
                is_mirrored: false,
                task: None,
                requires_input: false,
            },
        )
    }

    #[test]
    fn omits_invalid_items_of_a_page() {
        let read = page(
            ProtocolVersion::LATEST,
            r#"{"tools":[{"name":"a","inputSchema":{}},{"name":7},{"name":"b","inputSchema":{}}],"ttlMs":5.5,"cacheScope":"public"}"#,
        )
        .unwrap();
        let names: Vec<&str> = read.items.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a", "b"]);
        let [omitted] = &read.omitted[..] else { panic!("{:?}", read.omitted) };
        assert_eq!((omitted.position, omitted.name.as_deref()), (2, None));
        assert_eq!((read.ttl, read.cache_scope), (Some(Duration::from_millis(5)), Some(CacheScope::Public)));
        assert!(page(ProtocolVersion::LATEST, r#"{"tools":null}"#).unwrap().items.is_empty());
        for bad in ["{}", "[]", r#"{"tools":{}}"#, r#"{"tools":[],"nextCursor":7}"#] {
            assert!(page(ProtocolVersion::LATEST, bad).unwrap_err().is_invalid_response(), "{bad}");
        }
    }

    #[test]
    fn an_empty_cursor_ends_lists_of_older_revisions() {
        for (version, json, expected) in [
            (ProtocolVersion::V2025_11_25, r#"{"tools":[],"nextCursor":""}"#, None),
            (ProtocolVersion::V2026_07_28, r#"{"tools":[],"nextCursor":""}"#, Some("")),
            (ProtocolVersion::V2026_07_28, r#"{"tools":[],"nextCursor":null}"#, None),
            (ProtocolVersion::V2024_11_05, r#"{"tools":[],"nextCursor":"x"}"#, Some("x")),
        ] {
            assert_eq!(page(version, json).unwrap().next_cursor.as_deref(), expected, "{version} {json}");
        }
    }
}
