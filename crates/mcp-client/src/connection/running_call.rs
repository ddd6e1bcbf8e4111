//! The call that a request of the server belongs to, and the handler of that call.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use mcp_protocol::{ClientCapabilities, Method, RpcError, method};
use mcp_transport::PauseClock;
use parking_lot::Mutex;

/// The call that caused a request of the server ([`InputContext::call`](crate::InputContext::call)).
///
/// ```
/// use mcp_client::{Client, protocol::ElicitResult};
///
/// let builder = Client::builder("my-app", "1.0").on_elicit(async |form| {
///     match form.call() {
///         Some(call) => println!("{:?} asks during {}", call.name(), call.method()),
///         None => println!("the server asks"),
///     }
///     Ok(ElicitResult::decline())
/// });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    method: Box<str>,
    name: Option<Box<str>>,
}

impl CallInfo {
    /// Returns the method, such as `tools/call`.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the name of the tool or of the prompt, or the URI of the resource; `None` if the method has none of them.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// A call that the server can ask for input.
pub(crate) struct RunningCall {
    /// A later call has a larger number.
    number: u64,
    pub(crate) info: CallInfo,
    own: Option<Arc<OwnHandler>>,
    /// The ids of the first requests of the call. A task can ask on the route of a request that has its answer.
    requests: Mutex<Vec<i64>>,
    /// Paused while the handler of the call answers. Most calls are never asked, and have no clock.
    clock: OnceLock<PauseClock>,
    /// The number of requests of the server that the handler of the call answers now.
    answering: AtomicUsize,
}

/// A request of the server that the handler of a call answers. The drop of the value ends the answer.
pub(crate) struct Answering(Arc<RunningCall>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handler of a call. The room `inbound` defines its type.
pub(crate) struct OwnHandler {
    pub(crate) handler: Box<dyn Any + Send + Sync>,
    /// Equal for two handlers that are the same object.
    pub(crate) identity: usize,
    pub(crate) declared: ClientCapabilities,
    /// Equal for the calls of one caller, and for no other caller.
    pub(crate) caller: Option<Arc<str>>,
    /// Returns the reason for which the caller drops the call.
    pub(crate) reason: fn(&(dyn Any + Send + Sync)) -> Option<String>,
}

/// The number of remembered requests of a call.
const REQUESTS: usize = 16;

impl RunningCall {
    pub(crate) fn new(method: &str, name: Option<&str>, own: Option<OwnHandler>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let info = CallInfo { method: method.into(), name: name.map(Into::into) };
        Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            info,
            own: own.map(Arc::new),
            requests: Mutex::default(),
            clock: OnceLock::new(),
            answering: AtomicUsize::new(0),
        })
    }

    /// Returns the number of the call.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the clock that is paused while the handler of the call answers.
    pub(crate) fn clock(&self) -> &PauseClock {
        self.clock.get_or_init(PauseClock::new)
    }

    /// Returns the clock if the server has asked during the call.
    pub(crate) fn used_clock(&self) -> Option<&PauseClock> {
        self.clock.get()
    }

