//! Messages that the server sends by itself: requests for handlers, notifications, and what they wake.

mod callbacks;
mod context;
mod form;
mod handlers;
mod notifications;
mod roots;
mod server_request;
mod update_queue;
mod wake_on_change;

pub(crate) use self::{
    callbacks::Listeners,
    context::Asker,
    handlers::{Handlers, answering},
    notifications::Hub,
    server_request::Question,
    update_queue::Inbox,
};
pub use self::{
    context::{Asked, RawRequest},
    handlers::Handler,
    notifications::{Notification, Notifications},
    roots::Roots,
};
