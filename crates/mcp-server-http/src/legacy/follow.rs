//! A connection that reads a stream of a session from the shared store. Any node may have written its events.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::{RequestId, RpcError};
use mcp_server_core::{ShuttingDown, engine::Reply};
use mcp_store::{Delivery, LogPage, StoreError, Subscription};
use mcp_transport::sse;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    event_log::{
        Place, STANDALONE, TRUNCATED,
        batch::{self, Batch, EXCLUDED, Kind, writer_of},
    },
    followers::Taken,
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
/// The longest time after which the reader of a call reads again although no message arrived.
const POLL_OF_CALL: Duration = Duration::from_secs(3);
/// How long a reader waits for a store that fails. Its client then resumes at another node.
const PATIENCE: Duration = Duration::from_secs(3);
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
    taken: Arc<Taken>,
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
        let open = http.open();
        // The client has one connection for each stream. Older connections end, here and at the other nodes.
        let (order, after) = shared.take_over(http, place).await?;
        let last = shared.store.last_event(of.digest(), shared.ttl()).await.map_err(failed)?;
        // A position behind the end belongs to a log that the store has lost.
        let is_lost = batch::batch_before(after) > last;
        let after = if is_lost { 0 } else { after };
        let taken = Taken::new(after);
        http.attach_follower(stream, order, taken.clone());
        let guard = Attached { http: http.clone(), stream, order };
        shared.announce_reader(http, stream, order).await?;
        let page = shared.store.events_after(of.digest(), batch::batch_before(after), PAGE).await.map_err(failed)?;
        let (sender, parts) = mpsc::channel(1);
        let opening = http.session.version().has_sse_polling().then(|| {
            let retry = Duration::max(config.retry_delay, Duration::from_millis(1));
            sse::Event::priming(&http.log.id(Place { stream, seq: after })).with_retry(retry).encode()
        });
        let follower = Follower {
            shared: shared.clone(),
            guard,
            after,
            position: 0,
            // A client without a position does not know that events are missing.
            reports_loss: place.is_some(),
            notice: (is_lost && place.is_some()).then(|| batch::seq(0, 0, 1)),
            sender,
            taken: taken.clone(),
            has_events: false,
            writer: None,
            is_confirmed: false,
            may_be_behind: false,
            end: None,
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
                if !this.taken.advance(part.last) {
                    // Another connection of the client receives these events.
                    return Poll::Ready(None);
                }
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

/// The reason for which a stream ends without its last event in the log.
#[derive(Debug, Clone, Copy)]
enum Ended {
    /// The node of the call has stopped.
    NodeStopped,
    /// The log has lost the end of the stream, or the stream has never existed.
    Lost,
}

/// The checks that the node of a call has not stopped.
struct Checks {
    /// Whether no check was due so far.
    is_first: bool,
    next: Instant,
}

/// The task that reads the events of a stream for its connection.
struct Follower {
    shared: Arc<SharedSessions>,
    guard: Attached,
    /// The position of the last event that was read.
    after: u64,
    /// The sequence of the last record that was read. A record can have no events.
    position: u64,
    reports_loss: bool,
    /// The position of a report about lost events that was not sent yet. A stream that has ended reports them with its end.
    notice: Option<u64>,
    sender: mpsc::Sender<Part>,
    taken: Arc<Taken>,
    /// Whether an event of the stream was read.
    has_events: bool,
    /// The lease of the node of the call, if it is known.
    writer: Option<String>,
    /// Whether the node of the call replied that the stream is open. The log then receives its end.
    is_confirmed: bool,
    /// Whether messages were lost, so that the store may have been rolled back to a record before the position.
    may_be_behind: bool,
    /// The end of the stream, unless the rest of the log has its last event.
    end: Option<Ended>,
}

impl Follower {
    async fn run(mut self, topic: Subscription, page: LogPage) {
        let http = self.guard.http.clone();
        let (stream, order, sender) = (self.guard.stream, self.guard.order, self.sender.clone());
        let is_closed = tokio::select! {
            biased;
            () = http.log.closed() => true,
            () = http.follower_ends(stream, order) => false,
            () = sender.closed() => false,
            () = self.follow(topic, page) => false,
        };
        // The next reader without a position continues after the events that this connection took.
        if stream == STANDALONE && !is_closed {
            self.shared.reader_ended(self.digest(), order, self.taken.position()).await;
        }
    }

    /// Sends events until the stream ends or the store fails for too long.
    async fn follow(&mut self, mut topic: Subscription, mut page: LogPage) {
        let mut checks = Checks { is_first: true, next: Instant::now() + self.pause() };
        loop {
            if !self.send(&page).await {
                return;
            }
            if !page.more {
                if let Some(end) = self.end {
                    return self.finish(end).await;
                }
                if !self.wait(&mut topic, &mut checks).await {
                    return;
                }
            }
            match self.retry(async |this| this.read().await).await {
                Some(read) => page = read,
                None => return,
            }
            if std::mem::take(&mut self.may_be_behind) && page.records.is_empty() {
                match self.retry(async |this| this.last().await).await {
                    Some(last) => self.go_back(last),
                    None => return,
                }
            }
        }
    }

    /// Waits until the log may have another event, or the stream may have ended. Returns false if the store fails for too long.
    async fn wait(&mut self, topic: &mut Subscription, checks: &mut Checks) -> bool {
        let is_call = self.guard.stream != STANDALONE;
        let next_read = Instant::now() + POLL_OF_CALL;
        loop {
            // A stream without a new event may have ended before.
            let may_be_over = std::mem::take(&mut checks.is_first) && is_call && !self.has_events;
            let received = if may_be_over || Instant::now() >= checks.next {
                None
            } else {
                timeout_at(checks.next, topic.recv()).await.ok()
            };
            if let Some(delivery) = received {
                return self.receive(topic, delivery).await;
            }
            // The checks have this distance, also if the node of the call does not reply.
            checks.next = Instant::now() + self.pause();
            self.shared.touch_open_session(&self.guard.http);
            let checked = self.check_writer(topic).await;
            match &checked {
                Ok(Some(delivery)) => return self.receive(topic, delivery.clone()).await,
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the node of a stream is not known yet"),
            }
            let has_news = may_be_over || self.end.is_some() || self.notice.is_some();
            // A store that fails also fails the next read, which has a time limit.
            if !is_call || checked.is_err() || has_news || Instant::now() >= next_read {
                return true;
            }
        }
    }

    /// Processes a message of the topic. Returns false if the store fails for too long.
    async fn receive(&mut self, topic: &mut Subscription, delivery: Option<Delivery>) -> bool {
        match delivery {
            Some(Delivery::Message(_)) => {}
            Some(_) => self.lost_messages(),
            // The store ended the subscription.
            None => {
                self.lost_messages();
                let Some(subscribed) = self.retry(async |this| this.subscribe().await).await else { return false };
                *topic = subscribed;
            }
        }
        true
    }

    /// Records that messages were lost, as in a failure of the store. The store may have lost the end of the stream.
    fn lost_messages(&mut self) {
        (self.may_be_behind, self.is_confirmed) = (true, false);
    }

    /// Continues behind the last record of a log that was rolled back. Its next records have the sequences of lost records.
    fn go_back(&mut self, last: u64) {
        if last < batch::batch_before(self.after).max(self.position) {
            (self.position, self.after) = (last, batch::seq(last, 0, 1));
            self.notice = Some(self.after);
        }
    }

    /// Returns the time between two checks that the node of the call has not stopped.
    fn pause(&self) -> Duration {
        if self.guard.stream == STANDALONE { POLL } else { self.shared.store.node.limits().renewal }
    }

    /// Finds out whether the call still writes the stream. Otherwise the stream ends after the next read. Returns a message of the
    /// topic that arrived before the reply of the node.
    async fn check_writer(&mut self, topic: &mut Subscription) -> Result<Option<Option<Delivery>>, StoreError> {
        let stream = self.guard.stream;
        if stream == STANDALONE {
            return Ok(None);
        }
        let (store, writer) = (&self.shared.store, writer_of(stream));
        if self.writer.is_none() {
            self.writer = store.node_of(self.digest(), writer).await?;
        }
        let Some(node) = &self.writer else {
            self.end = Some(Ended::Lost);
            return Ok(None);
        };
        // A node without the store must not wait for it here, because the client can resume at another node.
        let limit = self.pause();
        match timeout(limit, store.node.is_alive(node)).await {
            Ok(Ok(false)) => {
                // The node may only be slow. From now on the log rejects its events.
                store.exclude(self.digest(), writer, self.shared.ttl()).await?;
                self.end = Some(Ended::NodeStopped);
                store.announce_events(self.digest()).await?;
            }
            // A node that stopped does not reply. The next check then follows at once.
            Ok(Ok(true)) if !self.is_confirmed => {
                let asked = timeout(limit, self.shared.is_open_at(node, self.digest(), stream));
                let reply = tokio::select! {
                    biased;
                    reply = asked => reply,
                    // Events do not wait for a node that does not reply.
                    delivery = topic.recv() => return Ok(Some(delivery)),
                };
                match reply {
                    Ok(Some(true)) => self.is_confirmed = true,
                    Ok(Some(false)) => self.end = Some(Ended::Lost),
                    Ok(None) | Err(_) => {}
                }
            }
            Ok(Ok(true)) => {}
            Ok(Err(_)) | Err(_) => {
                return Err(StoreError::unavailable("the lease of the node of a stream cannot be read"));
            }
        }
        Ok(None)
    }

    /// Ends a stream whose last event is not in the log.
    async fn finish(&mut self, end: Ended) {
        let stream = self.guard.stream;
        let request = match end {
            Ended::NodeStopped => self.retry(async |this| this.request().await).await.flatten(),
            Ended::Lost => None,
        };
        let mut out = Vec::new();
        let place = Place { stream, seq: Place::END };
        match request {
            Some(id) => {
                let data = serde_json::json!({ "reason": "node_unavailable", "retryable": true });
                let error = RpcError::internal("the node of this call has stopped").with_data(data);
                self.put(&mut out, place, &Reply::error(Some(&id), &error).payload.into_bytes());
            }
            None => self.put(&mut out, place, TRUNCATED),
        }
        self.pass(&mut out).await;
    }

    /// Returns the request of the call, if the log still has the begin of the stream.
    async fn request(&self) -> Result<Option<RequestId>, StoreError> {
        let mut after = 0;
        loop {
            let page = self.shared.store.events_after(self.digest(), after, PAGE).await?;
            for record in &page.records {
                after = record.sequence;
                let Some(batch) = Batch::read(&record.data) else { continue };
                let is_begin = |kind, stream| kind == Kind::Opened && stream == self.guard.stream;
                if let Some(opened) = batch.events.iter().find(|event| is_begin(event.kind, event.stream)) {
                    return Ok(serde_json::from_slice(opened.message).ok());
                }
            }
            if !page.more || page.records.is_empty() {
                return Ok(None);
            }
        }
    }

    async fn subscribe(&self) -> Result<Subscription, StoreError> {
        self.shared.store.subscribe_events(self.digest()).await
    }

    async fn read(&self) -> Result<LogPage, StoreError> {
        let after = batch::batch_before(self.after).max(self.position);
        self.shared.store.events_after(self.digest(), after, PAGE).await
    }

    /// Returns the sequence of the last record.
    async fn last(&self) -> Result<u64, StoreError> {
        self.shared.store.last_event(self.digest(), self.shared.ttl()).await
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
        if page.missed > 0 {
            self.skip(page);
        }
        self.reports_loss = true;
        if stream == STANDALONE || self.is_confirmed {
            self.put_notice(&mut out);
        }
        for record in &page.records {
            self.position = record.sequence;
            let Some(batch) = Batch::read(&record.data) else {
                tracing::warn!("a node with another version of the library wrote events that cannot be read");
                continue;
            };
            if stream != STANDALONE && batch.id.writer == writer_of(stream) && batch.id.number == EXCLUDED {
                self.end = Some(Ended::NodeStopped);
            }
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
                self.has_events = true;
                self.put_notice(&mut out);
                match event.kind {
                    Kind::Message => self.put(&mut out, Place { stream, seq }, event.message),
                    Kind::Answer => self.put(&mut out, Place { stream, seq: Place::END }, event.message),
                    Kind::Gap => self.put(&mut out, Place { stream, seq }, TRUNCATED),
                    Kind::Opened | Kind::End => {}
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

    /// Moves behind the records that were trimmed. The stream may have lost events.
    fn skip(&mut self, page: &LogPage) {
        let read = batch::batch_before(self.after).max(self.position);
        self.position = page.records.first().map_or(read + page.missed, |record| record.sequence - 1);
        let at = batch::seq(self.position, 0, 1);
        self.after = self.after.max(at);
        self.is_confirmed = false;
        if self.reports_loss {
            self.notice = Some(at);
        }
    }

    /// Passes events to the connection. Returns false if it is closed.
    async fn pass(&self, out: &mut Vec<u8>) -> bool {
        if out.is_empty() {
            return true;
        }
        let events = std::mem::take(out).into();
        self.sender.send(Part { events, last: self.after }).await.is_ok()
    }

    fn put_notice(&mut self, out: &mut Vec<u8>) {
        if let Some(seq) = self.notice.take() {
            self.put(out, Place { stream: self.guard.stream, seq }, TRUNCATED);
        }
    }

    fn put(&self, out: &mut Vec<u8>, place: Place, message: &[u8]) {
        let id = self.guard.http.log.id(place);
        out.extend_from_slice(&sse::Event::new(message).with_id(&id).with_event("message").encode());
    }
}
