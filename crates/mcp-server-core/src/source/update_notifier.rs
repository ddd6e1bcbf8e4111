//! The updates of a resource or a task, for one subscriber of a source.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::{Session, change::Change, publisher::Listener};

/// Notifies one subscriber that its resource or its task has changed
/// ([`SourceCall::update_notifier`](super::SourceCall::update_notifier)). The subscriber is a session, or a `subscriptions/listen`
/// stream. Only a stream subscribes to a task.
///
/// [`Notices::resource_updated`](crate::Notices::resource_updated) notifies all subscribers of a URI. A source whose resources
/// differ between callers notifies single subscribers instead.
///
/// ```
/// use mcp_server_core::source::{SourceCall, SourceSubscription};
///
/// /// Follows the changes that another server sends for the caller.
/// fn follow(call: &SourceCall, mut changes: tokio::sync::mpsc::Receiver<()>) -> SourceSubscription {
///     let notifier = call.update_notifier();
///     let task = tokio::spawn(async move {
///         while changes.recv().await.is_some() {
///             notifier.updated();
///         }
///     });
///     SourceSubscription::new(task)
/// }
/// # let _ = follow;
/// ```
#[derive(Clone)]
pub struct UpdateNotifier {
    /// The URI of the resource, or the id of the task.
    name: Arc<str>,
    subscriber: Subscriber,
}

/// The subscriber of a resource or a task.
#[derive(Clone)]
pub(crate) enum Subscriber {
    Session(Weak<Session>),
    /// A stream with the resource.
    Stream(Weak<Listener>),
    /// A stream with the task.
    TaskStream(Weak<Listener>),
}

impl UpdateNotifier {
    pub(super) fn new(name: &Arc<str>, stream: Option<&Subscriber>, session: Option<&Arc<Session>>) -> Self {
        let of_session = || Subscriber::Session(session.map(Arc::downgrade).unwrap_or_default());
        Self { name: Arc::clone(name), subscriber: stream.cloned().unwrap_or_else(of_session) }
    }

    /// Notifies the subscriber. It does not wait, and equal changes are merged while the client does not read. It has no effect
    /// after the end of the subscription.
    ///
    /// See the example of the [type](Self).
    pub fn updated(&self) {
        self.notify(Change::Updated);
    }

    /// Notifies the subscriber that a part of its resource has changed. The notification has the URI of the part. For example, a
    /// source can report `file:///docs/a.md` to a subscriber of `file:///docs/`. A task has no parts: the subscriber is notified of
    /// the task.
    ///
    /// If more than 64 parts wait for a client that does not read, an update of the whole resource replaces them.
    ///
    /// ```
    /// # use mcp_server_core::source::SourceCall;
    /// /// Notifies the caller that a file in its directory has changed.
    /// fn report(call: &SourceCall, file: &str) {
    ///     call.update_notifier().part_updated(&format!("file:///docs/{file}"));
    /// }
    /// # let _ = report;
    /// ```
    pub fn part_updated(&self, uri: &str) {
        self.notify(|of| Change::Part { of, uri: uri.into() });
    }

    fn notify(&self, change: impl Fn(Arc<str>) -> Change) {
        let change = || change(Arc::clone(&self.name));
        match &self.subscriber {
            Subscriber::Session(session) => session.upgrade().iter().for_each(|session| session.notify(&change())),
            Subscriber::Stream(stream) => stream.upgrade().iter().for_each(|stream| stream.notify(&change())),
            Subscriber::TaskStream(stream) => {
                stream.upgrade().iter().for_each(|stream| stream.followed_task_changed(&self.name));
            }
        }
    }
}

impl fmt::Debug for UpdateNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateNotifier").finish_non_exhaustive()
    }
}
