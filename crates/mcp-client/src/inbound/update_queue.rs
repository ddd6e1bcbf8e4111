//! The updates of one subscription that wait for the reader: a bounded set.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
};

use mcp_protocol::{
    NotificationMethod, ResourceUpdatedParams, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    notification::{
        PromptListChanged, ResourceListChanged, ResourceUpdated, SubscriptionsAcknowledged, Task, ToolListChanged,
    },
    tasks::ext::DetailedTask,
};
use tokio::sync::{Notify, watch};

use super::wake_on_change::WakeOnChange;
use crate::{
    Error,
    connection::{Notification, StreamReceiver},
};

/// A change on the server, or a gap in the changes ([`Subscription`](crate::Subscription)).
///
/// ```
/// use mcp_client::Update;
///
/// fn describe(update: &Update) -> String {
///     match update {
///         Update::ResourceUpdated { uri } => format!("{uri} changed"),
///         Update::Missed => "anything may have changed".into(),
///         other => format!("{other:?}"),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// The list of tools changed.
    ToolsChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of resources changed.
    ResourcesChanged,
    /// A resource changed: a subscribed resource, or a part of it. For example, a server can report `file:///docs/a.md` to
    /// a client that subscribed to `file:///docs/`.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
    },
    /// A task changed (tasks extension).
    Task(Box<DetailedTask>),
    /// The server may have sent updates that the client lost. Read the data again.
    ///
    /// Causes: the client reopened the subscription, a stream broke off, the application reads the updates too slowly, or the
    /// URI of a resource is longer than 8 KiB.
    Missed,
}

/// The largest number of waiting updates. Beyond it, one [`Update::Missed`] replaces them.
const WAITING: usize = 256;
/// The longest URI of an update, in bytes. [`Update::Missed`] replaces an update with a longer one.
const LONGEST_URI: usize = 8 * 1024;

pub(crate) struct UpdateQueue {
    filter: SubscriptionFilter,
    state: WakeOnChange<State>,
    news: Notify,
    open_state: watch::Sender<OpenState>,
}

/// Whether a subscription is open on the server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenState {
    pub(crate) is_open: bool,
    /// The number of changes of `is_open`. Two quick changes restore the value, but not this number.
    pub(crate) changes: u64,
    /// The number of the attempt to open the subscription. Acknowledgements of earlier attempts have no effect.
    attempt: u64,
    pub(crate) has_ended: bool,
}

impl OpenState {
    /// Returns true if the value changes.
    fn set_open(&mut self, is_open: bool) -> bool {
        let is_change = self.is_open != is_open && !self.has_ended;
        if is_change {
            self.is_open = is_open;
            self.changes += 1;
        }
        is_change
    }

    /// Returns true if the subscription ends now.
    fn end(&mut self) -> bool {
        self.set_open(false);
        !std::mem::replace(&mut self.has_ended, true)
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Update>,
    /// The changes that the server agreed to report.
    honoured: Option<SubscriptionFilter>,
    end: Option<Option<Error>>,
}

impl UpdateQueue {
    pub(crate) fn new(filter: SubscriptionFilter) -> Self {
        Self { filter, state: WakeOnChange::default(), news: Notify::new(), open_state: watch::Sender::default() }
    }

    pub(crate) fn filter(&self) -> &SubscriptionFilter {
        &self.filter
    }

    pub(crate) fn honoured(&self) -> SubscriptionFilter {
        self.state.with(|state| state.honoured.clone().unwrap_or_default())
    }

    /// Adds the update that a notification of a session reports, if the filter contains it.
    pub(crate) fn receive(&self, notification: &Notification) {
        self.receive_in(self.attempt(), notification);
    }

