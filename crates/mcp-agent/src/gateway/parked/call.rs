//! One parked call: its questions, their answers, and its result.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{
    CreateMessageResult, ElicitAction, ElicitResult, InputRequest, InputRequests, JsonObject, ListRootsResult,
    Method as _, Role, Root, SamplingContent, method,
};
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout_at},
};

use super::{ParkedError, ParkedRound, Refused, Shared};

/// The most questions of a call that wait for answers at the same time.
const OPEN: usize = 64;
/// The most questions of a call.
const QUESTIONS: usize = 1024;
/// The time in which further questions join the round of the first one.
const GATHER: Duration = Duration::from_millis(20);
/// The time for which a call stays after another node received its result, and for which a repeatable result waits.
const SHORT: Duration = Duration::from_secs(30);
/// The keys of input requests are this text with the number of the question.
const KEY: &str = "question-";

/// A call that can be parked.
pub(super) struct ParkedCall<R, C> {
    pub(super) id: u64,
    state: Mutex<State<R, C>>,
    /// Changes with the state.
    changed: watch::Sender<()>,
}

struct State<R, C> {
    /// The question with number `n` has index `n - 1`.
    questions: Vec<Question>,
    result: Option<R>,
    /// The result is too large to wait for a round. A round that waits receives it.
    is_fleeting: bool,
    was_dropped: bool,
    has_ended: bool,
    /// The end of a round ends the call. No other round can begin.
    is_over: bool,
    /// Another node received the result, and can request it again.
    is_delivered: bool,
    /// The server can return the result again.
    is_repeatable: bool,
    /// The time of the result.
    completed: Option<Instant>,
    /// The rounds that wait, in their order. A round of another node has no request.
    rounds: BTreeMap<u64, Option<C>>,
    next_round: u64,
    last_round: Instant,
    /// The request of the round whose end ended the call.
    last_request: Option<C>,
    /// The keys of the hashes of responses.
    hashes: RandomState,
}

enum Question {
    Open {
        request: InputRequest,
        answer: oneshot::Sender<Value>,
        /// Another call of the client can have caused the question. The result waits for the response, so that this call continues.
        is_of_any_call: bool,
    },
    /// The hash of the response, by which a repeated response is known.
    Answered(u64),
    /// The upstream server withdrew the question.
    Withdrawn,
}

impl<R: Clone, C> ParkedCall<R, C> {
    pub(super) fn new(id: u64) -> Self {
        let state = State {
            questions: Vec::new(),
            result: None,
            is_fleeting: false,
            was_dropped: false,
            has_ended: false,
            is_over: false,
            is_delivered: false,
            is_repeatable: false,
            completed: None,
            rounds: BTreeMap::new(),
            next_round: 0,
            last_round: Instant::now(),
            last_request: None,
            hashes: RandomState::new(),
        };
        Self { id, state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// Waits for the result, or for questions without a response. The questions that a server sends at the same time share a round.
    pub(super) async fn round(&self) -> Result<ParkedRound<R>, ParkedError> {
        let mut changed = self.changed.subscribe();
        loop {
            let mut round = self.state().round(self.id);
            if matches!(round, Some(Ok(ParkedRound::Asked { .. }))) {
                sleep(GATHER).await;
                round = self.state().round(self.id);
            }
            if let Some(round) = round {
                return round;
            }
            if changed.changed().await.is_err() {
                return Err(ParkedError::Gone);
            }
        }
    }

    /// Sends responses to the questions up to a number. Responses to other keys have no effect, nor has an equal response to an
    /// answered question: a client repeats a round whose reply it has not received.
    ///
    /// # Errors
    /// [`ParkedError::Answered`] or [`ParkedError::Invalid`]. No question has a response then.
    pub(super) fn answer(&self, number: u32, responses: JsonObject) -> Result<(), ParkedError> {
        self.state().answer(number, responses)
    }

    /// Checks responses as [`ParkedCall::answer`] does, and sends none. Returns also the fault of a call that has no result for the round.
    pub(super) fn check(&self, number: u32, responses: &JsonObject) -> Result<(), ParkedError> {
        let state = self.state();
        state.answers(number, responses)?;
        state.fault().map_or(Ok(()), Err)
    }

    /// Sends responses as [`ParkedCall::answer`] does, and marks their round as waiting.
    pub(super) fn begin_round(
        &self,
        number: u32,
        responses: JsonObject,
        request: Option<C>,
    ) -> Result<Wait<'_, R, C>, ParkedError> {
        let mut state = self.state();
        if state.is_over {
            return Err(ParkedError::Gone);
        }
        state.answer(number, responses)?;
        // The call cannot continue before the lock is released.
        Ok(Wait { call: self, number: state.add_round(request) })
    }

    /// Stores the result. If it does not fit into the limits, only a round that waits receives it.
    pub(super) fn complete(&self, result: R, fits: bool) {
        {
            let mut state = self.state();
            state.is_fleeting = !fits;
            state.completed = Some(Instant::now());
            if fits || !state.rounds.is_empty() {
                state.result = Some(result);
            } else {
                state.was_dropped = true;
            }
        }
        self.changed.send_replace(());
    }
}

impl<R, C> ParkedCall<R, C> {
    /// Whether a round waits.
    pub(super) fn has_rounds(&self) -> bool {
        !self.state().rounds.is_empty()
    }

