//! A connection that reads a stream of a session from the shared store. Any node may have written its events.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_server_core::ShuttingDown;
use mcp_store::{LogPage, StoreError, Subscription};
use mcp_transport::sse;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    event_log::{
        Place, STANDALONE, TRUNCATED,
        batch::{self, Batch, Kind},
    },
    sessions::{HttpSession, Open, Unusable},
    shared::SharedSessions,
};
use crate::{
    answer::{
        body::EventStream,
        stream::{KeepAlive, StreamEnd},
    },
    config::HttpConfig,
};

/// The most batches that one read returns.
const PAGE: usize = 64;
/// The bytes after which a reader receives the events so far.
const PIECE: usize = 64 << 10;
/// The time after which a reader reads again although no message arrived.
const POLL: Duration = Duration::from_secs(10);
/// The time after which a reader checks that the node of its call has not stopped.
const CHECK: Duration = Duration::from_secs(3);
/// How long a reader waits for a store that fails. Its client then resumes at another node.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between retries of a failing store.
const PAUSE: Duration = Duration::from_millis(250);

/// Some events of a stream, encoded.
struct Part {
    events: Bytes,
    /// The sequence number of the last of them.
    last: u64,
}

/// The reader of a stream.
pub(crate) struct Following {
    parts: mpsc::Receiver<Part>,
    /// The sequence number of the last event that the connection took.
    taken: Arc<AtomicU64>,
    opening: Option<Bytes>,
    keep_alive: KeepAlive,
    shutdown: ShuttingDown,
    end: StreamEnd,
    _open: Open,
}

impl Following {
    /// Reads a stream after a position: of any stream of the session, or the standalone stream where its last reader stopped.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn start(
        shared: &Arc<SharedSessions>,
        http: &Arc<HttpSession>,
        place: Option<Place>,
        config: &HttpConfig,
        shutdown: ShuttingDown,
        end: StreamEnd,
    ) -> Result<Self, Unusable> {
        let Some(of) = http.shared() else { return Err(Unusable::Unknown) };
        let stream = place.map_or(STANDALONE, |place| place.stream);
        let failed = |error: StoreError| {
            tracing::warn!(%error, "a stream cannot be read, because the shared store fails");
            Unusable::StoreFailed
        };
        let topic = shared.store.subscribe_events(of.digest()).await.map_err(failed)?;
        let after = match place {
            Some(place) => place.seq,
            None => shared.store.read_position(of.digest()).await.map_err(failed)?,
        };
        let open = http.open();
        // The client has one connection for each stream. Older connections end, here and at the other nodes.
        let order = shared.append_mark(of.digest()).await.map_err(failed)?;
        http.attach_follower(stream, order);
        let guard = Attached { http: http.clone(), stream, order };
        shared.announce_reader(http, stream, order).await?;
        let page = shared.store.events_after(of.digest(), batch::batch_before(after), PAGE).await.map_err(failed)?;
        let taken = Arc::new(AtomicU64::new(after));
        let (sender, parts) = mpsc::channel(1);
        let opening = http.session.version().has_sse_polling().then(|| {
            let retry = Duration::max(config.retry_delay, Duration::from_millis(1));
            sse::Event::priming(&http.log.id(Place { stream, seq: after })).with_retry(retry).encode()
        });
        let follower = Follower {
            shared: shared.clone(),
            guard,
            after,
            // A client without a position does not know that events are missing.
            reports_loss: place.is_some(),
            sender,
            taken: taken.clone(),
            writer: None,
            request: None,
        };
        tokio::spawn(follower.run(topic, page));
        let keep_alive = KeepAlive::new(config.keep_alive);
        Ok(Self { parts, taken, opening, keep_alive, shutdown, end, _open: open })
    }
}

impl EventStream for Following {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(opening) = this.opening.take() {
            return Poll::Ready(Some(opening));
        }
        if Pin::new(&mut this.shutdown).poll(cx).is_ready() || this.end.poll_over(cx) {
            return Poll::Ready(None);
        }
        match this.parts.poll_recv(cx) {
            Poll::Ready(Some(part)) => {
                this.taken.store(part.last, Ordering::Release);
                this.keep_alive.restart();
                Poll::Ready(Some(part.events))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this.keep_alive.poll(cx).map(Some),
        }
    }
}

/// The entry of a reader in its session. Dropping it removes the entry.
struct Attached {
    http: Arc<HttpSession>,
    stream: u64,
    order: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.http.detach_follower(self.stream, self.order);
    }
}

/// The task that reads the events of a stream for its connection.
struct Follower {
    shared: Arc<SharedSessions>,
    guard: Attached,
    after: u64,
    reports_loss: bool,
    sender: mpsc::Sender<Part>,
    taken: Arc<AtomicU64>,
    /// The node that writes the stream, and the id of the request as JSON, as far as they are known.
    writer: Option<String>,
    request: Option<Vec<u8>>,
}

impl Follower {
    async fn run(mut self, topic: Subscription, page: LogPage) {
        let http = self.guard.http.clone();
        let (stream, order, sender) = (self.guard.stream, self.guard.order, self.sender.clone());
        let is_over = tokio::select! {
            biased;
            () = http.follower_ends(stream, order) => true,
            () = http.log.closed() => true,
            () = sender.closed() => false,
            () = self.follow(topic, page) => false,
        };
        // The next reader without a position continues after the events that this connection took.
        if stream == STANDALONE
            && !is_over
            && let Some(of) = http.shared()
        {
            let taken = self.taken.load(Ordering::Acquire);
            if let Err(error) = self.shared.store.set_read_position(of.digest(), taken, self.shared.ttl()).await {
                tracing::debug!(%error, "the position of a reader is not stored");
            }
        }
    }