    /// Returns true if the notification opens the subscription again.
    fn receive_in(&self, attempt: u64, notification: &Notification) -> bool {
        let flag = |wanted: Option<bool>, update| (wanted == Some(true)).then_some(update);
        let update = match notification.method() {
            SubscriptionsAcknowledged::NAME => {
                return match notification.decode::<SubscriptionsAcknowledgedParams>() {
                    Ok(acknowledged) => self.open(attempt, acknowledged.notifications),
                    Err(error) => {
                        tracing::debug!(%error, "an acknowledgement is invalid");
                        false
                    }
                };
            }
            ToolListChanged::NAME => flag(self.filter.tools_list_changed, Update::ToolsChanged),
            PromptListChanged::NAME => flag(self.filter.prompts_list_changed, Update::PromptsChanged),
            ResourceListChanged::NAME => flag(self.filter.resources_list_changed, Update::ResourcesChanged),
            ResourceUpdated::NAME => match notification.decode::<ResourceUpdatedParams>() {
                Ok(params) if self.wants(&params.uri) => Some(match params.uri.len() {
                    ..=LONGEST_URI => Update::ResourceUpdated { uri: params.uri },
                    _ => Update::Missed,
                }),
                _ => None,
            },
            Task::NAME if !self.filter.task_ids.is_empty() => match notification.decode::<DetailedTask>() {
                Ok(task) if self.filter.task_ids.contains(&task.task.task_id) => Some(Update::Task(Box::new(task))),
                _ => None,
            },
            _ => notification.is_missed().then_some(Update::Missed),
        };
        if let Some(update) = update {
            self.state.change(|state| state.push(update));
        }
        false
    }

    /// Returns the number of the current attempt to open the subscription. It changes when the attempt is interrupted.
    pub(crate) fn attempt(&self) -> u64 {
        self.open_state.borrow().attempt
    }

    /// Opens the subscription in this attempt. Returns true if it was open before, so that updates may have been missed.
    pub(crate) fn open(&self, attempt: u64, honoured: SubscriptionFilter) -> bool {
        let former = {
            let state = *self.open_state.borrow();
            if state.is_open || state.has_ended || state.attempt != attempt {
                return false;
            }
            self.state.with(|state| state.honoured.replace(honoured))
        };
        // This wakes observers, so the lock is free. They find the filter above.
        let is_opened = self.open_state.send_if_modified(|state| state.attempt == attempt && state.set_open(true));
        let has_gap = is_opened && former.is_some();
        if has_gap {
            self.state.change(|state| state.push(Update::Missed));
        }
        self.news.notify_waiters();
        has_gap
    }

    /// Returns true if the server has acknowledged the subscription.
    pub(crate) fn is_open(&self) -> bool {
        self.open_state.borrow().is_open
    }

    /// Marks the subscription as interrupted until it is reopened, and ends the attempt. Returns true if it was open.
    pub(crate) fn interrupt(&self) -> bool {
        self.open_state.send_if_modified(|state| {
            state.attempt += 1;
            state.set_open(false)
        })
    }

    /// Returns a receiver of whether the subscription is open on the server.
    pub(crate) fn open_states(&self) -> watch::Receiver<OpenState> {
        self.open_state.subscribe()
    }

    /// Ends the stream. Only the first end has an effect.
    pub(crate) fn end(&self, error: Option<Error>) {
        self.open_state.send_if_modified(OpenState::end);
        self.state.change(|state| _ = state.end.get_or_insert(error));
        self.news.notify_waiters();
    }

    /// Waits until the subscription is open.
    pub(crate) async fn opened(&self) -> Result<(), Error> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // Registered before the check, so that no change is missed between the check and the wait.
            news.as_mut().enable();
            let opened = self.state.with(|state| match &state.end {
                Some(end) => Some(Err(end.clone().unwrap_or_else(Error::closed))),
                None => self.is_open().then_some(Ok(())),
            });
            match opened {
                Some(opened) => return opened,
                None => news.await,
            }
        }
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<Update, Error>>> {
        self.state.poll(cx, |state| match (state.waiting.pop_front(), &mut state.end) {
            (Some(update), _) => Poll::Ready(Some(Ok(update))),
            (None, Some(error)) => Poll::Ready(error.take().map(Err)),
            (None, None) => Poll::Pending,
        })
    }

    /// Returns true if the filter contains the resource, or one that it can be a part of.
    fn wants(&self, uri: &str) -> bool {
        self.filter.resource_subscriptions.iter().any(|wanted| uri.starts_with(wanted.as_str()))
    }
}

/// The stream of one attempt to open a subscription. The connection can still deliver its acknowledgement after the attempt has ended.
pub(crate) struct OpenAttempt {
    queue: Arc<UpdateQueue>,
    number: u64,
}

impl OpenAttempt {
    /// Returns the stream of the current attempt.
    pub(crate) fn new(queue: &Arc<UpdateQueue>) -> Self {
        Self { queue: Arc::clone(queue), number: queue.attempt() }
    }
}

impl StreamReceiver for OpenAttempt {
    fn notification(&self, notification: &Notification) -> bool {
        self.queue.receive_in(self.number, notification)
    }