    /// Waits until no round waits.
    pub(super) async fn until_no_round(&self) {
        let mut changed = self.changed.subscribe();
        while self.has_rounds() && changed.changed().await.is_ok() {}
    }

    /// Marks a round as waiting. The lifetime of the call begins anew when the value is dropped.
    pub(super) fn wait(&self, request: Option<C>) -> Wait<'_, R, C> {
        Wait { call: self, number: self.state().add_round(request) }
    }

    /// Shortens the lifetime of a call whose result another node received.
    pub(super) fn delivered(&self) {
        self.state().is_delivered = true;
        self.changed.send_replace(());
    }

    /// Shortens the lifetime of the call from its result on.
    pub(super) fn shorten(&self) {
        self.state().is_repeatable = true;
        self.changed.send_replace(());
    }

    /// Removes the call and ends each wait when the value is dropped.
    pub(super) fn ending(self: &Arc<Self>, shared: Weak<Shared<R, C>>) -> Ending<R, C> {
        Ending { call: Arc::clone(self), shared }
    }

    /// Waits until no round has waited for the lifetime.
    pub(super) async fn lapsed(&self, lifetime: Duration) {
        let mut changed = self.changed.subscribe();
        loop {
            let now = Instant::now();
            let end = {
                let state = self.state();
                let since = if state.rounds.is_empty() { state.last_round } else { now };
                match state.completed.filter(|_| state.is_repeatable) {
                    Some(completed) => since.max(completed) + lifetime.min(SHORT),
                    None if state.is_delivered => since + lifetime.min(SHORT),
                    None => since + lifetime,
                }
            };
            if end <= now {
                return;
            }
            // Without a change, the future of the changes ends with the call.
            let _ = timeout_at(end, changed.changed()).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<R, C>> {
        self.state.lock()
    }
}

impl<R, C> State<R, C> {
    /// Returns the indexes of the open questions that have a response, with the keys of the responses.
    fn answers(&self, number: u32, responses: &JsonObject) -> Result<Vec<(usize, String)>, ParkedError> {
        let mut answers = Vec::new();
        for (key, response) in responses {
            let question = key.strip_prefix(KEY).and_then(|text| text.parse::<u32>().ok());
            // Another text of the same number names no question.
            let question = question.filter(|question| *question <= number && *key == format!("{KEY}{question}"));
            let Some(index) = question.and_then(|question| question.checked_sub(1)) else { continue };
            let (index, key) = (index as usize, || key.to_owned());
            match self.questions.get(index) {
                Some(Question::Open { request, .. }) => {
                    check(request, response).map_err(|reason| ParkedError::Invalid { key: key(), reason })?;
                    answers.push((index, key()));
                }
                Some(Question::Answered(hash)) if *hash == self.hashes.hash_one(response) => {}
                Some(Question::Answered(_)) => return Err(ParkedError::Answered { key: key() }),
                Some(Question::Withdrawn) | None => {}
            }
        }
        Ok(answers)
    }

    fn answer(&mut self, number: u32, mut responses: JsonObject) -> Result<(), ParkedError> {
        for (index, key) in self.answers(number, &responses)? {
            let Some(response) = responses.remove(&key) else { continue };
            let hash = self.hashes.hash_one(&response);
            let Some(question) = self.questions.get_mut(index) else { continue };
            if let Question::Open { answer, .. } = std::mem::replace(question, Question::Answered(hash)) {
                // The upstream server can withdraw the question at the same time.
                let _ = answer.send(response);
            }
        }
        Ok(())
    }

    /// Returns the fault of each round, if the call has ended without a result for its client.
    fn fault(&self) -> Option<ParkedError> {
        match &self.result {
            Some(_) => None,
            None if self.was_dropped => Some(ParkedError::Dropped),
            None => (self.has_ended || self.is_over).then_some(ParkedError::Gone),
        }
    }

    fn has_question_of_any_call(&self) -> bool {
        self.questions.iter().any(|question| matches!(question, Question::Open { is_of_any_call: true, .. }))
    }

    /// Adds a round that waits, and returns its number.
    fn add_round(&mut self, request: Option<C>) -> u64 {
        self.next_round += 1;
        self.rounds.insert(self.next_round, request);
        self.next_round
    }
}

impl<R: Clone, C> State<R, C> {
    /// Returns the outcome of a round, if the round does not wait.
    fn round(&self, call: u64) -> Option<Result<ParkedRound<R>, ParkedError>> {
        // A result that cannot wait ends the question, which another call of the client then asks.
        if let Some(result) = self.result.as_ref().filter(|_| self.is_fleeting || !self.has_question_of_any_call()) {
            return Some(Ok(ParkedRound::Complete(result.clone())));
        }
        if let Some(fault) = self.fault() {
            return Some(Err(fault));
        }
        let numbered = self.questions.iter().zip(1_u32..);
        let requests: InputRequests = numbered
            .filter_map(|(question, number)| match question {
                Question::Open { request, .. } => Some((format!("{KEY}{number}"), request.clone())),
                _ => None,
            })
            .collect();
        let number = u32::try_from(self.questions.len()).unwrap_or(u32::MAX);
        (!requests.is_empty()).then_some(Ok(ParkedRound::Asked { call, number, requests }))
    }
}

/// A round that waits.
pub(super) struct Wait<'a, R, C> {
    call: &'a ParkedCall<R, C>,
    number: u64,
}

impl<R, C> Wait<'_, R, C> {
    /// Ends the round. Returns whether the end of the round ends the call: if `can_end` is true, and no other round waits. The first
    /// round that ends the call leaves its request. All rounds share one lock, so another round that ends at the same time does not
    /// replace it.
    pub(super) fn end(mut self, can_end: bool) -> bool {
        self.remove(can_end)
    }

