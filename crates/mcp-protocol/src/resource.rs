//! Resources: definitions, contents, and the parameters and results of `resources/*` (server, resources).

use serde::{Deserialize, Serialize};

use crate::{
    Annotations, Icon, JsonObject, Meta,
    content::{InvalidBase64, decode_base64, encode_base64},
    json::{self, write},
};

/// A resource that a server offers.
///
/// ```
/// use mcp_protocol::Resource;
///
/// let resource = Resource::new("file:///readme.md", "readme").with_mime_type("text/markdown").with_size(1024);
/// assert_eq!(resource.mime_type.as_deref(), Some("text/markdown"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// The URI of the resource (RFC 3986).
    pub uri: String,
    /// The name for programs.
    pub name: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size of the raw content, in bytes.
    #[serde(default, deserialize_with = "json::size", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Hints for the client that shows the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Icons to show beside it (2025-11-25).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata of the resource.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Resource {
    /// Returns a resource at a URI.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }
}

setters! {
    Resource {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description.
        with_description = text description;
        /// Sets the media type.
        with_mime_type = text mime_type;
        /// Sets the size of the raw content, in bytes.
        with_size = some size: u64;
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Adds an icon (2025-11-25).
        with_icon = push icons: Icon;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// A family of resources that a server offers.
///
/// ```
/// use mcp_protocol::ResourceTemplate;
///
/// let template = ResourceTemplate::new("db://{table}/{id}", "row").with_title("A row of a table");
/// assert_eq!(template.uri_template, "db://{table}/{id}");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template of their URIs (RFC 6570).
    pub uri_template: String,
    /// The name for programs.
    pub name: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, when all of them have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Hints for the client that shows the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Icons to show beside them (2025-11-25).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata of the template.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ResourceTemplate {
    /// Returns a family of resources.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri_template: uri_template.into(), name: name.into(), ..Self::default() }
    }
}

setters! {
    ResourceTemplate {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description.
        with_description = text description;
        /// Sets the media type of all resources of the template.
        with_mime_type = text mime_type;
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Adds an icon (2025-11-25).
        with_icon = push icons: Icon;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of a resource, or of a part of it.
///
/// ```
/// use mcp_protocol::ResourceContents;
///
/// let text = ResourceContents::text("file:///a.txt", "hello").with_mime_type("text/plain");
/// assert_eq!(text.as_text(), Some("hello"));
/// let blob = ResourceContents::blob("file:///a.bin", [0, 1]);
/// assert_eq!(blob.body.bytes()?, [0, 1]);
/// # Ok::<(), mcp_protocol::InvalidBase64>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "WireContents")]
#[non_exhaustive]
pub struct ResourceContents {
    /// The URI of the content. It can be a part of the resource that was read.
    pub uri: String,
    /// The media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The content itself.
    #[serde(flatten)]
    pub body: ResourceBody,
    /// Metadata of the contents.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceContents {
    /// Contents that are text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Text(text.into()), meta: None }
    }

    /// Contents that are bytes; they are encoded in base64.
    pub fn blob(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let body = ResourceBody::Blob(encode_base64(bytes.as_ref()));
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// Returns the text; `None` when it is a blob.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        }
    }

    /// The text or the blob, which may be large.
    pub(crate) fn bulk_mut(&mut self) -> &mut String {
        match &mut self.body {
            ResourceBody::Text(bulk) | ResourceBody::Blob(bulk) => bulk,
        }
    }

    /// Appends it as JSON, the same bytes that `serde_json` writes. Returns where in `out` its bulk begins.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) -> Result<usize, serde_json::Error> {
        let Self { uri, mime_type, body, meta } = self;
        out.extend_from_slice(b"{\"uri\":");
        write::text(out, uri);
        write::member(out, "mimeType", mime_type.as_ref())?;
        let (key, bulk) = match body {
            ResourceBody::Text(text) => ("text", text),
            ResourceBody::Blob(blob) => ("blob", blob),
        };
        write::opening(out, key);
        let start = write::text(out, bulk);
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(start)
    }
}

setters! {
    ResourceContents {
        /// Sets the media type.
        with_mime_type = text mime_type;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of a resource: text, or bytes in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "the schema allows these two forms and no other")]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
}

impl ResourceBody {
    /// Returns the bytes of either form.
    ///
    /// # Errors
    /// When a blob is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, InvalidBase64> {
        match self {
            Self::Text(text) => Ok(text.as_bytes().to_vec()),
            Self::Blob(data) => decode_base64(data),
        }
    }
}

/// Contents as they are on the wire, before it is known that they have one body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContents {
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blob: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

impl TryFrom<WireContents> for ResourceContents {
    type Error = &'static str;
    fn try_from(wire: WireContents) -> Result<Self, Self::Error> {
        let body = match (wire.text, wire.blob) {
            (Some(text), None) => ResourceBody::Text(text),
            (None, Some(data)) => ResourceBody::Blob(data),
            (None, None) => return Err("resource contents need `text` or `blob`"),
            (Some(_), Some(_)) => return Err("resource contents have `text` or `blob`, not both"),
        };
        Ok(Self { uri: wire.uri, mime_type: wire.mime_type, body, meta: wire.meta })
    }
}

