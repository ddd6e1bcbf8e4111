//! The server half of the Model Context Protocol without a network: registries, typed handlers, dispatch, eras.
//!
//! Handlers are plain async functions ([`tool`], [`resource`], [`template`], [`prompt`]); [`Server::builder`] collects
//! them; a [`Server`] serves every revision of the protocol over stdio ([`Server::serve_stdio`]) or any
//! [`Transport`](mcp_transport::Transport). HTTP is in `mcp-server-http`; applications depend on `mcp-server`, which
//! re-exports both.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod builder;
mod cache_hint;
mod capabilities;
mod change;
pub mod check;
mod context;
mod data;
#[doc(hidden)]
pub mod engine;
mod error;
pub mod extension;
mod handler;
mod inputs;
mod json;
mod layers;
mod limits;
mod log_guard;
#[cfg(feature = "log-layer")]
mod log_layer;
mod node;
mod publisher;
mod random;
mod registry;
mod request;
mod server;
mod session;
mod shutdown;
pub mod source;
mod store;
mod tasks;
mod trace;

pub use self::{
    builder::ServerBuilder,
    cache_hint::CacheHint,
    context::{Cancelled, Completing, Context, Extensions, Progress, ProgressNumber, ResourceUri},
    data::Server,
    error::{InputError, ToolError, Visible},
    handler::{
        Args, Arguments, Audio, Blob, CallParts, CompletionKind, Description, Extension, FromCall, FromCallParts,
        FromRef, Handler, HandlerCall, Image, Inputs, IntoContent, IntoOutput, Json, Kind, PromptKind, RawArgs,
        ResourceKind, Returns, State, StringArgument, Structured, ToolKind, WithMeta,
    },
    inputs::{InputLimits, InputRound, StateBinding, StateKeys},
    layers::{FromFn, FromFnService, HandlerService, Invocation, Next, Outcome, RateLimit, RateLimited, from_fn},
    limits::Limits,
    node::NodeLimits,
    registry::{
        MessageTemplate, Parameter, ParameterType, PromptRoute, RegistrationError, ResourceRoute, TemplateRoute,
        ToolRoute, prompt, prompt_template, resource, template, tool,
    },
    request::Caller,
    server::{
        NewTask, Notices, Prompts, ResourceTemplates, Resources, ServeError, ShuttingDown, StandaloneTask, Tasks, Tools,
    },
    session::ClientNotification,
    tasks::{TaskLimits, TaskPolicy},
    trace::Propagate,
};

#[cfg(feature = "log-layer")]
pub use self::log_layer::LogRecords;

pub use mcp_protocol::TaskSupport;

use self::session::{Peer, Session};