    fn remove(&mut self, can_end: bool) -> bool {
        let (ends_call, _dropped) = {
            let mut state = self.call.state();
            let Some(mut round) = state.rounds.remove(&self.number) else { return false };
            state.last_round = Instant::now();
            let is_last = state.rounds.is_empty();
            let ends_call = can_end && is_last;
            state.is_over |= ends_call;
            if ends_call && state.last_request.is_none() {
                state.last_request = round.take();
            }
            let result = if is_last && state.is_fleeting { state.result.take() } else { None };
            state.was_dropped |= result.is_some();
            (ends_call, (round, result))
        };
        self.call.changed.send_replace(());
        ends_call
    }
}

impl<R, C> Drop for Wait<'_, R, C> {
    fn drop(&mut self) {
        self.remove(false);
    }
}

/// The task of a call. Its drop, also by a panic, removes the call and ends each wait.
pub(super) struct Ending<R, C> {
    call: Arc<ParkedCall<R, C>>,
    shared: Weak<Shared<R, C>>,
}

impl<R, C> Drop for Ending<R, C> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.remove(self.call.id);
        }
        self.call.state().has_ended = true;
        self.call.changed.send_replace(());
    }
}

/// Receives the questions of the upstream server during a call.
pub(crate) struct Questions<R, C> {
    shared: Weak<Shared<R, C>>,
    call: Weak<ParkedCall<R, C>>,
}

impl<R, C: Clone> Questions<R, C> {
    pub(super) fn new(shared: &Arc<Shared<R, C>>, call: &Arc<ParkedCall<R, C>>) -> Self {
        Self { shared: Arc::downgrade(shared), call: Arc::downgrade(call) }
    }

    /// Returns the newest round of this node that waits; `None` if no round waits.
    pub(crate) fn request(&self) -> Option<C> {
        self.call.upgrade()?.state().rounds.values().rev().find_map(Clone::clone)
    }

    /// Returns the request of the round that ended the call, because the client cancelled it.
    pub(crate) fn last_request(&self) -> Option<C> {
        self.call.upgrade()?.state().last_request.clone()
    }

    /// Parks the call, and waits for the response to a question. The drop of the future withdraws the question. `is_of_any_call`:
    /// another call of the client can have caused the question.
    ///
    /// # Errors
    /// [`Refused`] at once if the call cannot be parked, or when it ends.
    pub(crate) async fn ask(&self, request: InputRequest, is_of_any_call: bool) -> Result<Value, Refused> {
        let (shared, call) = self.shared.upgrade().zip(self.call.upgrade()).ok_or(Refused::Ended)?;
        shared.park(call.id)?;
        let bytes = size(&request);
        shared.reserve(call.id, bytes)?;
        let _reserved = Reserved { shared: Weak::clone(&self.shared), id: call.id, bytes };
        drop(shared);
        let (answer, answered) = oneshot::channel();
        let index = call.state().push(Question::Open { request, answer, is_of_any_call })?;
        let _withdrawal = Withdrawal { call: Weak::clone(&self.call), index };
        call.changed.send_replace(());
        drop(call);
        answered.await.map_err(|_| Refused::Ended)
    }
}

