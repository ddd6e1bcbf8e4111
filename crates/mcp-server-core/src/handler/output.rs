//! The return types of handlers, and their form on the wire.

use std::borrow::Cow;

use mcp_protocol::{
    CallToolResult, Completion, ContentBlock, EmbeddedResource, GetPromptResult, Meta, PromptMessage,
    ReadResourceResult, Resource, ResourceContents, Role,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    CompletionKind, Description, IntoOutput, PromptKind, ResourceKind, Returns, ToolError, ToolKind, args::schema_of,
};

/// Returns a typed value as structured content, and as JSON text for clients that read only text.
///
/// The JSON Schema of the type becomes the output schema of the tool. A resource returns the value as JSON text.
///
/// ```
/// use mcp_server_core::{Json, ToolRoute, tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Size { width: u32, height: u32 }
///
/// let route: ToolRoute = tool("size", async || Json(Size { width: 640, height: 480 }));
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be built in a handler's last line")]
pub struct Json<T>(pub T);

/// Returns a typed value as structured content, together with content blocks.
///
/// ```
/// use mcp_server_core::{Image, IntoContent as _, Structured, ToolRoute, tool};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Size { width: u32, height: u32 }
///
/// let route: ToolRoute = tool("shot", async || Structured {
///     data: Size { width: 1, height: 1 },
///     content: vec![Image::png(b"...".to_vec()).into_content()],
/// });
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be built in a handler's last line")]
pub struct Structured<T> {
    /// The structured content.
    pub data: T,
    /// The content for clients that do not read structured content.
    pub content: Vec<ContentBlock>,
}

/// A tool output together with `_meta`.
///
/// ```
/// use mcp_protocol::Meta;
/// use mcp_server_core::{ToolRoute, WithMeta, tool};
///
/// let route: ToolRoute = tool("greet", async || WithMeta("Hello!", Meta::default()));
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "made to be built in a handler's last line")]
pub struct WithMeta<T>(pub T, pub Meta);

/// The bytes of an image. The server encodes them as base64.
///
/// # Example
/// ```
/// use mcp_server_core::{Image, ToolRoute, tool};
///
/// let route: ToolRoute = tool("show", async || ("A dot:", Image::png(b"...".to_vec()), Image::new(b"...".to_vec(), "image/webp")));
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Image {
    /// The bytes, as in a file.
    pub bytes: Vec<u8>,
    /// The media type, for example `image/png`.
    pub mime_type: String,
}

impl Image {
    /// Creates an image of a media type.
    ///
    /// See the [example](Self#example).
    pub fn new(bytes: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Self { bytes: bytes.into(), mime_type: mime_type.into() }
    }

    /// Creates a PNG image.
    ///
    /// See the [example](Self#example).
    pub fn png(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(bytes, "image/png")
    }
}

/// The bytes of a sound. The server encodes them as base64.
///
/// # Example
/// ```
/// use mcp_server_core::{Audio, ToolRoute, tool};
///
/// let route: ToolRoute = tool("show", async || Audio::new(b"...".to_vec(), "audio/wav"));
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Audio {
    /// The bytes, as in a file.
    pub bytes: Vec<u8>,
    /// The media type, for example `audio/wav`.
    pub mime_type: String,
}

impl Audio {
    /// Creates a sound of a media type.
    ///
    /// See the [example](Self#example).
    pub fn new(bytes: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Self { bytes: bytes.into(), mime_type: mime_type.into() }
    }
}

/// Binary contents of a resource. The server encodes them as base64.
///
/// # Example
/// ```
/// use mcp_server_core::{Blob, ResourceRoute, resource};
///
/// let route: ResourceRoute =
///     resource("docs://guide", async || Blob::new(b"%PDF-".to_vec()).mime_type("application/pdf"));
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Blob {
    /// The bytes, as in a file.
    pub bytes: Vec<u8>,
    /// The media type, for example `application/pdf`. With `None`, it is the type of the registered resource.
    pub mime_type: Option<String>,
}

impl Blob {
    /// Creates contents with the media type of the registered resource.
    ///
    /// See the [example](Self#example).
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), mime_type: None }
    }

    /// Sets the media type.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// A value that converts into one content block.
