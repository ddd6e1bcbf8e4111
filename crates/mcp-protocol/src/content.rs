//! Content blocks of tool results, prompts and messages (schema, `ContentBlock`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{
    JsonObject, Meta, Resource, ResourceContents,
    json::{self, write},
};

/// The author of a message in a conversation, or the audience of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// Hints for clients that show or select content.
///
/// ```
/// use mcp_protocol::{Annotations, ContentBlock, Role};
///
/// let annotations = Annotations::new().with_audience(Role::User).with_priority(0.5);
/// let block = ContentBlock::text("3 files were changed").with_annotations(annotations);
/// assert_eq!(block.as_text(), Some("3 files were changed"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// The audience of the content. Empty when it is for all.
    #[serde(default, deserialize_with = "json::known_list", skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How important it is, from 0 to 1.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it was last changed, as an ISO 8601 date and time (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Annotations {
    /// Returns annotations without hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    Annotations {
        /// Adds a role to the audience.
        with_audience = push audience: Role;
        /// Sets the importance, from 0 (optional) to 1 (required).
        with_priority = some priority: f64;
        /// Sets the time of the last change, as an ISO 8601 date and time.
        with_last_modified = text last_modified;
    }
}

/// A piece of content. Its `type` selects the variant.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Sound (2025-03-26).
    Audio(AudioContent),
    /// A resource that can be read elsewhere (2025-06-18).
    ResourceLink(Box<Resource>),
    /// The contents of a resource.
    Resource(EmbeddedResource),
    /// A block of a type that this library does not know, with all its members.
    Unknown(JsonObject),
}

impl ContentBlock {
    /// Returns a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns an image block; the bytes are encoded in base64.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::from_bytes(bytes, mime_type))
    }

    /// Returns an audio block; the bytes are encoded in base64.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::from_bytes(bytes, mime_type))
    }

    /// Returns a block that links to a resource.
    #[must_use]
    pub fn resource_link(resource: Resource) -> Self {
        Self::ResourceLink(Box::new(resource))
    }

    /// Returns a block that holds the contents of a resource.
    #[must_use]
    pub fn resource(contents: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource::new(contents))
    }

    /// Returns the text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// Sets annotations. A block of an unknown type is unchanged.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        match &mut self {
            Self::Text(block) => block.annotations = Some(annotations),
            Self::Image(block) => block.annotations = Some(annotations),
            Self::Audio(block) => block.annotations = Some(annotations),
            Self::ResourceLink(resource) => resource.annotations = Some(annotations),
            Self::Resource(block) => block.annotations = Some(annotations),
            Self::Unknown(_) => {}
        }
        self
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<TextContent> for ContentBlock {
    fn from(block: TextContent) -> Self {
        Self::Text(block)
    }
}

impl From<ImageContent> for ContentBlock {
    fn from(block: ImageContent) -> Self {
        Self::Image(block)
    }
}

impl From<AudioContent> for ContentBlock {
    fn from(block: AudioContent) -> Self {
        Self::Audio(block)
    }
}

impl From<EmbeddedResource> for ContentBlock {
    fn from(block: EmbeddedResource) -> Self {
        Self::Resource(block)
    }
}