/// The callers that may share a cached result (2026-07-28, utilities/caching).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// All callers may share the result.
    Public,
    /// Only the same authorization context may reuse the result.
    #[default]
    Private,
}

impl<'de> Deserialize<'de> for CacheScope {
    /// A word that this library does not know is read as the narrower scope.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(if word == "public" { Self::Public } else { Self::Private })
    }
}

/// Parameters of `resources/read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceParams {
    /// The resource.
    pub uri: String,
    /// The answers to the input requests of an earlier result, by their keys (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<JsonObject>,
    /// The request state of that result, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ReadResourceParams {
    /// Returns the parameters for a resource.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }
}

setters! {
    ReadResourceParams {
        /// Sets the answers to the input requests of an earlier result, by their keys (2026-07-28).
        with_input_responses = into input_responses: JsonObject;
        /// Sets the request state of that result, unchanged (2026-07-28).
        with_request_state = text request_state;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `resources/read`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The contents of the resource. Never empty: a missing resource is an error.
    pub contents: Vec<ResourceContents>,
    /// For how long it is fresh, in milliseconds (2026-07-28).
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The callers that may share the cached result (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ReadResourceResult {
    /// Returns a result with these contents.
    #[must_use]
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, ..Self::default() }
    }
}

setters! {
    ReadResourceResult {
        /// Sets the time for which a client may cache the result, in milliseconds (2026-07-28).
        with_ttl_ms = some ttl_ms: u64;
        /// Sets the callers that may share the cached result (2026-07-28).
        with_cache_scope = some cache_scope: CacheScope;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

list_result! {
    /// The result of `resources/list`: one page.
    ListResourcesResult {
        /// The resources of this page.
        resources: Resource
    }
}

list_result! {
    /// The result of `resources/templates/list`: one page.
    ListResourceTemplatesResult {
        /// The templates of this page.
        resource_templates: ResourceTemplate
    }
}

/// Parameters of every `*/list` request that is paged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PaginatedParams {
    /// The cursor of the page. Absent for the first page. It is opaque, and an empty string is also a cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl PaginatedParams {
    /// Returns a request for the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a request for the page at a cursor.
    pub fn at(cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), meta: None }
    }
}

setters! {
    PaginatedParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `resources/subscribe` and `resources/unsubscribe` (up to 2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscribeParams {
    /// The resource.
    pub uri: String,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SubscribeParams {
    /// Returns the parameters for a resource.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: None }
    }
}

setters! {
    SubscribeParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_have_exactly_one_body() {
        let text = ResourceContents::text("a:b", "c").with_mime_type("text/plain");
        assert_eq!(serde_json::to_value(&text).unwrap(), json!({"uri": "a:b", "mimeType": "text/plain", "text": "c"}));
        let blob = ResourceContents::blob("a:b", [0, 1]);
        assert_eq!(serde_json::to_value(&blob).unwrap(), json!({"uri": "a:b", "blob": "AAE="}));
        assert_eq!(blob.body.bytes().unwrap(), [0, 1]);
        for (json, expected) in [
            (json!({"uri": "a:b", "blob": null, "mimeType": "text/plain", "text": "c"}), Ok(text)),
            (json!({"uri": "a:b", "blob": "AAE=", "text": null}), Ok(blob)),
            (json!({"uri": "a:b"}), Err("resource contents need `text` or `blob`")),
            (json!({"uri": "a:b", "text": "", "blob": ""}), Err("resource contents have `text` or `blob`, not both")),
        ] {
            let read = serde_json::from_value::<ResourceContents>(json).map_err(|e| e.to_string());
            assert_eq!(read, expected.map_err(String::from));
        }
    }

    #[test]
    fn unknown_members_of_definitions_survive() {
        let json = json!({"uri": "a:b", "name": "n", "size": 1, "later": [1], "annotations": {"lastModified": "2025"}});
        let resource: Resource = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&resource).unwrap(), json);
        let json = json!({"uriTemplate": "a:{b}", "name": "n", "later": [1]});
        let template: ResourceTemplate = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&template).unwrap(), json);
    }

    #[test]
    fn invalid_cache_hints_are_read_as_the_strictest() {
        let json = json!({"resources": [], "ttlMs": -1, "cacheScope": "galaxy"});
        let page: ListResourcesResult = serde_json::from_value(json).unwrap();
        assert_eq!((page.ttl_ms, page.cache_scope), (Some(0), Some(CacheScope::Private)));
        let page: ListResourcesResult =
            serde_json::from_value(json!({"resources": [], "ttlMs": 2.0, "cacheScope": "public"})).unwrap();
        assert_eq!((page.ttl_ms, page.cache_scope), (Some(2), Some(CacheScope::Public)));
    }

    #[test]
    fn the_empty_cursor_is_a_cursor() {
        let json = json!({"cursor": ""});
        let params: PaginatedParams = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(params, PaginatedParams::at(""));
        assert_eq!(serde_json::to_value(&params).unwrap(), json);
        assert_eq!(serde_json::to_value(PaginatedParams::new()).unwrap(), json!({}));
    }
}
