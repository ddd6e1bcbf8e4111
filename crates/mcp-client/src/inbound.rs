//! Requests and notifications of the server: the handlers, and the streams that deliver notifications.

mod callbacks;
mod context;
mod form;
mod handlers;
mod notifications;
mod reports;
mod roots;
mod server_request;
mod subscribers;
mod update_queue;
mod wake_on_change;

pub(crate) use self::{
    callbacks::{Callbacks, send_root_changes},
    context::RequestSource,
    handlers::{HandlerSet, answering, log_of_call, own_handler},
    notifications::NotificationHub,
    server_request::ServerRequest,
    subscribers::SessionSubscribers,
    update_queue::{OpenAttempt, OpenState, UpdateQueue},
};
pub use self::{
    context::{InputContext, RawRequest},
    handlers::Handler,
    notifications::Notifications,
    roots::Roots,
    update_queue::Update,
};
