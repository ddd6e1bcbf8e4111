//! The updates of a resource, for one subscriber of a source.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::{Session, change::Change, publisher::Listener};

/// Notifies one subscriber that its resource has changed ([`SourceCall::update_notifier`](super::SourceCall::update_notifier)).
/// The subscriber is a session, or a `subscriptions/listen` stream.
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
    uri: Arc<str>,
    subscriber: Subscriber,
}

#[derive(Clone)]
enum Subscriber {
    Session(Weak<Session>),
    Stream(Weak<Listener>),
}

impl UpdateNotifier {
    pub(super) fn new(uri: &str, stream: Option<&Weak<Listener>>, session: Option<&Arc<Session>>) -> Self {
        let subscriber = match stream {
            Some(stream) => Subscriber::Stream(stream.clone()),
            None => Subscriber::Session(session.map(Arc::downgrade).unwrap_or_default()),
        };
        Self { uri: uri.into(), subscriber }
    }

    /// Notifies the subscriber. It does not wait, and equal changes are merged while the client does not read. It has no effect
    /// after the end of the subscription.
    ///
    /// See the example of the [type](Self).
    pub fn updated(&self) {
        self.notify(&Change::Updated(Arc::clone(&self.uri)));
    }

    /// Notifies the subscriber that a part of its resource has changed. The notification has the URI of the part. For example, a
    /// source can report `file:///docs/a.md` to a subscriber of `file:///docs/`.
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
        self.notify(&Change::Part { of: Arc::clone(&self.uri), uri: uri.into() });
    }

    fn notify(&self, change: &Change) {
        match &self.subscriber {
            Subscriber::Session(session) => session.upgrade().iter().for_each(|session| session.notify(change)),
            Subscriber::Stream(stream) => stream.upgrade().iter().for_each(|stream| stream.notify(change)),
        }
    }
}

impl fmt::Debug for UpdateNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateNotifier").finish_non_exhaustive()
    }
}
