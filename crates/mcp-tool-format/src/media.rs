//! The media that a provider accepts in messages, as data.

use crate::Provider;

/// The media that a provider accepts in the messages of a request.
///
/// The values hold for models that accept media at all; see
/// [`ContentOptions::without_media`](crate::ContentOptions::without_media). The source of each value is a comment in this
/// crate.
///
/// ```
/// use mcp_tool_format::{MediaRules, Provider};
///
/// assert!(MediaRules::of(Provider::Anthropic).in_results);
/// assert!(!MediaRules::of(Provider::OpenAiChat).in_results);
/// assert!(!MediaRules::of(Provider::Gemini).images.contains(&"image/gif"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaRules {
    /// The accepted media types of images.
    pub images: &'static [&'static str],
    /// The largest image, in characters of base64.
    pub max_image: Option<usize>,
    /// Whether PDF documents are accepted.
    pub pdf: bool,
    /// The largest document, in characters of base64.
    pub max_document: Option<usize>,
    /// The largest number of images in the messages of one conversion: those of all results of a turn, of a prompt, or of a
    /// resource. Images of earlier turns are not counted.
    pub max_images: usize,
    /// The largest number of documents and sounds in the messages of one conversion.
    pub max_documents: usize,
    /// The accepted media types of sound.
    pub audio: &'static [&'static str],
    /// Whether the result of a tool can contain media. Otherwise a message of the user after the results contains them.
    pub in_results: bool,
}

const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The limit where no source states a number. It bounds the work and the size of a request.
const MAX_COUNT: usize = 100;

/// anthropic-sdk-python, `types/tool_result_block_param.py` and `types/base64_image_source_param.py`. "image exceeds 5 MB
/// maximum: … bytes > 5242880 bytes" (claude-code#19631). Requests have at most 32 MB, and at most 100 images (measured in
/// earendil-works/pi#120). Sound is not accepted.
const ANTHROPIC: MediaRules = MediaRules {
    images: IMAGES,
    max_image: Some(5_242_880),
    pdf: true,
    max_document: Some(30_000_000),
    max_images: 100,
    max_documents: MAX_COUNT,
    audio: &[],
    in_results: true,
};

/// Messages of the role `tool` contain text only (openai-python, `chat_completion_tool_message_param.py`). Messages of the
/// user contain images and files. No source states one limit for all models: the limit of Gemini is used. Sound is accepted
/// by a few models only. Requests have at most 500 images (measured in earendil-works/pi#120).
const CHAT: MediaRules = MediaRules {
    images: IMAGES,
    max_image: Some(20_000_000),
    pdf: true,
    max_document: Some(20_000_000),
    max_images: 500,
    max_documents: MAX_COUNT,
    audio: &[],
    in_results: false,
};

/// `function_call_output.output` is a text or a list of `input_text`, `input_image` and `input_file` (openai-python,
/// `response_input_item_param.py`).
const RESPONSES: MediaRules = MediaRules { in_results: true, ..CHAT };

/// Requests with inline data have at most 20 MB (ai.google.dev, image understanding). GIF is not in the list of images. The
/// list of sounds is that of the page about audio. `functionResponse.parts` is accepted by Gemini 3 only, and a part beside
/// the responses of a turn is refused (gemini-cli#16137, bifrost#4202). Requests have at most 3,000 images (firebase.google.com,
/// input file requirements). The same number is used for documents and sounds.
const GEMINI: MediaRules = MediaRules {
    images: &["image/png", "image/jpeg", "image/webp"],
    max_image: Some(20_000_000),
    pdf: true,
    max_document: Some(20_000_000),
    max_images: 3_000,
    max_documents: 3_000,
    audio: &["audio/wav", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"],
    in_results: false,
};

/// A message has at most 20 images of 3.75 MB and 5 documents of 4.5 MB (API reference of Converse, `Message`). Images and documents are accepted by
/// Claude and Nova.
const BEDROCK: MediaRules = MediaRules {
    images: IMAGES,
    max_image: Some(5_242_880),
    pdf: true,
    max_document: Some(6_291_456),
    max_images: 20,
    max_documents: 5,
    audio: &[],
    in_results: true,
};

/// "Image content must be a URL (starting with 'https') or base64 encoded image" (neuron-ai#596). No source states that a
/// message of the role `tool` accepts images, or that a chat accepts a document in base64. 10 MB for an image
/// (docs.mistral.ai, vision). Requests have at most 8 images (measured in earendil-works/pi#120).
const MISTRAL: MediaRules = MediaRules {
    images: IMAGES,
    max_image: Some(10_000_000),
    pdf: false,
    max_document: None,
    max_images: 8,
    max_documents: 0,
    audio: &[],
    in_results: false,
};

/// `images` of a message is a list of texts in base64 (ollama, `api/types.go`). The runtime decodes PNG, JPEG and WebP.
const OLLAMA: MediaRules = MediaRules {
    images: &["image/png", "image/jpeg", "image/webp"],
    max_image: None,
    pdf: false,
    max_document: None,
    max_images: MAX_COUNT,
    max_documents: 0,
    audio: &[],
    in_results: false,
};

impl MediaRules {
    /// Returns the rules of a provider.
    #[must_use]
    pub fn of(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic => ANTHROPIC,
            Provider::OpenAiChat => CHAT,
            Provider::OpenAiResponses => RESPONSES,
            Provider::Gemini => GEMINI,
            Provider::Bedrock => BEDROCK,
            Provider::Mistral => MISTRAL,
            Provider::Ollama => OLLAMA,
        }
    }
}

/// The media that a conversion has written.
#[derive(Debug, Default)]
pub(crate) struct MediaCount {
    images: usize,
    documents: usize,
}

impl MediaCount {
    /// Counts another medium. The error is the largest number of media of this kind.
    pub(crate) fn add(&mut self, kind: MediaKind, rules: &MediaRules) -> Result<(), usize> {
        let (count, max) = match kind {
            MediaKind::Image => (&mut self.images, rules.max_images),
            MediaKind::Pdf | MediaKind::Audio => (&mut self.documents, rules.max_documents),
        };
        if *count >= max {
            return Err(max);
        }
        *count += 1;
        Ok(())
    }
}

/// A medium that the provider accepts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Media {
    pub(crate) kind: MediaKind,
    pub(crate) mime: String,
    /// The bytes in base64, of the standard alphabet.
    pub(crate) data: String,
    /// Letters and digits that depend on the place of the medium and on its bytes.
    pub(crate) label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaKind {
    Image,
    Pdf,
    Audio,
}

impl MediaKind {
    /// Returns the noun for a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Pdf => "document",
            Self::Audio => "sound",
        }
    }
}

impl Media {
    /// Returns the bytes as a `data:` URL.
    pub(crate) fn url(&self) -> String {
        format!("data:{};base64,{}", self.mime, self.data)
    }
}

/// Returns the media type of an image by its first bytes. Providers reject a type that differs from the bytes.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