impl<R, C> Clone for Questions<R, C> {
    fn clone(&self) -> Self {
        Self { shared: Weak::clone(&self.shared), call: Weak::clone(&self.call) }
    }
}

impl<R, C> State<R, C> {
    /// Adds a question, and returns its index.
    fn push(&mut self, question: Question) -> Result<usize, Refused> {
        let open = self.questions.iter().filter(|question| matches!(question, Question::Open { .. })).count();
        if open >= OPEN || self.questions.len() >= QUESTIONS {
            return Err(Refused::Questions);
        }
        self.questions.push(question);
        Ok(self.questions.len() - 1)
    }
}

/// Returns the size of a question as JSON, in bytes.
fn size(request: &InputRequest) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // A JSON value always serializes.
    let _ = serde_json::to_writer(&mut count, &request.params);
    count.0
}

/// The bytes of an open question. Its drop subtracts them.
struct Reserved<R, C> {
    shared: Weak<Shared<R, C>>,
    id: u64,
    bytes: usize,
}

impl<R, C> Drop for Reserved<R, C> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.release(self.id, self.bytes);
        }
    }
}

struct Withdrawal<R, C> {
    call: Weak<ParkedCall<R, C>>,
    index: usize,
}

impl<R, C> Drop for Withdrawal<R, C> {
    fn drop(&mut self) {
        let Some(call) = self.call.upgrade() else { return };
        let mut state = call.state();
        if let Some(question @ Question::Open { .. }) = state.questions.get_mut(self.index) {
            *question = Question::Withdrawn;
        }
    }
}

/// Checks that a response has the form of the result of its request.
///
/// # Errors
/// The member without this form, and its expected form.
fn check(request: &InputRequest, response: &Value) -> Result<(), String> {
    fn is<T: DeserializeOwned>(value: &Value) -> bool {
        T::deserialize(value).is_ok()
    }
    let Value::Object(members) = response else { return Err("it must be a JSON object".to_owned()) };
    let has = |name: &str, is: fn(&Value) -> bool| members.get(name).is_some_and(is);
    let fault = match &*request.method {
        method::Elicit::NAME if is::<ElicitResult>(response) => return Ok(()),
        method::Elicit::NAME if !has("action", is::<ElicitAction>) => {
            "`action` must be \"accept\", \"decline\" or \"cancel\""
        }
        method::Elicit::NAME if members.get("content").is_some_and(|content| !content.is_object()) => {
            "`content` must be a JSON object"
        }
        method::CreateMessage::NAME if is::<CreateMessageResult>(response) => return Ok(()),
        method::CreateMessage::NAME if !has("role", is::<Role>) => "`role` must be \"assistant\" or \"user\"",
        method::CreateMessage::NAME if !has("model", Value::is_string) => "`model` must be a string",
        method::CreateMessage::NAME if !has("content", is::<SamplingContent>) => {
            "`content` must be a content block or a list of content blocks"
        }
        method::ListRoots::NAME if is::<ListRootsResult>(response) => return Ok(()),
        method::ListRoots::NAME if !has("roots", is::<Vec<Root>>) => "`roots` must be a list of objects with a `uri`",
        method::Elicit::NAME | method::CreateMessage::NAME | method::ListRoots::NAME => {
            "an optional member has another type than the specification names"
        }
        _ => return Ok(()),
    };
    Err(fault.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fault_of_a_response_names_the_member_and_its_form() {
        let object = "it must be a JSON object";
        let action = "`action` must be \"accept\", \"decline\" or \"cancel\"";
        for (method, response, expected) in [
            ("elicitation/create", json!(5), Some(object)),
            ("elicitation/create", json!({}), Some(action)),
            ("elicitation/create", json!({ "action": "nope" }), Some(action)),
            (
                "elicitation/create",
                json!({ "action": "accept", "content": [] }),
                Some("`content` must be a JSON object"),
            ),
            ("elicitation/create", json!({ "action": "accept", "content": { "name": "ada" }, "vendor": 1 }), None),
            ("sampling/createMessage", json!({}), Some("`role` must be \"assistant\" or \"user\"")),
            ("sampling/createMessage", json!({ "role": "user", "content": "x" }), Some("`model` must be a string")),
            (
                "sampling/createMessage",
                json!({ "role": "user", "model": "m", "content": "x" }),
                Some("`content` must be a content block or a list of content blocks"),
            ),
            ("roots/list", json!([]), Some(object)),
            ("roots/list", json!({ "roots": [{}] }), Some("`roots` must be a list of objects with a `uri`")),
            ("roots/list", json!({ "roots": [] }), None),
        ] {
            let checked = check(&InputRequest::new(method, None), &response);
            assert_eq!(checked.err().as_deref(), expected, "{method} {response}");
        }
    }
}
