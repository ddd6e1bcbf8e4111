//! The readers of the streams of a session at all nodes: their order, and the position that a replaced reader hands over.

use std::{sync::Arc, time::Duration};

use mcp_server_core::engine::HandlerGuard;
use tokio::time::timeout;

use super::{SharedSessions, record::Event};
use crate::legacy::{
    event_log::{Place, STANDALONE},
    session_store::Readers,
    sessions::{HttpSession, Unusable},
};

/// The kind of the requests between nodes that end the reader of a stream. The reply is its position.
const READERS: &str = "session-reader";
/// The kind of the requests between nodes that ask the node of a call whether its stream is open.
const STREAMS: &str = "session-stream";
/// The longest time for a reply.
const REPLY: Duration = Duration::from_secs(3);

impl SharedSessions {
    /// Registers a new reader of a stream. Returns its order among the readers of all nodes, and the position after which it
    /// reads. A reader of the standalone stream without a position continues where the last reader stopped.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn take_over(&self, http: &HttpSession, place: Option<Place>) -> Result<(u64, u64), Unusable> {
        let Some(shared) = http.shared() else { return Err(Unusable::Unknown) };
        let is_standalone = place.is_none_or(|place| place.stream == STANDALONE);
        let lease = if is_standalone {
            self.store.lease().await.map_err(|error| {
                tracing::warn!(%error, "a stream cannot be read, because this node has no lease");
                Unusable::StoreFailed
            })?
        } else {
            Box::default()
        };
        let change = |readers: &mut Readers| {
            readers.order += 1;
            if is_standalone {
                readers.reader = readers.order;
                readers.node = lease.to_string();
            }
        };
        let earlier =
            self.store.change_readers(&shared.digest, self.ttl(), change).await.map_err(|error| self.failed(&error))?;
        let order = earlier.order + 1;
        if let Some(place) = place {
            return Ok((order, place.seq));
        }
        let handed_over = match http.end_readers(STANDALONE, order) {
            Some(position) => Some(position),
            None => self.position_at(&earlier.node, &shared.digest, order).await,
        };
        Ok((order, earlier.position.max(handed_over.unwrap_or_default())))
    }

    /// Ends the reader of the standalone stream at another node. Returns its position, if the node has one and replies.
    async fn position_at(&self, node: &str, session: &str, order: u64) -> Option<u64> {
        if node.is_empty() || matches!(self.store.node.is_alive(node).await, Ok(false)) {
            return None;
        }
        let reply = self.ask(node, READERS, session, STANDALONE, order).await?;
        Some(u64::from_be_bytes(reply.try_into().ok()?))
    }

    /// Ends the readers of a stream at the other nodes, and lets them send the changes that waited for a reader.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn announce_reader(&self, http: &HttpSession, stream: u64, order: u64) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        let is_sent = self.announce(&shared.digest, &Event::Reads { stream, order }).await;
        if is_sent { Ok(()) } else { Err(Unusable::StoreFailed) }
    }

    /// Stores the position of a reader of the standalone stream that ended.
    pub(crate) async fn reader_ended(&self, session: &str, order: u64, position: u64) {
        let change = |readers: &mut Readers| {
            readers.position = readers.position.max(position);
            if readers.reader == order {
                readers.node.clear();
            }
        };
        if let Err(error) = self.store.change_readers(session, self.ttl(), change).await {
            tracing::debug!(%error, "the position of a reader is not stored");
        }
    }

    /// Whether the stream of a call is open at the node of the call. `None` if the node does not reply.
    pub(crate) async fn is_open_at(&self, node: &str, session: &str, stream: u64) -> Option<bool> {
        let reply = self.ask(node, STREAMS, session, stream, 0).await?;
        Some(reply == [1])
    }

    async fn ask(&self, node: &str, kind: &'static str, session: &str, stream: u64, order: u64) -> Option<Vec<u8>> {
        let body = format!("{session}\n{stream:x}\n{order:x}").into_bytes();
        match timeout(REPLY, self.store.node.request(node, kind, body)).await {
            Ok(Ok(reply)) => return Some(reply),
            Ok(Err(error)) => tracing::debug!(%error, kind, "another node does not reply about a stream"),
            Err(_) => tracing::debug!(kind, "another node does not reply about a stream in time"),
        }
        None
    }

    /// Replies to the other nodes about the streams of this node.
    pub(super) fn receive_questions(self: &Arc<Self>) -> [HandlerGuard; 2] {
        let readers = self.reply_to(READERS, |http, stream, order| {
            http.end_readers(stream, order).map(|position| position.to_be_bytes().to_vec())
        });
        [readers, self.reply_to(STREAMS, |http, stream, _| http.log.is_open(stream).then(|| vec![1]))]
    }

    /// Handles the requests of a kind. The reply is empty if no endpoint of this node has the reader or the stream.
    fn reply_to(
        self: &Arc<Self>,
        kind: &'static str,
        reply: fn(&HttpSession, u64, u64) -> Option<Vec<u8>>,
    ) -> HandlerGuard {
        let sessions = Arc::downgrade(self);
        self.store.node.add_handler(kind, move |body| {
            let sessions = sessions.upgrade();
            async move {
                let (session, stream, order) = question(&body)?;
                reply(&*sessions?.find_known(session)?, stream, order)
            }
        })
    }
}

/// Returns the digest of the session id, the stream and the order of a question.
fn question(body: &[u8]) -> Option<(&str, u64, u64)> {
    let mut parts = std::str::from_utf8(body).ok()?.split('\n');
    let (session, stream, order) = (parts.next()?, parts.next()?, parts.next()?);
    Some((session, u64::from_str_radix(stream, 16).ok()?, u64::from_str_radix(order, 16).ok()?))
}
