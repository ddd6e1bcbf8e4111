//! Streams of notifications. Each reader has its own queue.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use futures_core::Stream;
use parking_lot::{Mutex, MutexGuard};

use super::wake_on_change::WakeOnChange;
use crate::connection::Notification;

/// A stream of all notifications that arrive after it was created, in order. It continues after reconnections, and ends
/// when the client is closed.
///
/// If notifications were lost, one notification replaces them ([`Notification::is_missed`]). The client also adds it when another
/// connection replaces a lost one, and when it opens a subscription again (2026-07-28). The server may have sent notifications
/// in between. A slow reader loses the oldest notifications beyond [`Limits::notifications`](crate::Limits) and
/// [`Limits::notification_bytes`](crate::Limits).
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) {
/// let mut notifications = client.notifications();
/// while let Some(notification) = notifications.next().await {
///     println!("{} ({} missed)", notification.method(), notifications.missed());
/// }
/// # }
/// ```
pub struct Notifications {
    mailbox: Arc<Mailbox>,
}

impl Notifications {
    /// Returns the next notification; `None` after the client was closed. Cancel safe.
    ///
    /// See the [example](Self#example).
    pub async fn next(&mut self) -> Option<Notification> {
        std::future::poll_fn(|cx| self.mailbox.poll(cx)).await
    }

    /// Returns how many notifications this reader lost because it was too slow.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.mailbox.state.with(|state| state.missed)
    }
}

impl Stream for Notifications {
    type Item = Notification;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.mailbox.poll(cx)
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifications").field("missed", &self.missed()).finish_non_exhaustive()
    }
}

/// Delivers each notification to all readers.
pub(crate) struct NotificationHub {
    cap: usize,
    byte_cap: usize,
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    mailboxes: Vec<Weak<Mailbox>>,
    is_closed: bool,
}

impl NotificationHub {
    pub(crate) fn new(cap: usize, byte_cap: usize) -> Self {
        Self { cap: cap.max(1), byte_cap, readers: Mutex::default() }
    }

    pub(crate) fn listen(&self) -> Notifications {
        let mut readers = self.readers();
        let mailbox = Arc::new(Mailbox::default());
        if readers.is_closed {
            mailbox.close();
        } else {
            readers.mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
            readers.mailboxes.push(Arc::downgrade(&mailbox));
        }
        Notifications { mailbox }
    }

    pub(crate) fn publish(&self, notification: &Notification) {
        for mailbox in self.readers().mailboxes.iter().filter_map(Weak::upgrade) {
            mailbox.push(notification.clone(), self.cap, self.byte_cap);
        }
    }

    pub(crate) fn close(&self) {
        let mut readers = self.readers();
        readers.is_closed = true;
        for mailbox in readers.mailboxes.drain(..).filter_map(|mailbox| mailbox.upgrade()) {
            mailbox.close();
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock()
    }
}

#[derive(Default)]
struct Mailbox {
    state: WakeOnChange<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    queue: VecDeque<Notification>,
    /// The bytes of the notifications in `queue`.
    bytes: usize,
    missed: u64,
    is_closed: bool,
}

impl Mailbox {
    /// Adds a notification. The newest one is always kept. Adjacent reports of lost notifications are one.
    fn push(&self, notification: Notification, cap: usize, byte_cap: usize) {
        self.state.change(|state| {
            if notification.is_missed() && state.queue.back().is_some_and(Notification::is_missed) {
                return;
            }
            state.bytes += notification.size();
            state.queue.push_back(notification);
            while state.queue.len() > cap || (state.bytes > byte_cap && state.queue.len() > 1) {
                state.take();
                state.missed += 1;
            }
        });
    }

    fn close(&self) {
        self.state.change(|state| state.is_closed = true);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Notification>> {
        self.state.poll(cx, |state| match state.take() {
            Some(notification) => Poll::Ready(Some(notification)),
            None if state.is_closed => Poll::Ready(None),
            None => Poll::Pending,
        })
    }
}

impl MailboxState {
    fn take(&mut self) -> Option<Notification> {
        let oldest = self.queue.pop_front()?;
        self.bytes -= oldest.size();
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::Message;

    use super::*;

    fn notification(method: &str) -> Notification {
        let json = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"a":1}}}}"#);
        let Message::Notification(raw) = Message::parse(json.as_bytes()).unwrap() else { panic!("a notification") };
        Notification::new(&raw)
    }

    #[tokio::test]
    async fn all_readers_receive_all_notifications_and_slow_ones_lose_the_oldest() {
        let hub = NotificationHub::new(2, 1000);
        let (mut first, mut second) = (hub.listen(), hub.listen());
        hub.publish(&notification("a"));
        assert_eq!(first.next().await.unwrap().method(), "a");
        hub.publish(&notification("b"));
        hub.publish(&notification("c"));
        hub.close();
        hub.publish(&notification("d"));
        for method in ["b", "c"] {
            assert_eq!(first.next().await.unwrap().method(), method);
            assert_eq!(second.next().await.unwrap().method(), method);
        }
        assert!(first.next().await.is_none() && second.next().await.is_none());
        assert_eq!((first.missed(), second.missed()), (0, 1));
        assert!(hub.listen().next().await.is_none());
    }

    #[tokio::test]
    async fn queues_are_bounded_in_bytes_and_keep_the_newest() {
        // Each has a name of one byte and parameters of seven.
        let hub = NotificationHub::new(100, 20);
        let mut reader = hub.listen();
        for method in ["a", "b", "c"] {
            hub.publish(&notification(method));
        }
        assert_eq!((reader.missed(), reader.next().await.unwrap().method()), (1, "b"));
        hub.publish(&notification("d"));
        assert_eq!(reader.missed(), 1);
        hub.publish(&notification(&"x".repeat(100)));
        assert_eq!((reader.missed(), reader.next().await.unwrap().method().len()), (3, 100));
    }
}