    /// Whether the handler of the call answers a request of the server now.
    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Acquire) > 0
    }

    /// Records that the handler of the call answers a request of the server.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.answering.fetch_add(1, Ordering::AcqRel);
        Answering(Arc::clone(self))
    }

    /// Records that the call sent a request with this id.
    pub(crate) fn sent(&self, id: i64) {
        let mut requests = self.requests.lock();
        if requests.len() < REQUESTS {
            requests.push(id);
        }
    }

    /// Returns true if the call sent the request with this id.
    pub(crate) fn has_sent(&self, id: i64) -> bool {
        self.requests.lock().contains(&id)
    }

    /// Returns the id of the first request of the call. A later call has a larger one.
    fn first_request(&self) -> Option<i64> {
        self.requests.lock().first().copied()
    }

    /// Returns the caller of the call, if its handler names one.
    fn caller(&self) -> Option<&Arc<str>> {
        self.own()?.caller.as_ref()
    }

    /// Whether this is a request for the result of a task (2025-11-25). The questions of a task name it.
    pub(crate) fn waits_for_result(&self) -> bool {
        self.info.method() == method::GetTaskPayload::NAME
    }

    /// Whether this is a request for the result of this task.
    pub(crate) fn waits_for_task(&self, id: &str) -> bool {
        self.waits_for_result() && self.info.name() == Some(id)
    }

    /// Returns the handler of the call.
    pub(crate) fn own(&self) -> Option<&Arc<OwnHandler>> {
        self.own.as_ref()
    }

    /// Returns the reason for which the caller drops the call, if its handler has one.
    pub(crate) fn cancellation_reason(&self) -> Option<String> {
        let own = self.own()?;
        // The drop of a call must not panic.
        catch_unwind(AssertUnwindSafe(|| (own.reason)(&*own.handler))).ok().flatten()
    }

    /// Returns the identity of the handler of the call if it answers this method of the server.
    fn handler_of(&self, method: &str) -> Option<usize> {
        self.own()?.identity_for(method)
    }
}

impl OwnHandler {
    /// Returns the identity of the handler if it answers this method of the server.
    fn identity_for(&self, method: &str) -> Option<usize> {
        let answers = match method {
            method::Elicit::NAME => self.declared.elicitation.is_some(),
            method::CreateMessage::NAME => self.declared.supports_sampling(),
            method::ListRoots::NAME => self.declared.supports_roots(),
            _ => false,
        };
        answers.then_some(self.identity)
    }
}

impl fmt::Debug for OwnHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnHandler").field("declared", &self.declared).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCall").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The origin of a request of the server.
#[derive(Debug, Clone)]
pub(crate) enum Asker {
    /// The server asks outside of calls, or during several calls with the same handler.
    Server {
        /// The calls with the common handler.
        calls: Option<Arc<RunningCall>>,
    },
    /// This call caused the request.
    Call(Arc<RunningCall>),
    /// One of the calls of a caller caused the request.
    OneOf {
        /// The handler of this call answers.
        call: Arc<RunningCall>,
        /// The calls of the caller. A strong reference would keep a call among the running ones.
        candidates: Vec<Weak<RunningCall>>,
    },
    /// The request belongs to a call that has ended.
    Ended,
    /// Calls with different handlers are running or were cancelled. The client does not guess.
    Ambiguous,
}

impl Asker {
    /// Returns the origin of a request that names no call, while these calls are running. A cancelled call can have caused
    /// the request too. `cancelled` contains the handlers of such calls.
    pub(crate) fn among(
        method: &str,
        mut calls: impl Iterator<Item = Arc<RunningCall>>,
        cancelled: &[Option<Arc<OwnHandler>>],
    ) -> Self {
        let Some(first) = calls.next() else {
            let mut cancelled = cancelled.iter().flatten();
            let has_ended = cancelled.any(|own| own.identity_for(method).is_some());
            return if has_ended { Self::Ended } else { Self::Server { calls: None } };
        };
        let others: Vec<_> = calls.collect();
        if others.is_empty() && cancelled.is_empty() {
            return Self::Call(first);
        }
        if let Some(caller) = first.caller()
            && others.iter().all(|other| other.caller() == Some(caller))
            && cancelled.iter().all(|own| own.as_ref().and_then(|own| own.caller.as_ref()) == Some(caller))
        {
            let calls: Vec<_> = std::iter::once(first).chain(others).collect();
            return Self::of_caller(method, &calls).unwrap_or(Self::Server { calls: None });
        }
        let mut cancelled = cancelled.iter().map(|own| own.as_ref().and_then(|own| own.identity_for(method)));
        let handler = first.handler_of(method);
        let is_common = others.iter().all(|other| other.handler_of(method) == handler)
            && cancelled.all(|cancelled| cancelled == handler);
        match (is_common, handler) {
            (true, Some(_)) => Self::Server { calls: Some(first) },
            (true, None) => Self::Server { calls: None },
            (false, _) => Self::Ambiguous,
        }
    }