impl From<ResourceContents> for ContentBlock {
    fn from(contents: ResourceContents) -> Self {
        Self::resource(contents)
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Known<'a> {
            Text(&'a TextContent),
            Image(&'a ImageContent),
            Audio(&'a AudioContent),
            ResourceLink(&'a Resource),
            Resource(&'a EmbeddedResource),
        }
        match self {
            Self::Text(block) => Known::Text(block),
            Self::Image(block) => Known::Image(block),
            Self::Audio(block) => Known::Audio(block),
            Self::ResourceLink(block) => Known::ResourceLink(block),
            Self::Resource(block) => Known::Resource(block),
            Self::Unknown(members) => return members.serialize(serializer),
        }
        .serialize(serializer)
    }
}

impl ContentBlock {
    /// The text or the data, which may be large.
    pub(crate) fn bulk_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text(block) => Some(&mut block.text),
            Self::Image(block) => Some(&mut block.data),
            Self::Audio(block) => Some(&mut block.data),
            Self::Resource(block) => Some(block.resource.bulk_mut()),
            Self::ResourceLink(_) | Self::Unknown(_) => None,
        }
    }

    /// Appends it as JSON, the same bytes that `serde_json` writes. Returns where in `out` its bulk begins.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) -> Result<usize, serde_json::Error> {
        let (kind, key, bulk, rest) = match self {
            Self::Text(TextContent { text, annotations, meta }) => ("text", "text", text, (None, annotations, meta)),
            Self::Image(ImageContent { data, mime_type, annotations, meta }) => {
                ("image", "data", data, (Some(mime_type), annotations, meta))
            }
            Self::Audio(AudioContent { data, mime_type, annotations, meta }) => {
                ("audio", "data", data, (Some(mime_type), annotations, meta))
            }
            Self::Resource(EmbeddedResource { resource, annotations, meta }) => {
                out.extend_from_slice(b"{\"type\":\"resource\",\"resource\":");
                let start = resource.write_json(out)?;
                write::member(out, "annotations", annotations.as_ref())?;
                write::member(out, "_meta", meta.as_ref())?;
                out.push(b'}');
                return Ok(start);
            }
            Self::ResourceLink(_) | Self::Unknown(_) => {
                serde_json::to_writer(&mut *out, self)?;
                return Ok(out.len());
            }
        };
        let (mime_type, annotations, meta) = rest;
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        write::opening(out, key);
        let start = write::text(out, bulk);
        write::member(out, "mimeType", mime_type)?;
        write::member(out, "annotations", annotations.as_ref())?;
        write::member(out, "_meta", meta.as_ref())?;
        out.push(b'}');
        Ok(start)
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_members(JsonObject::deserialize(deserializer)?)
    }
}

impl ContentBlock {
    /// The block with these members. The strings move, so a large text is not copied.
    pub(crate) fn from_members<E: de::Error>(mut members: JsonObject) -> Result<Self, E> {
        let Some(Value::String(kind)) = members.remove("type") else {
            return Err(E::custom("content needs a `type`, a string"));
        };
        let result = match kind.as_str() {
            "text" => TextContent::deserialize(Value::from(members)).map(Self::Text),
            "image" => ImageContent::deserialize(Value::from(members)).map(Self::Image),
            "audio" => AudioContent::deserialize(Value::from(members)).map(Self::Audio),
            "resource_link" => {
                Resource::deserialize(Value::from(members)).map(|resource| Self::ResourceLink(Box::new(resource)))
            }
            "resource" => EmbeddedResource::deserialize(Value::from(members)).map(Self::Resource),
            _ => {
                members.insert("type".into(), Value::String(kind));
                return Ok(Self::Unknown(members));
            }
        };
        result.map_err(|error| E::custom(format_args!("{kind} content: {error}")))
    }
}

/// The content of a text block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Hints for the client that shows the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl TextContent {
    /// Returns a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

setters! {
    TextContent {
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of an image block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImageContent {
    /// The bytes, in base64.
    pub data: String,
    /// The media type.
    pub mime_type: String,
    /// Hints for the client that shows the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ImageContent {
    /// Returns an image from data that is in base64 already.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: data.into(), mime_type: mime_type.into(), ..Self::default() }
    }

    /// Returns an image from its bytes.
    pub fn from_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::new(encode_base64(bytes.as_ref()), mime_type)
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// When `data` is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, InvalidBase64> {
        decode_base64(&self.data)
    }
}

setters! {
    ImageContent {
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of an audio block (2025-03-26).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AudioContent {
    /// The bytes, in base64.
    pub data: String,
    /// The media type.
    pub mime_type: String,
    /// Hints for the client that plays the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl AudioContent {
    /// Sound from data that is in base64 already.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: data.into(), mime_type: mime_type.into(), ..Self::default() }
    }

    /// Sound from its bytes.
    pub fn from_bytes(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::new(encode_base64(bytes.as_ref()), mime_type)
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// When `data` is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, InvalidBase64> {
        decode_base64(&self.data)
    }
}

setters! {
    AudioContent {
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of a block that holds a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The contents of the resource.
    pub resource: ResourceContents,
    /// Hints for the client that shows the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl EmbeddedResource {
    /// Returns a block with these contents.
    #[must_use]
    pub fn new(resource: ResourceContents) -> Self {
        Self { resource, annotations: None, meta: None }
    }
}

setters! {
    EmbeddedResource {
        /// Sets hints for the client that shows the content.
        with_annotations = some annotations: Annotations;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The text is not base64 of the standard alphabet with padding (RFC 4648 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidBase64;

impl std::fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not base64 of the standard alphabet")
    }
}

impl std::error::Error for InvalidBase64 {}

pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, InvalidBase64> {
    STANDARD.decode(text).map_err(|_| InvalidBase64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_round_trips() {
        for json in [
            json!({"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 1}, "_meta": {"k": 1}}),
            json!({"type": "image", "data": "AAE=", "mimeType": "image/png"}),
            json!({"type": "audio", "data": "AAE=", "mimeType": "audio/wav"}),
            json!({"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3, "later": true}),
            json!({"type": "resource", "resource": {"uri": "file:///a", "text": "a"}}),
            json!({"type": "resource", "resource": {"uri": "file:///a", "blob": "AAE=", "mimeType": "x/y"}}),
            json!({"type": "hologram", "data": {"a": [1]}}),
        ] {
            let block: ContentBlock = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&block).unwrap(), json);
            assert_eq!(matches!(block, ContentBlock::Unknown(_)), json["type"] == "hologram");
        }
    }

    #[test]
    fn the_type_is_written_first() {
        assert_eq!(serde_json::to_string(&ContentBlock::text("a")).unwrap(), r#"{"type":"text","text":"a"}"#);
    }

    #[test]
    fn a_known_type_with_wrong_members_is_an_error_that_names_it() {
        for (json, expected) in [
            (json!({"text": "a"}), "content needs a `type`"),
            (json!({"type": 1}), "content needs a `type`"),
            (json!({"type": "text"}), "text content: missing field `text`"),
            (json!({"type": "image", "data": "AAE="}), "image content: missing field `mimeType`"),
            (json!({"type": "resource", "resource": {"uri": "a"}}), "resource content: "),
        ] {
            let error = serde_json::from_value::<ContentBlock>(json).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn bytes_are_encoded_as_base64_and_decoded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let image = ImageContent::from_bytes(bytes, "image/png");
            assert_eq!(image.data, text);
            assert_eq!(image.bytes().unwrap(), bytes.as_bytes());
        }
        let audio = AudioContent::from_bytes([0xfb, 0xff], "a/b");
        assert_eq!((audio.data.as_str(), audio.bytes().unwrap()), ("+/8=", vec![0xfb, 0xff]));
        assert_eq!(ImageContent::new("-_8=", "image/png").bytes(), Err(InvalidBase64));
        assert_eq!(ImageContent::new("Zg", "image/png").bytes(), Err(InvalidBase64));
    }

    #[test]
    fn unknown_audiences_are_dropped() {
        let read: Annotations =
            serde_json::from_value(json!({"audience": ["user", "robot"], "priority": 0.5})).unwrap();
        assert_eq!(read.audience, [Role::User]);
    }
}