///
/// ```
/// use mcp_protocol::ContentBlock;
/// use mcp_server_core::{IntoContent, ToolRoute, tool};
///
/// struct Celsius(f64);
///
/// impl IntoContent for Celsius {
///     fn into_content(self) -> ContentBlock {
///         ContentBlock::text(format!("{} °C", self.0))
///     }
/// }
///
/// let route: ToolRoute = tool("temperatures", async || vec![Celsius(21.5).into_content()]);
/// # let _ = route;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert into a content block",
    label = "`{Self}` is not content",
    note = "content blocks are text, `serde_json::Value`, `Image`, `Audio`, `ResourceContents`, `Resource` (a link) and `ContentBlock`; for a list of other values, return `Json<T>`",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait IntoContent {
    /// Converts the value.
    fn into_content(self) -> ContentBlock;
}

impl IntoContent for ContentBlock {
    fn into_content(self) -> ContentBlock {
        self
    }
}

impl IntoContent for String {
    fn into_content(self) -> ContentBlock {
        ContentBlock::text(self)
    }
}

impl IntoContent for &str {
    fn into_content(self) -> ContentBlock {
        ContentBlock::text(self)
    }
}

impl IntoContent for Cow<'_, str> {
    fn into_content(self) -> ContentBlock {
        ContentBlock::text(self)
    }
}

impl IntoContent for Image {
    fn into_content(self) -> ContentBlock {
        ContentBlock::image(&self.bytes, self.mime_type)
    }
}

impl IntoContent for Audio {
    fn into_content(self) -> ContentBlock {
        ContentBlock::audio(&self.bytes, self.mime_type)
    }
}

/// Contents of a resource, embedded.
impl IntoContent for ResourceContents {
    fn into_content(self) -> ContentBlock {
        ContentBlock::Resource(EmbeddedResource::new(self))
    }
}

/// A link to a resource.
impl IntoContent for Resource {
    fn into_content(self) -> ContentBlock {
        ContentBlock::ResourceLink(Box::new(self))
    }
}

/// A JSON value, as its text.
impl IntoContent for Value {
    fn into_content(self) -> ContentBlock {
        ContentBlock::text(self.to_string())
    }
}

macro_rules! one_block {
    ($($type:ty),*) => {$(
        impl IntoOutput<ToolKind> for $type {
            fn describe(description: &mut Description) {
                description.returns = Returns::Content;
            }

            fn into_output(self) -> Result<CallToolResult, ToolError> {
                Ok(CallToolResult::new(vec![self.into_content()]))
            }
        }
    )*};
}

one_block!(ContentBlock, String, &'static str, Cow<'static, str>, Image, Audio, ResourceContents, Resource);

/// The JSON text. It is structured content as well if the tool has an output schema
/// ([`ToolRoute::output_schema`](crate::ToolRoute::output_schema)).
impl IntoOutput<ToolKind> for Value {
    fn describe(description: &mut Description) {
        description.returns = Returns::Value;
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new(vec![self.into_content()]))
    }
}

impl IntoOutput<ToolKind> for () {
    fn describe(description: &mut Description) {
        description.returns = Returns::Content;
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new(vec![]))
    }
}

impl<T: IntoContent> IntoOutput<ToolKind> for Vec<T> {
    fn describe(description: &mut Description) {
        description.returns = Returns::Content;
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        Ok(CallToolResult::new(self.into_iter().map(IntoContent::into_content).collect()))
    }
}

macro_rules! several_blocks {
    ($($name:ident),*) => {
        impl<$($name: IntoContent),*> IntoOutput<ToolKind> for ($($name,)*) {
            fn describe(description: &mut Description) {
                description.returns = Returns::Content;
            }

            #[expect(non_snake_case, reason = "the type parameters name the values as well")]
            fn into_output(self) -> Result<CallToolResult, ToolError> {
                let ($($name,)*) = self;
                Ok(CallToolResult::new(vec![$($name.into_content()),*]))
            }
        }
    };
}

several_blocks!(A, B);
several_blocks!(A, B, C);
several_blocks!(A, B, C, D);