    /// Selects the call whose handler answers a request during several calls of one caller: the latest call without an open request.
    fn of_caller(method: &str, calls: &[Arc<RunningCall>]) -> Option<Self> {
        let answering = calls.iter().filter(|call| call.handler_of(method).is_some());
        let chosen = answering.max_by_key(|call| (!call.is_answering(), call.first_request()))?;
        Some(Self::OneOf { call: Arc::clone(chosen), candidates: calls.iter().map(Arc::downgrade).collect() })
    }

    /// Selects another running call of the caller, because the call that was selected ended before the answer. It may not have caused
    /// the request.
    pub(crate) fn without_ended(self, method: &str) -> Option<Self> {
        let Self::OneOf { call: ended, candidates } = self else { return None };
        let ended = Arc::downgrade(&ended);
        let others = candidates.iter().filter(|call| !call.ptr_eq(&ended)).filter_map(Weak::upgrade);
        Self::of_caller(method, &others.collect::<Vec<_>>())
    }

    /// Returns the clocks that pause during the answer: those of the calls that can have caused the request, or that of the connection.
    pub(crate) fn clocks(&self, connection: &PauseClock) -> Vec<PauseClock> {
        match self {
            Self::Call(call) => vec![call.clock().clone()],
            Self::OneOf { candidates, .. } => {
                candidates.iter().filter_map(Weak::upgrade).map(|call| call.clock().clone()).collect()
            }
            Self::Server { .. } | Self::Ended | Self::Ambiguous => vec![connection.clone()],
        }
    }

    /// Returns the error of a request that no handler may answer.
    pub(crate) fn refusal(&self) -> Option<RpcError> {
        match self {
            Self::Server { .. } | Self::Call(_) | Self::OneOf { .. } => None,
            Self::Ended => Some(RpcError::invalid_request("the call of this request has ended")),
            Self::Ambiguous => {
                Some(RpcError::invalid_request("several calls can have caused the request, and it names none of them"))
            }
        }
    }

    /// Returns the call whose handler answers.
    pub(crate) fn questions(&self) -> Option<&RunningCall> {
        match self {
            Self::Server { calls } => calls.as_deref(),
            Self::Call(call) | Self::OneOf { call, .. } => Some(call),
            Self::Ended | Self::Ambiguous => None,
        }
    }

    /// Records that the handler of a call answers the request, until the drop of the value.
    pub(crate) fn answering(&self) -> Option<Answering> {
        match self {
            Self::Call(call) | Self::OneOf { call, .. } => Some(call.answer()),
            Self::Server { .. } | Self::Ended | Self::Ambiguous => None,
        }
    }

    /// Returns the call that caused the request.
    pub(crate) fn call(&self) -> Option<&Arc<RunningCall>> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{ElicitationCapability, RootsCapability};

    use super::*;

