//! The server half of the Model Context Protocol without a network: registries, typed handlers, dispatch, eras.
//!
//! Handlers are plain async functions ([`tool`], [`resource`], [`template`], [`prompt`]); [`Server::builder`] collects
//! them; a [`Server`] serves every revision of the protocol over stdio ([`Server::serve_stdio`]) or any
//! [`Transport`](mcp_transport::Transport). HTTP is in `mcp-server-http`; applications depend on `mcp-server`, which
//! re-exports both.

mod builder;
mod caller;
mod capabilities;
#[cfg(any(feature = "fs", feature = "skills"))]
mod content;
mod context;
mod data;
pub mod engine;
mod handler;
mod heard;
mod hints;
mod inputs;
mod layers;
mod limits;
#[cfg(feature = "log-layer")]
mod log_layer;
mod notices;
mod records;
mod registry;
mod server;
mod session;
#[cfg(feature = "skills")]
mod skills;
mod tasks;
mod trace;

pub use self::{
    builder::ServerBuilder,
    caller::Caller,
    context::{Cancelled, Completing, Context, Extensions, Progress, ResourceUri},
    data::Server,
    handler::{
        Args, Arguments, Audio, Blob, Call, CallParts, CompletionKind, Description, Extension, FromCall, FromCallParts,
        FromRef, Handler, Image, IntoContent, IntoOutput, Json, Kind, PromptKind, RawArgs, ResourceKind, Returns,
        State, StringArgument, Structured, ToolError, ToolKind, Visible, WithMeta,
    },
    heard::ClientNotification,
    hints::CacheHint,
    inputs::{InputError, InputLimits, Inputs, StateKeys},
    layers::{Handlers, Invocation, Outcome},
    limits::Limits,
    registry::{
        MessageTemplate, Parameter, ParameterType, PromptRoute, RegistrationError, ResourceRoute, TemplateRoute,
        ToolRoute, prompt, prompt_template, resource, template, tool,
    },
    server::{Notices, Prompts, ResourceTemplates, Resources, ServeError, ShuttingDown, Tools},
    session::{Peer, Session},
    tasks::{NewTask, TaskHandle, TaskLimits, TaskPolicy, Tasks},
    trace::Propagate,
};

#[cfg(any(feature = "fs", feature = "skills"))]
pub use self::content::ContentProblem;
#[cfg(feature = "fs")]
pub use self::content::ResourceDir;
#[cfg(feature = "log-layer")]
pub use self::log_layer::LogRecords;
#[cfg(feature = "skills")]
pub use self::skills::Skill;

pub use mcp_protocol::TaskSupport;