impl IntoOutput<ToolKind> for CallToolResult {
    fn into_output(self) -> Result<CallToolResult, ToolError> {
        Ok(self)
    }
}

impl<T: Serialize + JsonSchema> IntoOutput<ToolKind> for Json<T> {
    fn describe(description: &mut Description) {
        description.output = Some(schema_of::<T>().0);
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        let data = serde_json::to_value(self.0)?;
        let mut result = CallToolResult::new(vec![ContentBlock::text(data.to_string())]);
        result.structured_content = Some(data);
        Ok(result)
    }
}

impl<T: Serialize + JsonSchema> IntoOutput<ToolKind> for Structured<T> {
    fn describe(description: &mut Description) {
        description.output = Some(schema_of::<T>().0);
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        let mut result = CallToolResult::new(self.content);
        result.structured_content = Some(serde_json::to_value(self.data)?);
        Ok(result)
    }
}

impl<T: IntoOutput<ToolKind>> IntoOutput<ToolKind> for WithMeta<T> {
    fn describe(description: &mut Description) {
        T::describe(description);
    }

    fn into_output(self) -> Result<CallToolResult, ToolError> {
        let mut result = self.0.into_output()?;
        if !self.1.is_empty() {
            result.meta = Some(self.1);
        }
        Ok(result)
    }
}

/// The server fills in an empty URI with the URI of the request.
impl IntoOutput<ResourceKind> for ResourceContents {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(ReadResourceResult::new(vec![self]))
    }
}

impl IntoOutput<ResourceKind> for Vec<ResourceContents> {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(ReadResourceResult::new(self))
    }
}

impl IntoOutput<ResourceKind> for ReadResourceResult {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(self)
    }
}

impl IntoOutput<ResourceKind> for String {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("", self)]))
    }
}

impl IntoOutput<ResourceKind> for &'static str {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("", self)]))
    }
}

impl IntoOutput<ResourceKind> for Blob {
    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        let mut contents = ResourceContents::blob("", &self.bytes);
        contents.mime_type = self.mime_type;
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

impl IntoOutput<ResourceKind> for Value {
    fn describe(description: &mut Description) {
        <Json<Value> as IntoOutput<ResourceKind>>::describe(description);
    }

    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        IntoOutput::<ResourceKind>::into_output(Json(self))
    }
}

/// The media type is `application/json`, unless the resource is registered with another.
impl<T: Serialize> IntoOutput<ResourceKind> for Json<T> {
    fn describe(description: &mut Description) {
        description.mime_type = Some("application/json".into());
    }

    fn into_output(self) -> Result<ReadResourceResult, ToolError> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("", serde_json::to_string(&self.0)?)]))
    }
}

/// One message of the user.
impl IntoOutput<PromptKind> for String {
    fn into_output(self) -> Result<GetPromptResult, ToolError> {
        Ok(GetPromptResult::new(vec![PromptMessage::new(Role::User, ContentBlock::text(self))]))
    }
}

/// One message of the user.
impl IntoOutput<PromptKind> for &'static str {
    fn into_output(self) -> Result<GetPromptResult, ToolError> {
        IntoOutput::<PromptKind>::into_output(self.to_owned())
    }
}

impl IntoOutput<PromptKind> for PromptMessage {
    fn into_output(self) -> Result<GetPromptResult, ToolError> {
        Ok(GetPromptResult::new(vec![self]))
    }
}

impl IntoOutput<PromptKind> for Vec<PromptMessage> {
    fn into_output(self) -> Result<GetPromptResult, ToolError> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoOutput<PromptKind> for GetPromptResult {
    fn into_output(self) -> Result<GetPromptResult, ToolError> {
        Ok(self)
    }
}

impl<T: Into<String>> IntoOutput<CompletionKind> for Vec<T> {
    fn into_output(self) -> Result<Completion, ToolError> {
        Ok(Completion::new(self.into_iter().map(Into::into)))
    }
}

impl IntoOutput<CompletionKind> for Completion {
    fn into_output(self) -> Result<Completion, ToolError> {
        Ok(self)
    }
}
