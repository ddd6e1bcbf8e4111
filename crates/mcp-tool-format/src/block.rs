//! Content blocks in the shapes of providers.

use serde_json::{Value, json};

use crate::{
    Provider,
    content::Part,
    media::{Media, MediaKind},
};

/// Returns the texts of parts, one below the other.
pub(crate) fn joined(parts: &[Part]) -> String {
    let texts: Vec<String> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Json(value) => Some(value.to_string()),
            Part::Media(_) => None,
        })
        .collect();
    texts.join("\n")
}

/// Returns the blocks of a message of the user. Ollama has no blocks.
pub(crate) fn blocks(provider: Provider, parts: &[Part]) -> Vec<Value> {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(words) => text(provider, words),
            Part::Json(value) => text(provider, &value.to_string()),
            Part::Media(part) => media(provider, part),
        })
        .collect()
}

/// Returns a block of text.
pub(crate) fn text(provider: Provider, text: &str) -> Value {
    match provider {
        Provider::Gemini | Provider::Bedrock => json!({ "text": text }),
        Provider::OpenAiResponses => json!({ "type": "input_text", "text": text }),
        _ => json!({ "type": "text", "text": text }),
    }
}

/// Returns a block of a medium.
pub(crate) fn media(provider: Provider, media: &Media) -> Value {
    let Media { kind, mime, data, label } = media;
    match (provider, kind) {
        (Provider::Anthropic, kind) => {
            let name = if *kind == MediaKind::Image { "image" } else { "document" };
            json!({ "type": name, "source": { "type": "base64", "media_type": mime, "data": data } })
        }
        (Provider::OpenAiChat, MediaKind::Pdf) => {
            json!({ "type": "file", "file": { "filename": "document.pdf", "file_data": media.url() } })
        }
        (Provider::OpenAiResponses, MediaKind::Pdf) => {
            json!({ "type": "input_file", "filename": "document.pdf", "file_data": media.url() })
        }
        (Provider::OpenAiResponses, _) => json!({ "type": "input_image", "image_url": media.url() }),
        (Provider::Gemini, _) => json!({ "inlineData": { "mimeType": mime, "data": data } }),
        (Provider::Bedrock, MediaKind::Pdf) => {
            // The names of all documents of a request differ. A name has letters, digits, spaces and hyphens.
            json!({ "document": { "format": "pdf", "name": format!("document {label}"), "source": { "bytes": data } } })
        }
        (Provider::Bedrock, _) => {
            let format = mime.strip_prefix("image/").unwrap_or(mime);
            json!({ "image": { "format": format, "source": { "bytes": data } } })
        }
        (Provider::OpenAiChat | Provider::Mistral | Provider::Ollama, _) => {
            json!({ "type": "image_url", "image_url": { "url": media.url() } })
        }
    }
}

/// Returns a message of the user.
pub(crate) fn user(provider: Provider, parts: &[Part]) -> Value {
    let has_media = parts.iter().any(|part| matches!(part, Part::Media(_)));
    match provider {
        Provider::Gemini => json!({ "role": "user", "parts": blocks(provider, parts) }),
        Provider::Ollama => {
            let mut message = json!({ "role": "user", "content": joined(parts) });
            if has_media {
                let images = parts.iter().filter_map(|part| match part {
                    Part::Media(media) => Some(media.data.as_str().into()),
                    _ => None,
                });
                message["images"] = images.collect::<Vec<Value>>().into();
            }
            message
        }
        Provider::OpenAiChat | Provider::Mistral if !has_media => json!({ "role": "user", "content": joined(parts) }),
        _ => json!({ "role": "user", "content": blocks(provider, parts) }),
    }
}

/// Returns a message of the model. It contains text only.
pub(crate) fn assistant(provider: Provider, parts: &[Part]) -> Value {
    match provider {
        Provider::Gemini => json!({ "role": "model", "parts": blocks(provider, parts) }),
        Provider::Anthropic | Provider::Bedrock => {
            json!({ "role": "assistant", "content": blocks(provider, parts) })
        }
        _ => json!({ "role": "assistant", "content": joined(parts) }),
    }
}
