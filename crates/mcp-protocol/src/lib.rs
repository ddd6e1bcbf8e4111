//! Wire types of every revision of the Model Context Protocol: no I/O, no runtime.
//!
//! One superset of types serves all five revisions (2024-11-05 … 2026-07-28); [`ProtocolVersion`] names what differs.
//! Reading is lenient (`null` for absent, integral floats for sizes, unknown members kept where they must be passed
//! on), writing is strict. Values are built in the form of the newest revision; [`Shape`] gives them that of an older
//! one:
//!
//! ```
//! use mcp_protocol::{CallToolParams, CallToolResult, Message, ProtocolVersion, Shape, jsonrpc};
//!
//! let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
//! let Message::Request(request) = Message::parse(bytes)? else { panic!("a request") };
//! let params: CallToolParams = jsonrpc::decode_params(&request.method, request.params)?;
//! assert_eq!(params.name, "add");
//!
//! let mut result = CallToolResult::structured(serde_json::json!({ "sum": 3 }));
//! result.shape(ProtocolVersion::V2024_11_05);
//! assert_eq!(
//!     jsonrpc::response(&request.id, &result)?,
//!     br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"sum\":3}"}]}}"#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod macros;

pub mod auth;
mod capabilities;
mod completion;
mod content;
mod decode_error;
mod elicitation;
mod error;
mod error_chain;
mod excerpt;
mod implementation;
mod input_request;
mod json;
pub mod jsonrpc;
mod lifecycle;
mod logging;
pub mod meta;
pub mod method;
pub mod mirror;
pub mod notification;
mod progress;
mod prompt;
mod resource;
mod result;
mod roots;
mod rounded;
mod sampling;
mod sampling_tools;
mod shape;
pub mod skills;
mod subscriptions;
pub mod tasks;
pub mod timestamp;
mod tool;
mod version;

pub use self::{
    auth::{Challenge, Principal, ProtectedResourceMetadata},
    capabilities::{
        ClientCapabilities, ElicitationCapability, PromptsCapability, ResourcesCapability, RootsCapability,
        SamplingCapability, ServerCapabilities, TasksCapability, ToolsCapability,
    },
    completion::{
        CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    },
    content::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, ImageContent, InvalidBase64, Role, TextContent,
    },
    elicitation::{
        ElicitAction, ElicitParams, ElicitResult, ElicitationCompleteParams, FormElicitParams, UrlElicitParams,
    },
    error::{ErrorCode, RpcError},
    error_chain::ErrorChain,
    excerpt::{Excerpt, start_of},
    implementation::{Icon, IconTheme, Implementation},
    input_request::{InputRequest, InputRequests, InputRequiredResult},
    json::{
        JsonObject,
        raw::{MemberFinder, RawMembers, UniqueNames},
    },
    jsonrpc::{Message, RequestId},
    lifecycle::{DiscoverResult, EmptyParams, EmptyResult, InitializeParams, InitializeResult},
    logging::{LoggingLevel, LoggingMessageParams, SetLevelParams, UnknownLevel},
    meta::{Meta, RequestMeta, RequestMetaError, TraceContext},
    method::{Method, NotificationMethod},
    progress::{CancelledParams, ProgressParams, ProgressToken},
    prompt::{GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage},
    resource::{
        CacheScope, ListResourceTemplatesResult, ListResourcesResult, PaginatedParams, ReadResourceParams,
        ReadResourceResult, Resource, ResourceBody, ResourceContents, ResourceTemplate, SubscribeParams,
    },
    result::{ResultPayload, ResultType, Typed},
    roots::{ListRootsResult, Root},
    rounded::Rounded,
    sampling::{
        CreateMessageParams, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingBlock,
        SamplingContent, SamplingMessage, ToolChoice, ToolChoiceMode, ToolResultContent, ToolUseContent,
    },
    sampling_tools::ConversationError,
    shape::{RawShape, Shape, shape_object, shape_params, shape_raw_definition, shape_raw_result},
    subscriptions::{
        ListenParams, ListenResult, ResourceUpdatedParams, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    },
    tool::{CallToolParams, CallToolResult, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution},
    version::{ProtocolVersion, UnknownVersion},
};
