//! Batches: arrays of messages, which sessions of 2025-03-26 may send. One array carries all responses.

use std::{future::poll_fn, sync::Arc, task::Poll};

use bytes::Bytes;
use mcp_protocol::{
    Message, RequestId, RpcError,
    jsonrpc::{self, EnvelopeError},
};
use mcp_transport::BoxFuture;
use serde_json::value::RawValue;

use super::{Engine as _, Era, Prepared};
use crate::{
    Peer, Server, Session,
    request::{Denied, Refusal, Reply, Scope},
    trace::{self, Ending},
};

/// The most messages in a batch.
const MEMBERS: usize = 64;

/// The requests of a batch, in order.
#[derive(Debug)]
pub struct Batch {
    requests: Vec<Member>,
    for_other_nodes: Vec<Box<RawValue>>,
}

#[derive(Debug)]
enum Member {
    Answered(Reply),
    Prepared(Box<Prepared>),
}

impl Server {
    pub(crate) fn batch(
        &self,
        bytes: &[u8],
        session: &Arc<Session>,
        peer: &Peer,
        scope: impl Fn() -> Scope,
    ) -> Result<Batch, Refusal> {
        let limits = self.limits().of_messages();
        let members = jsonrpc::split_batch(bytes, &limits).map_err(|error| error.error).and_then(|members| {
            let text = || format!("a batch has at most {MEMBERS} messages");
            if members.len() > MEMBERS { Err(RpcError::invalid_request(text())) } else { Ok(members) }
        });
        let members = members.map_err(|error| rejected(None, &scope(), error))?;
        let messages: Vec<_> =
            members.iter().map(|member| Message::parse_with(member.get().as_bytes(), &limits)).collect();
        // A client cannot obtain scopes for one member of a batch, so all members are refused together.
        if let Some(denied) = self.denied_members(&messages, &scope()) {
            return Err(Refusal::Denied(denied));
        }
        let (mut requests, mut for_other_nodes) = (Vec::new(), Vec::new());
        for (message, member) in messages.into_iter().zip(members) {
            match message {
                Ok(Message::Request(request)) => {
                    let prepared = match Era::of(&request) {
                        Ok(Era::Session(meta)) => {
                            self.prepare(&request, scope().meta(meta.as_ref())).map_err(Refusal::into_error)
                        }
                        Ok(_) => {
                            let error = RpcError::invalid_request("this request cannot be in a batch");
                            Err(rejected(Some(&request.method), &scope(), error))
                        }
                        Err(error) => Err(rejected(Some(&request.method), &scope(), error.error)),
                    };
                    requests.push(match prepared {
                        // From now on a cancellation finds the request.
                        Ok(mut prepared) => match prepared.enter() {
                            Ok(()) => Member::Prepared(prepared),
                            Err(reply) => Member::Answered(reply),
                        },
                        Err(error) => Member::Answered(Reply::error(Some(&request.id), &error)),
                    });
                }
                Ok(Message::Notification(notification)) => {
                    let cancelled = Self::cancelled_request(&notification).filter(|_| session.is_shared());
                    let is_elsewhere = cancelled.is_some_and(|id| !peer.is_running(&id));
                    if is_elsewhere || self.is_progress_elsewhere(session, &notification) {
                        for_other_nodes.push(member.to_owned());
                    } else {
                        self.notified(Some(session), peer, &notification);
                    }
                }
                Ok(Message::Response(response)) => {
                    let asked_here = response.id.as_ref().and_then(Session::node_of_question).is_none();
                    if !session.answered(&response) && !asked_here {
                        for_other_nodes.push(member.to_owned());
                    }
                }
                Err(error) => {
                    let reason = rejected(None, &scope(), error.error);
                    requests.push(Member::Answered(Reply::error(error.id.as_ref(), &reason)));
                }
            }
        }
        Ok(Batch { requests, for_other_nodes })
    }

    /// Returns the access that the caller lacks for a batch. The access log has an event for each denied request, or one event
    /// for a denied batch without requests.
    fn denied_members(&self, messages: &[Result<Message<'_>, EnvelopeError>], scope: &Scope) -> Option<Denied> {
        // A batch without requests also needs the access of the server.
        let mut all = match self.check_access(scope, &self.data.config.access) {
            Err(Refusal::Denied(denied)) => Some(denied),
            _ => None,
        };
        let mut is_recorded = false;
        for message in messages {
            let Ok(Message::Request(request)) = message else { continue };
            let Some(denied) = self.denied(request, scope) else { continue };
            record(Some(&request.method), scope, Ending::LacksScopes);
            is_recorded = true;
            match &mut all {
                Some(all) => all.merge(denied),
                None => all = Some(denied),
            }
        }
        if all.is_some() && !is_recorded {
            record(None, scope, Ending::LacksScopes);
        }
        all
    }

    /// Returns the ids of the requests in a batch. Returns none if the batch is invalid or has too many messages.
    pub(crate) fn request_ids_of_batch(&self, bytes: &[u8]) -> Vec<RequestId> {
        let limits = self.limits().of_messages();
        let members = jsonrpc::split_batch(bytes, &limits).unwrap_or_default();
        if members.len() > MEMBERS {
            return Vec::new();
        }
        let request_id = |member: &RawValue| match Message::parse_with(member.get().as_bytes(), &limits) {
            Ok(Message::Request(request)) => Some(request.id),
            _ => None,
        };
        members.into_iter().filter_map(request_id).collect()
    }
}

/// Records a rejected message in the access log.
fn rejected(method: Option<&str>, scope: &Scope, error: RpcError) -> RpcError {
    record(method, scope, Ending::Refused(error.code));
    error
}

fn record(method: Option<&str>, scope: &Scope, ending: Ending) {
    trace::refused(method, scope.is_local, scope.principal.as_deref(), ending);
}

impl Batch {
    /// Whether the batch has no requests, and therefore no response.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Takes the responses and cancellations that belong to other nodes of the fleet. Their messages are valid.
    #[must_use]
    pub fn take_for_other_nodes(&mut self) -> Vec<Box<RawValue>> {
        std::mem::take(&mut self.for_other_nodes)
    }

    /// Runs all requests concurrently. Returns `None` when all of them were cancelled.
    ///
    /// Dropping the future cancels the requests.
    pub fn run(self) -> BoxFuture<'static, Option<Bytes>> {
        Box::pin(self.answers())
    }

    async fn answers(self) -> Option<Bytes> {
        let mut running: Vec<(Option<BoxFuture<'static, _>>, Option<Reply>)> = self
            .requests
            .into_iter()
            .map(|request| match request {
                Member::Answered(reply) => (None, Some(reply)),
                Member::Prepared(prepared) => (Some(prepared.run()), None),
            })
            .collect();
        poll_fn(|cx| {
            for (run, reply) in &mut running {
                if let Some(future) = run
                    && let Poll::Ready(outcome) = future.as_mut().poll(cx)
                {
                    (*run, *reply) = (None, outcome);
                }
            }
            if running.iter().all(|(run, _)| run.is_none()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let replies: Vec<Bytes> =
            running.into_iter().filter_map(|(_, reply)| Some(reply?.payload.into_bytes())).collect();
        (!replies.is_empty()).then(|| [&b"["[..], &replies.join(&b","[..]), b"]"].concat().into())
    }
}
