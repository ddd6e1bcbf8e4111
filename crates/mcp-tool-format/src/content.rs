//! Content blocks of MCP as the parts of a message.

use mcp_protocol::{ContentBlock, Resource, ResourceBody, ResourceContents, start_of};
use serde_json::Value;

use crate::{
    ContentOptions, DiagnosticKind as Kind, MediaRules, Provider,
    diagnostic::Log,
    media::{Media, MediaCount, MediaKind, image_type},
    name, text,
};

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// Structured content.
    Json(Value),
    Media(Media),
}

/// Reads content blocks for one provider.
pub(crate) struct Reader<'a> {
    provider: Provider,
    media: MediaRules,
    with_media: bool,
    /// The id of the call. Empty for prompts and resources.
    origin: &'a str,
    pub(crate) log: &'a mut Log,
    /// The media of the whole conversion.
    count: &'a mut MediaCount,
    pub(crate) parts: Vec<Part>,
    /// Whether a part is more than a note about content that was left out.
    pub(crate) useful: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        provider: Provider,
        origin: &'a str,
        options: &ContentOptions,
        log: &'a mut Log,
        count: &'a mut MediaCount,
    ) -> Self {
        let media = MediaRules::of(provider);
        Self { provider, media, with_media: options.media, origin, log, count, parts: Vec::new(), useful: false }
    }

    pub(crate) fn block(&mut self, block: &ContentBlock, pointer: &str) {
        match block {
            ContentBlock::Text(block) => self.text(&block.text),
            ContentBlock::Image(image) => self.media(&image.mime_type, &image.data, pointer),
            ContentBlock::Audio(audio) => self.media(&audio.mime_type, &audio.data, pointer),
            ContentBlock::ResourceLink(resource) => self.text(&link(resource)),
            ContentBlock::Resource(block) => self.resource(&block.resource, pointer),
            ContentBlock::Unknown(members) => {
                let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
                let kind = text::excerpt(kind, 40);
                self.note(Kind::ContentOmitted, pointer, format!("a block of the unknown type {kind} was left out"));
            }
            _ => self.note(Kind::ContentOmitted, pointer, "a block was left out".to_owned()),
        }
    }

    pub(crate) fn resource(&mut self, contents: &ResourceContents, pointer: &str) {
        let mime = contents.mime_type.as_deref().unwrap_or_default();
        match &contents.body {
            ResourceBody::Text(text) => self.text(&format!("Resource {}:\n{text}", contents.uri)),
            ResourceBody::Blob(data) => {
                let is_text = mime.starts_with("text/") || matches!(essence(mime).as_str(), "application/json");
                let decoded = if is_text { contents.body.bytes().ok() } else { None };
                match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(text) => self.text(&format!("Resource {}:\n{text}", contents.uri)),
                    None => {
                        self.text(&format!("Resource {}:", contents.uri));
                        self.media(mime, data, pointer);
                    }
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        // Anthropic and Bedrock reject texts without a character that prints.
        if !text.trim().is_empty() {
            self.useful = true;
            self.parts.push(Part::Text(text.to_owned()));
        }
    }

    /// Adds a note for the model about content that was left out.
    fn note(&mut self, kind: Kind, pointer: &str, message: String) {
        self.parts.push(Part::Text(format!("[{message}]")));
        self.log.add(kind, pointer, message);
    }

    fn media(&mut self, mime: &str, data: &str, pointer: &str) {
        match self.accepted(mime, data, pointer) {
            Ok(media) => {
                self.useful = true;
                self.parts.push(Part::Media(media));
            }
            Err(reason) => {
                let mime = if mime.is_empty() { "unknown type".to_owned() } else { text::excerpt(mime, 60) };
                self.note(Kind::MediaOmitted, pointer, format!("content ({mime}) was left out: {reason}"));
            }
        }
    }

    /// Returns a medium that the provider accepts. The error is a reason.
    fn accepted(&mut self, mime: &str, data: &str, pointer: &str) -> Result<Media, String> {
        if !self.with_media {
            return Err("the model accepts text only".to_owned());
        }
        // Some servers write a `data:` URL.
        let data = data.strip_prefix("data:").and_then(|url| url.split_once(";base64,")).map_or(data, |(_, data)| data);
        let mime = essence(mime);
        let bytes = ResourceBody::Blob(data.to_owned()).bytes().map_err(|_| "the data is not base64".to_owned())?;
        if bytes.is_empty() {
            return Err("the data is empty".to_owned());
        }
        let (kind, mime, max) = match mime.as_str() {
            image if image.starts_with("image/") => {
                let found = image_type(&bytes).ok_or("the image has an unknown format")?;
                if !self.media.images.contains(&found) {
                    return Err(format!("{} does not accept {found}", self.provider));
                }
                (MediaKind::Image, found, self.media.max_image)
            }
            "application/pdf" if self.media.pdf => (MediaKind::Pdf, "application/pdf", self.media.max_document),
            audio => {
                let audio = match audio {
                    "audio/mpeg" | "audio/mpeg3" => "audio/mp3",
                    "audio/x-wav" | "audio/wave" => "audio/wav",
                    other => other,
                };
                let found = self.media.audio.iter().find(|known| **known == audio);
                let found = found.ok_or_else(|| format!("{} does not accept it", self.provider))?;
                (MediaKind::Audio, *found, self.media.max_document)
            }
        };
        if max.is_some_and(|max| data.len() > max) {
            return Err(format!("{} bytes are too many for {}", bytes.len(), self.provider));
        }
        if let Err(max) = self.count.add(kind, &self.media) {
            return Err(format!("{} accepts {max} of this kind in a message", self.provider));
        }
        let label = name::base32(&name::digest(&[self.origin, pointer, data]), 12);
        Ok(Media { kind, mime: mime.to_owned(), data: data.to_owned(), label })
    }
}

/// Returns a media type without parameters, in lower case.
fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns a resource link as one line.
fn link(resource: &Resource) -> String {
    let title = resource.title.as_deref().unwrap_or(&resource.name);
    let mut line = format!("Resource {}: {title}", resource.uri);
    if let Some(mime) = &resource.mime_type {
        line.push_str(&format!(" ({mime})"));
    }
    if let Some(description) = &resource.description {
        line.push_str(&format!(". {description}"));
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text beyond the limit of one result.
///
/// The host offers it as a resource under the URI, for example to a tool that reads resources.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rest {
    /// The URI in the text for the model. It depends on the text only.
    pub uri: String,
    /// The rest of the text.
    pub text: String,
}

/// The room for the note about a cut, for separators and for the mark of an error.
const NOTE: usize = 400;

/// Limits the text of the parts. Media stay.
pub(crate) fn limit(parts: &mut Vec<Part>, options: &ContentOptions, pointer: &str, log: &mut Log) -> Option<Rest> {
    let size = |part: &Part| match part {
        Part::Text(text) => text.len() + 1,
        // The text of structured content is as long as its JSON.
        Part::Json(value) => value.to_string().len() + 1,
        Part::Media(_) => NOTE / 4,
    };
    let total: usize = parts.iter().map(size).sum();
    if total + NOTE <= options.max_text {
        return None;
    }
    let mut room = options.max_text.saturating_sub(NOTE);
    let mut rest = String::new();
    let mut kept = Vec::with_capacity(parts.len() + 1);
    for part in std::mem::take(parts) {
        let text = match part {
            Part::Media(_) => {
                room = room.saturating_sub(NOTE / 4);
                kept.push(part);
                continue;
            }
            Part::Text(text) => text,
            Part::Json(value) => value.to_string(),
        };
        if rest.is_empty() && text.len() < room {
            room -= text.len() + 1;
            kept.push(Part::Text(text));
            continue;
        }
        let at = if rest.is_empty() { cut_at(&text, room) } else { 0 };
        if !text[..at].trim().is_empty() {
            kept.push(Part::Text(text[..at].to_owned()));
        }
        room = 0;
        if !rest.is_empty() {
            rest.push('\n');
        }
        rest.push_str(&text[at..]);
    }
    *parts = kept;
    if rest.is_empty() {
        return None;
    }
    let cut = rest.len();
    let (note, rest) = match &options.rest_uri {
        Some(prefix) => {
            let uri = format!("{prefix}{}", name::base32(&name::digest(&[&rest]), 26));
            let note = format!("[{cut} bytes of text were left out. Read on in the resource {uri}]");
            (note, Some(Rest { uri, text: rest }))
        }
        None => (format!("[{cut} bytes of text were left out.]"), None),
    };
    parts.push(Part::Text(note));
    log.add(Kind::TextCut, pointer, format!("{cut} bytes of text were left out"));
    rest
}

/// Returns the place of a cut: after a line if one ends near the limit, else after a character.
fn cut_at(text: &str, max: usize) -> usize {
    let start = start_of(text, max);
    match start.rfind('\n') {
        Some(line) if start.len() - line < 1_000 => line + 1,
        _ => start.len(),
    }
}