    #[test]
    fn a_request_without_a_call_is_related_only_if_the_handler_is_certain() {
        let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
        let roots = ClientCapabilities::new().with_roots(RootsCapability::new());
        let call = |own: Option<(usize, &ClientCapabilities)>| {
            let own = own.map(|(identity, declared)| OwnHandler {
                handler: Box::new(()),
                identity,
                declared: declared.clone(),
                caller: None,
                reason: |_| None,
            });
            RunningCall::new("tools/call", Some("t"), own)
        };
        let (plain, form, other_form) = (call(None), call(Some((1, &forms))), call(Some((1, &forms))));
        let root = call(Some((2, &roots)));
        for (method, calls, expected) in [
            ("elicitation/create", vec![], "Server"),
            ("elicitation/create", vec![&form], "Call"),
            ("elicitation/create", vec![&form, &other_form], "Server"),
            ("elicitation/create", vec![&plain, &root], "Server"),
            ("elicitation/create", vec![&plain, &form], "Ambiguous"),
            ("roots/list", vec![&plain, &form], "Server"),
            ("roots/list", vec![&form, &root], "Ambiguous"),
        ] {
            let found = Asker::among(method, calls.into_iter().cloned(), &[]);
            assert!(format!("{found:?}").starts_with(expected), "{method} {found:?}");
            assert_eq!(found.refusal().is_some(), expected == "Ambiguous");
        }
        for (method, calls, cancelled, expected) in [
            ("elicitation/create", vec![], &plain, "Server { calls: None }"),
            ("elicitation/create", vec![], &form, "Ended"),
            ("elicitation/create", vec![&plain], &form, "Ambiguous"),
            ("elicitation/create", vec![&root], &form, "Ambiguous"),
            ("elicitation/create", vec![&form], &plain, "Ambiguous"),
            ("elicitation/create", vec![&form], &other_form, "Server { calls: Some"),
            ("sampling/createMessage", vec![&root], &form, "Server { calls: None }"),
        ] {
            let found = Asker::among(method, calls.into_iter().cloned(), &[cancelled.own().cloned()]);
            assert!(format!("{found:?}").starts_with(expected), "{method} {found:?}");
        }
    }

    #[test]
    fn a_request_without_a_call_is_answered_by_a_call_only_if_all_calls_have_one_caller() {
        let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
        let call = |request: i64, caller: Option<&str>| {
            let own = OwnHandler {
                handler: Box::new(()),
                identity: usize::try_from(request).unwrap(),
                declared: forms.clone(),
                caller: caller.map(Arc::from),
                reason: |_| None,
            };
            let call = RunningCall::new("tools/call", Some("t"), Some(own));
            call.sent(request);
            call
        };
        let (first, second, third) = (call(1, Some("ada")), call(2, Some("ada")), call(3, Some("ada")));
        let (other, unknown, unknown_too) = (call(4, Some("grace")), call(5, None), call(6, None));
        let (none, plain): (Vec<&Arc<RunningCall>>, _) = (vec![], RunningCall::new("tools/call", Some("t"), None));
        let _answering = third.answer();
        for (calls, cancelled, expected) in [
            (vec![&second, &first], none.clone(), Some(2)),
            // The third call has an open request.
            (vec![&third, &first, &second], none.clone(), Some(2)),
            (vec![&first], vec![&second], Some(1)),
            (vec![&first, &other], none.clone(), None),
            (vec![&first], vec![&other], None),
            (vec![&first, &unknown], none.clone(), None),
            (vec![&unknown, &unknown_too], none.clone(), None),
            (vec![&first, &plain], none.clone(), None),
            (vec![&first], vec![&plain], None),
        ] {
            let cancelled: Vec<_> = cancelled.into_iter().map(|call| call.own().cloned()).collect();
            let found = Asker::among("elicitation/create", calls.into_iter().cloned(), &cancelled);
            assert_eq!(found.questions().and_then(RunningCall::first_request), expected, "{found:?}");
            assert_eq!(matches!(found, Asker::Ambiguous), expected.is_none());
        }
        // Each call that ends leaves the request to the other running calls.
        drop(second);
        let calls = [&first, &third].map(Arc::clone);
        let mut found = Some(Asker::among("elicitation/create", calls.into_iter(), &[]));
        let mut chosen = Vec::new();
        while let Some(asker) = found {
            assert_eq!(asker.clocks(&PauseClock::new()).len(), 2 - chosen.len());
            chosen.push(asker.questions().and_then(RunningCall::first_request));
            found = asker.without_ended("elicitation/create");
        }
        assert_eq!(chosen, [Some(1), Some(3)]);
    }
}