    fn is_acknowledged(&self) -> bool {
        self.queue.is_open()
    }
}

impl State {
    fn push(&mut self, update: Update) {
        if self.waiting.contains(&update) {
            return;
        }
        if let Update::Task(task) = &update {
            // Only the newest state of a task counts.
            self.waiting
                .retain(|other| !matches!(other, Update::Task(other) if other.task.task_id == task.task.task_id));
        }
        if self.waiting.len() == WAITING {
            self.waiting.clear();
            self.waiting.push_back(Update::Missed);
        }
        self.waiting.push_back(update);
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Wake, Waker},
    };

    use mcp_protocol::Message;
    use parking_lot::Mutex;

    use super::*;

    fn updated(uri: &str) -> Notification {
        let json =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#);
        let Message::Notification(raw) = Message::parse(json.as_bytes()).unwrap() else { panic!("a notification") };
        Notification::new(&raw)
    }

    async fn next(inbox: &UpdateQueue) -> Option<Update> {
        std::future::poll_fn(|cx| inbox.poll(cx)).await.map(Result::unwrap)
    }

    #[tokio::test]
    async fn merges_equal_updates_and_reports_excess_updates_as_missed() {
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = vec!["a:".into()];
        let inbox = UpdateQueue::new(filter);
        for uri in ["a:1", "a:1", "b:1"] {
            inbox.receive(&updated(uri));
        }
        assert_eq!(next(&inbox).await, Some(Update::ResourceUpdated { uri: "a:1".into() }));
        for n in 0..=WAITING {
            inbox.receive(&updated(&format!("a:{n}")));
        }
        assert_eq!(next(&inbox).await, Some(Update::Missed));
        assert!(matches!(next(&inbox).await, Some(Update::ResourceUpdated { .. })));
        inbox.end(None);
        assert_eq!(next(&inbox).await, None);
    }

    #[tokio::test]
    async fn reopening_reports_missed_updates() {
        let inbox = UpdateQueue::new(SubscriptionFilter::new());
        inbox.open(inbox.attempt(), SubscriptionFilter::new());
        inbox.opened().await.unwrap();
        assert!(inbox.interrupt() && !inbox.interrupt());
        inbox.open(inbox.attempt(), SubscriptionFilter::new());
        assert_eq!(next(&inbox).await, Some(Update::Missed));
        inbox.end(Some(Error::closed()));
        assert!(inbox.opened().await.unwrap_err().is_closed());
    }

    #[tokio::test]
    async fn a_late_acknowledgement_of_an_earlier_attempt_does_not_open_a_subscription() {
        let queue = Arc::new(UpdateQueue::new(SubscriptionFilter::new()));
        let json =
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}"#;
        let Message::Notification(raw) = Message::parse(json.as_bytes()).unwrap() else { panic!("a notification") };
        let acknowledged = Notification::new(&raw);
        let first = OpenAttempt::new(&queue);
        first.notification(&acknowledged);
        assert!(queue.interrupt());
        let second = OpenAttempt::new(&queue);
        first.notification(&acknowledged);
        assert!(!queue.is_open(), "the connection of the first attempt is lost");
        second.notification(&acknowledged);
        assert_eq!((queue.is_open(), next(&queue).await), (true, Some(Update::Missed)));
    }

    /// A task that reads the queue when it is woken. It records the filter that the server agreed to.
    struct Observer {
        queue: UpdateQueue,
        found: Mutex<Vec<SubscriptionFilter>>,
    }

    impl Wake for Observer {
        fn wake(self: Arc<Self>) {
            assert!(!self.queue.state.is_locked(), "an observer is woken under the lock");
            self.found.lock().push(self.queue.honoured());
        }
    }

    #[test]
    fn observers_wake_without_the_lock_and_find_the_new_filter() {
        let queue = UpdateQueue::new(SubscriptionFilter::new());
        let observer = Arc::new(Observer { queue, found: Mutex::default() });
        let waker = Waker::from(Arc::clone(&observer));
        let mut states = observer.queue.open_states();
        for _ in 0..2 {
            let mut changed = pin!(states.changed());
            assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            observer.queue.open(observer.queue.attempt(), SubscriptionFilter::lists());
            assert_eq!(*observer.found.lock(), [SubscriptionFilter::lists()]);
            observer.queue.interrupt();
            observer.found.lock().clear();
            assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        }
    }
}
