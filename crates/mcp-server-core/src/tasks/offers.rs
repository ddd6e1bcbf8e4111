//! Input requests of a task that wait for a `tasks/result` request on another node (2025-11-25).

use mcp_protocol::{ClientCapabilities, InputRequest, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use super::running::RunningTask;
use crate::node::Node;

/// The input requests that other nodes can send to their clients.
#[derive(Default)]
pub(super) struct Offers {
    list: Vec<Entry>,
    last: u64,
}

struct Entry {
    number: u64,
    request: InputRequest,
    needed: ClientCapabilities,
    taken_by: Option<Waiter>,
    answer: oneshot::Sender<OfferAnswer>,
}

/// A `tasks/result` request on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiter {
    pub(super) node: String,
    /// A random id.
    pub(super) id: String,
}

/// The answer of a client of another node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OfferAnswer {
    Answer(Value),
    Refused(RpcError),
    /// The request or its node ended without an answer.
    Gone,
}

impl Offers {
    /// Returns the place of the offer that a waiter took before, or else of a free offer. A waiter asks again only if it did
    /// not receive the offer.
    fn free(&self, client: &ClientCapabilities, waiter: &Waiter) -> Option<usize> {
        let taken = self.list.iter().position(|entry| entry.taken_by.as_ref() == Some(waiter));
        let is_free = |entry: &Entry| entry.taken_by.is_none() && entry.needed.missing_from(client).is_none();
        taken.or_else(|| self.list.iter().position(is_free))
    }

    fn take(&mut self, client: &ClientCapabilities, waiter: &Waiter) -> Option<(u64, InputRequest)> {
        let at = self.free(client, waiter)?;
        let entry = &mut self.list[at];
        entry.taken_by = Some(waiter.clone());
        Some((entry.number, entry.request.clone()))
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let at = self.list.iter().position(|entry| entry.number == number)?;
        Some(self.list.remove(at))
    }
}

impl RunningTask {
    /// Offers an input request to other nodes until the guard is dropped.
    pub(crate) fn offer(&self, request: &InputRequest, needed: &ClientCapabilities) -> Offer<'_> {
        let (sender, answer) = oneshot::channel();
        let number = self.streams(|streams| {
            let offers = &mut streams.offers;
            offers.last += 1;
            let (request, needed) = (request.clone(), needed.clone());
            offers.list.push(Entry { number: offers.last, request, needed, taken_by: None, answer: sender });
            offers.last
        });
        self.wake();
        Offer { task: self, number, answer }
    }

    /// Waits for an offer that a client can answer, and takes it. Returns `None` when the task ends.
    pub(super) async fn take_offer(&self, client: &ClientCapabilities, waiter: &Waiter) -> Option<(u64, InputRequest)> {
        loop {
            self.wait_until(|| self.is_over() || self.streams(|streams| streams.offers.free(client, waiter).is_some()))
                .await;
            if self.is_over() {
                return None;
            }
            // Another waiter may have taken it.
            if let Some(taken) = self.streams(|streams| streams.offers.take(client, waiter)) {
                return Some(taken);
            }
        }
    }

    /// Passes an answer to its offer.
    pub(super) fn answer_offer(&self, number: u64, answer: OfferAnswer) {
        if let Some(entry) = self.streams(|streams| streams.offers.remove(number)) {
            // The handler may have stopped waiting in this moment.
            let _ = entry.answer.send(answer);
        }
    }

    /// Ends the offers that a request took which no longer waits.
    pub(super) fn waiter_left(&self, waiter: &Waiter) {
        let left = self.streams(|streams| {
            let taken = |entry: &mut Entry| entry.taken_by.as_ref() == Some(waiter);
            streams.offers.list.extract_if(.., taken).collect::<Vec<_>>()
        });
        for entry in left {
            let _ = entry.answer.send(OfferAnswer::Gone);
        }
    }
}

/// An input request that other nodes can take. Dropping it withdraws the offer.
pub(crate) struct Offer<'a> {
    task: &'a RunningTask,
    number: u64,
    answer: oneshot::Receiver<OfferAnswer>,
}

impl Offer<'_> {
    /// Waits for the answer of another node. Never returns without a fleet.
    pub(crate) async fn answered(&mut self, node: Option<&Node>) -> OfferAnswer {
        let Some(node) = node else { return std::future::pending().await };
        loop {
            if let Ok(answer) = timeout(node.limits().renewal, &mut self.answer).await {
                return answer.unwrap_or(OfferAnswer::Gone);
            }
            let taken_by = self.task.streams(|streams| {
                streams.offers.list.iter().find(|entry| entry.number == self.number)?.taken_by.clone()
            });
            if let Some(waiter) = taken_by
                && node.is_alive(&waiter.node).await == Ok(false)
            {
                return OfferAnswer::Gone;
            }
        }
    }

    /// Whether a node took the offer.
    pub(crate) fn is_taken(&self) -> bool {
        self.task.streams(|streams| {
            let entry = streams.offers.list.iter().find(|entry| entry.number == self.number);
            // A missing entry is answered.
            entry.is_none_or(|entry| entry.taken_by.is_some())
        })
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.task.streams(|streams| streams.offers.remove(self.number));
    }
}