    /// Sends events until the stream ends or the store fails for too long.
    async fn follow(&mut self, mut topic: Subscription, mut page: LogPage) {
        loop {
            if !self.send(&page).await {
                return;
            }
            if !page.more {
                // The node of a call may stop.
                let wait = if self.guard.stream == STANDALONE { POLL } else { CHECK };
                match timeout(wait, topic.recv()).await {
                    Ok(Some(_)) => {}
                    // The store ended the subscription.
                    Ok(None) => match self.retry(async |this| this.subscribe().await).await {
                        Some(subscribed) => topic = subscribed,
                        None => return,
                    },
                    Err(_) => {
                        self.shared.touch_open_session(&self.guard.http);
                        if let Err(error) = self.check_writer().await {
                            tracing::debug!(%error, "the node of a stream is not known yet");
                        }
                    }
                }
            }
            match self.retry(async |this| this.read().await).await {
                Some(read) => page = read,
                None => return,
            }
        }
    }

    /// Ends the stream if the node of its call has stopped. The next read then returns the end.
    async fn check_writer(&mut self) -> Result<(), StoreError> {
        let stream = self.guard.stream;
        if stream == STANDALONE {
            return Ok(());
        }
        let mut after = 0;
        while self.writer.is_none() || self.request.is_none() {
            let page = self.shared.store.events_after(self.digest(), after, PAGE).await?;
            for record in &page.records {
                after = record.sequence;
                if let Some(batch) = Batch::read(&record.data) {
                    self.learn(&batch);
                }
            }
            if !page.more {
                break;
            }
        }
        let Some(writer) = &self.writer else { return Ok(()) };
        match self.shared.store.node.is_alive(writer).await {
            Ok(false) => self.shared.end_stream(self.digest(), stream, self.request.as_deref()).await,
            _ => Ok(()),
        }
    }

    /// Remembers the node of the stream and the id of the request.
    fn learn(&mut self, batch: &Batch<'_>) {
        for event in batch.events.iter().filter(|event| event.stream == self.guard.stream) {
            if !batch.node.is_empty() && self.writer.as_deref() != Some(batch.node) {
                self.writer = Some(batch.node.to_owned());
            }
            if event.kind == Kind::Opened {
                self.request = Some(event.message.to_vec());
            }
        }
    }

    async fn subscribe(&self) -> Result<Subscription, StoreError> {
        self.shared.store.subscribe_events(self.digest()).await
    }

    async fn read(&self) -> Result<LogPage, StoreError> {
        self.shared.store.events_after(self.digest(), batch::batch_before(self.after), PAGE).await
    }

    fn digest(&self) -> &str {
        self.guard.http.shared().map_or("", |of| of.digest())
    }

    /// Repeats an operation of a failing store for a while.
    async fn retry<T>(&self, operation: impl AsyncFn(&Self) -> Result<T, StoreError>) -> Option<T> {
        let retried = timeout(PATIENCE, async {
            loop {
                match operation(self).await {
                    Ok(done) => return done,
                    Err(error) => tracing::debug!(%error, "the reader of a stream waits for the shared store"),
                }
                sleep(PAUSE).await;
            }
        });
        retried.await.ok()
    }

    /// Sends the events of a page. Returns false at the end of the stream, or if the connection is closed.
    async fn send(&mut self, page: &LogPage) -> bool {
        let stream = self.guard.stream;
        let mut out = Vec::new();
        if page.missed > 0 && self.reports_loss {
            let at = page.records.first().map_or(self.after, |record| batch::seq(record.sequence - 1, 0, 1));
            self.put(&mut out, Place { stream, seq: at }, TRUNCATED);
        }
        self.reports_loss = true;
        for record in &page.records {
            let Some(batch) = Batch::read(&record.data) else {
                tracing::warn!("a node with another version of the library wrote events that cannot be read");
                continue;
            };
            self.learn(&batch);
            let count = batch.events.len();
            for (index, event) in batch.events.iter().enumerate() {
                let seq = batch::seq(record.sequence, index, count);
                if seq <= self.after {
                    continue;
                }
                self.after = seq;
                if event.stream != stream {
                    continue;
                }
                let name = if event.kind == Kind::Answer { Place::END } else { seq };
                if matches!(event.kind, Kind::Message | Kind::Answer) {
                    self.put(&mut out, Place { stream, seq: name }, event.message);
                }
                if event.kind.is_end() {
                    self.pass(&mut out).await;
                    return false;
                }
                if out.len() >= PIECE && !self.pass(&mut out).await {
                    return false;
                }
            }
        }
        self.pass(&mut out).await
    }

    /// Passes events to the connection. Returns false if it is closed.
    async fn pass(&self, out: &mut Vec<u8>) -> bool {
        if out.is_empty() {
            return true;
        }
        let events = std::mem::take(out).into();
        self.sender.send(Part { events, last: self.after }).await.is_ok()
    }

    fn put(&self, out: &mut Vec<u8>, place: Place, message: &[u8]) {
        let id = self.guard.http.log.id(place);
        out.extend_from_slice(&sse::Event::new(message).with_id(&id).with_event("message").encode());
    }
}
