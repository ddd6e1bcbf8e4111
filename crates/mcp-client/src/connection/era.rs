//! Finds out which revision a server speaks, and agrees on one (basic, versioning; transports, §Backward Compatibility).
//!
//! A server is asked `server/discover` first. Its result, and the errors that only the revisions without a handshake have, tell
//! that it speaks one of those. Any other answer, and silence, mean `initialize`.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    DiscoverResult, EmptyParams, ErrorCode, InitializeParams, InitializeResult, JsonObject, Method, NotificationMethod,
    ProtocolVersion, RpcError, SetLevelParams, Shape, jsonrpc,
    method::{Discover, Initialize, SetLevel},
    notification::Initialized,
    tasks::ext::IDENTIFIER,
};
use mcp_transport::{Hints, TransportError};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    Connection, ConnectionManager, Negotiated, OnDrop, Request, RequestExtras, RequestFailure, RequestGuard,
    RequestOutcome, request::MetaTemplate, write_request,
};
use crate::{Error, config::Config, error::Kind};

/// Why nothing was agreed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The connection ended while the server was asked something that not every server knows.
    Died(Error),
    /// The server refused this way of opening; another one may do.
    Refused(Error),
    /// It is of no use to go on.
    Fault(Error),
}

impl HandshakeError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Died(error) | Self::Refused(error) | Self::Fault(error) => error,
        }
    }
}

/// Attempts at a revision that the server says it speaks and then refuses: it is believed twice.
const ATTEMPTS: usize = 3;

/// Asks what the server speaks, and agrees on it.
pub(crate) async fn detect(
    manager: &ConnectionManager,
    connection: &Arc<Connection>,
) -> Result<Negotiated, HandshakeError> {
    let config = &manager.config;
    let Some(mut version) = config.newest_stateless() else {
        let Some(version) = config.newest_legacy() else { return Err(mismatch(config, Vec::new())) };
        return initialize(manager, connection, version).await;
    };
    for _ in 0..ATTEMPTS {
        let mut probe = ask::<Discover>(manager, connection, version, &EmptyParams::new()).await.map_err(died)?;
        let verdict = match timeout(config.probe_timeout, probe.outcome()).await {
            Ok(outcome) => judge(config, version, outcome)?,
            Err(_) => return outlast(manager, connection, version, probe).await,
        };
        match verdict {
            ProbeResult::Agreed(negotiated) => return Ok(*negotiated),
            ProbeResult::Other(other) => version = other,
            ProbeResult::Legacy(legacy) => return initialize(manager, connection, legacy).await,
        }
    }
    Err(mismatch(config, vec![version.as_str().to_owned()]))
}

/// Opens a session with `initialize`.
pub(crate) async fn initialize(
    manager: &ConnectionManager,
    connection: &Arc<Connection>,
    offer: ProtocolVersion,
) -> Result<Negotiated, HandshakeError> {
    let config = &manager.config;
    let mut offer = offer;
    for _ in 0..ATTEMPTS {
        let mut params = InitializeParams::new(offer.as_str(), config.capabilities(), config.info.clone());
        params.shape(offer);
        // A server in the middle of its start may be slow; the time to connect bounds this.
        let outcome = ask::<Initialize>(manager, connection, offer, &params).await.map_err(died)?.outcome().await;
        let result = match outcome {
            Ok(result) => result,
            Err(RequestFailure::Rpc(error)) => {
                // Some servers answer an offer that they do not know with a list of those that they do.
                let other =
                    supported(&error).and_then(|theirs| newest(config, &theirs, ProtocolVersion::has_handshake));
                match other.filter(|other| *other != offer) {
                    Some(other) => offer = other,
                    None => return Err(HandshakeError::Refused(Kind::Rpc(error).into())),
                }
                continue;
            }
            Err(failure) => return Err(stop(failure)),
        };
        let result: InitializeResult = serde_json::from_slice(&result).map_err(|error| {
            HandshakeError::Fault(Error::invalid(format!("the result of {}: {error}", Initialize::NAME)))
        })?;
        let version = ProtocolVersion::parse(&result.protocol_version)
            .filter(|version| version.has_handshake() && config.versions.contains(version))
            .ok_or_else(|| mismatch(config, vec![result.protocol_version.clone()]))?;
        let mut negotiated = Negotiated::new(version);
        negotiated.server_info = result.server_info;
        negotiated.capabilities = result.capabilities;
        negotiated.instructions = result.instructions;
        agree(config, connection, negotiated.clone());
        let message = jsonrpc::notification(Initialized::NAME, &EmptyParams::new())
            .map_err(|error| HandshakeError::Fault(Error::request(error.to_string())))?;
        let sent = connection.sender.send(connection.notice(Initialized::NAME, message)).await;
        sent.map_err(|fault| HandshakeError::Fault(Kind::Lost(Some(fault)).into()))?;
        return Ok(negotiated);
    }
    Err(mismatch(config, vec![offer.as_str().to_owned()]))
}

/// Says on the connection what was agreed.
pub(crate) fn agree(config: &Config, connection: &Connection, negotiated: Negotiated) {
    let capabilities = config.capabilities();
    let stamp = MetaTemplate::new(negotiated.version, &capabilities, &config.info);
    let with_tasks = capabilities.with_extension(IDENTIFIER, JsonObject::new());
    let with_tasks = MetaTemplate::new(negotiated.version, &with_tasks, &config.info);
    connection.agree(negotiated, stamp, with_tasks);
}

/// Asks a new session for the log messages that are wanted: what a former one was asked for is forgotten with it. A server that
/// refuses is one without them.
pub(crate) async fn ask_for_logs(manager: &ConnectionManager, connection: &Arc<Connection>) {
    let (Some(agreed), Some(level)) = (connection.agreed(), manager.log_level()) else { return };
    let negotiated = &agreed.negotiated;
    let is_missing = negotiated.lacks(SetLevel::NAME).is_some() && manager.config.trusts_capabilities;
    if is_missing || !negotiated.version.has_session_methods() {
        return;
    }
    let Ok(request) = Request::of::<SetLevel>(&SetLevelParams::new(level)) else { return };
    let id = manager.next_id();
    let mut hints = Hints::default();
    hints.version = Some(negotiated.version);
    hints.method = Some(SetLevel::NAME.into());
    let message = write_request(id, &request, agreed.stamp(false), &RequestExtras::default());
    let asking = async { connection.begin_beside(id, message, hints, OnDrop::Cancel).await?.outcome().await };
    match timeout(manager.config.probe_timeout, asking).await {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => tracing::debug!(?failure, %level, "the server does not set the level of its log messages"),
        Err(_) => tracing::debug!(%level, "the server does not answer when it is asked for log messages"),
    }
}

/// How long the answer to the question what a server is holds, when that is asked again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The question whether a server is still what it was taken for: it is asked once at a time, and the answer is remembered.
#[derive(Default)]
pub(crate) struct EraCheck(Mutex<Option<EraCheckRun>>);

struct EraCheckRun {
    at: Instant,
    verdict: watch::Receiver<Option<bool>>,
}

impl EraCheck {
    /// The answer that is remembered or on its way, or else what `begin` finds.
    fn join(&self, begin: impl FnOnce(watch::Sender<Option<bool>>)) -> watch::Receiver<Option<bool>> {
        let mut asked = self.0.lock();
        if let Some(asked) = &*asked {
            let is_under_way = asked.verdict.borrow().is_none() && asked.verdict.has_changed().is_ok();
            if is_under_way || asked.at.elapsed() < REMEMBERED {
                return asked.verdict.clone();
            }
        }
        let (sender, verdict) = watch::channel(None);
        begin(sender);
        *asked = Some(EraCheckRun { at: Instant::now(), verdict: verdict.clone() });
        verdict
    }
}

/// Whether a failure could be that of a server of another era than was assumed or agreed on: one that was exchanged. Where it was
/// agreed on, only what such servers say, and only where one server can take the place of another on a connection.
pub(crate) fn is_doubtful(connection: &Connection, failure: &RequestFailure) -> bool {
    let is_assumed = connection.is_assumed();
    let may_be_another = is_assumed || connection.sender.has_request_streams();
    if !may_be_another || !connection.version().is_some_and(ProtocolVersion::is_stateless) {
        return false;
    }
    match failure {
        RequestFailure::Rpc(error) if is_assumed => error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        RequestFailure::Rpc(error) => {
            matches!(error.code, NO_SESSION | ErrorCode::INVALID_REQUEST | ErrorCode::METHOD_NOT_FOUND)
        }
        RequestFailure::Invalid(_) => is_assumed,
        RequestFailure::Transport(fault) => match fault.http_status() {
            Some(400 | 405) => true,
            Some(404) => is_assumed,
            _ => false,
        },
        RequestFailure::Unsendable(_) | RequestFailure::Lost { .. } => false,
    }
}

/// What widespread servers of sessions answer to a request without one, and others to whatever went wrong.
const NO_SESSION: ErrorCode = ErrorCode(-32000);

/// Whether a server that turned out to be of another era has done nothing with the request that it answered so.
pub(crate) fn is_refusal(failure: &RequestFailure) -> bool {
    match failure {
        RequestFailure::Rpc(error) => {
            matches!(error.code, ErrorCode::INVALID_REQUEST | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_PARAMS)
        }
        RequestFailure::Transport(fault) => matches!(fault.http_status(), Some(400 | 404 | 405)),
        _ => false,
    }
}

/// Whether a server is not what it was taken for, which is asked when it answers as none of that era would: it was exchanged for
/// another one. Then the connection takes no more requests.
pub(crate) async fn has_changed(manager: &Arc<ConnectionManager>, connection: &Arc<Connection>) -> bool {
    let mut verdict = find_out(manager, connection);
    verdict.wait_for(Option::is_some).await.is_ok_and(|verdict| *verdict == Some(true))
}

/// Begins to find that out, and goes on when nobody waits for it.
pub(crate) fn find_out(
    manager: &Arc<ConnectionManager>,
    connection: &Arc<Connection>,
) -> watch::Receiver<Option<bool>> {
    connection.probe.join(|verdict| {
        let (manager, connection) = (Arc::clone(manager), Arc::clone(connection));
        tokio::spawn(async move {
            let is_another = is_another(&manager, &connection).await;
            if is_another {
                tracing::debug!("the server is not of the era any more that it was taken for");
                connection.retire(TransportError::closed());
            }
            verdict.send_replace(Some(is_another));
        });
    })
}

async fn is_another(manager: &ConnectionManager, connection: &Arc<Connection>) -> bool {
    let config = &manager.config;
    let Some(version) = connection.version() else { return false };
    let asking = async { ask::<Discover>(manager, connection, version, &EmptyParams::new()).await?.outcome().await };
    // One that has spoken so before may be slow.
    let Ok(outcome) = timeout(config.probe_timeout, asking).await else {
        return connection.is_assumed() && config.newest_legacy().is_some();
    };
    match judge(config, version, outcome) {
        Ok(ProbeResult::Agreed(found)) if found.version == version => {
            connection.assume(false);
            false
        }
        Ok(_) | Err(HandshakeError::Died(_)) => true,
        Err(_) => false,
    }
}

/// What an answer to `server/discover` says.
enum ProbeResult {
    /// It speaks a revision without a handshake.
    Agreed(Box<Negotiated>),
    /// It speaks another revision without a handshake.
    Other(ProtocolVersion),
    /// It wants `initialize`, with this offer.
    Legacy(ProtocolVersion),
}

fn judge(config: &Config, asked: ProtocolVersion, outcome: RequestOutcome) -> Result<ProbeResult, HandshakeError> {
    let legacy = |error: Error| match config.newest_legacy() {
        Some(version) => Ok(ProbeResult::Legacy(version)),
        None => Err(HandshakeError::Refused(error)),
    };
    match outcome {
        Ok(result) => {
            let Ok(mut result) = serde_json::from_slice::<DiscoverResult>(&result) else {
                return legacy(Error::invalid("the result of server/discover names no revisions"));
            };
            let theirs = std::mem::take(&mut result.supported_versions);
            match choose(config, &theirs)? {
                version if version.has_handshake() => Ok(ProbeResult::Legacy(version)),
                version => Ok(ProbeResult::Agreed(Box::new(discovered(version, theirs, result)))),
            }
        }
        Err(RequestFailure::Rpc(error)) => match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
                let theirs = supported(&error).unwrap_or_default();
                match choose(config, &theirs)? {
                    version if version.has_handshake() => Ok(ProbeResult::Legacy(version)),
                    // Also the one that was refused: servers have been seen to think again.
                    version => Ok(ProbeResult::Other(version)),
                }
            }
            // Only a server without a handshake says this, and `initialize` would not help.
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH => {
                tracing::debug!(%error, version = %asked, "the server refuses to be discovered");
                Err(HandshakeError::Fault(Kind::Rpc(error).into()))
            }
            _ => legacy(Kind::Rpc(error).into()),
        },
        Err(RequestFailure::Transport(fault)) => match fault.http_status() {
            Some(400 | 404 | 405) => legacy(Kind::Transport(fault).into()),
            Some(_) => Err(HandshakeError::Fault(Kind::Transport(fault).into())),
            None if fault.is_unanswered() => legacy(Kind::Transport(fault).into()),
            None => Err(HandshakeError::Fault(Kind::Transport(fault).into())),
        },
        Err(RequestFailure::Invalid(text)) => legacy(Error::invalid(text)),
        Err(failure @ (RequestFailure::Lost { .. } | RequestFailure::Unsendable(_))) => Err(died(failure)),
    }
}

/// The server is silent: it is taken for one that ignores what it does not know, unless it answers after all.
async fn outlast(
    manager: &ConnectionManager,
    connection: &Arc<Connection>,
    version: ProtocolVersion,
    mut probe: RequestGuard,
) -> Result<Negotiated, HandshakeError> {
    let config = &manager.config;
    let Some(legacy) = config.newest_legacy() else {
        return Err(HandshakeError::Fault(Error::timeout(Discover::NAME, config.probe_timeout)));
    };
    tracing::debug!("the server does not answer `server/discover`");
    let opening = initialize(manager, connection, legacy);
    tokio::pin!(opening);
    tokio::select! {
        opened = &mut opening => return opened,
        outcome = probe.outcome() => {
            // Unless the other way was agreed on in the same moment: the first word counts.
            if connection.agreed().is_none()
                && let Ok(ProbeResult::Agreed(negotiated)) = judge(config, version, outcome)
            {
                return Ok(*negotiated);
            }
        }
    }
    opening.await
}

fn discovered(version: ProtocolVersion, theirs: Vec<String>, mut result: DiscoverResult) -> Negotiated {
    let mut negotiated = Negotiated::new(version);
    negotiated.server_info = result.meta.take().and_then(|meta| meta.server_info()).unwrap_or_default();
    negotiated.capabilities = result.capabilities;
    negotiated.instructions = result.instructions;
    negotiated.supported_versions = theirs;
    negotiated
}

/// The newest revision without a handshake that both speak, or else the newest with one.
fn choose(config: &Config, theirs: &[String]) -> Result<ProtocolVersion, HandshakeError> {
    newest(config, theirs, ProtocolVersion::is_stateless)
        .or_else(|| newest(config, theirs, ProtocolVersion::has_handshake))
        .ok_or_else(|| mismatch(config, theirs.to_vec()))
}

fn newest(config: &Config, theirs: &[String], which: fn(ProtocolVersion) -> bool) -> Option<ProtocolVersion> {
    config.versions.iter().copied().find(|ours| which(*ours) && theirs.iter().any(|version| version == ours.as_str()))
}

/// The revisions that an error lists.
fn supported(error: &RpcError) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    Data::deserialize(error.data.as_ref()?).ok().map(|data| data.supported)
}

async fn ask<M: Method>(
    manager: &ConnectionManager,
    connection: &Arc<Connection>,
    version: ProtocolVersion,
    params: &M::Params,
) -> Result<RequestGuard, RequestFailure> {
    let config = &manager.config;
    let stamp = MetaTemplate::new(version, &config.capabilities(), &config.info);
    let request = Request::of::<M>(params).map_err(|error| RequestFailure::Invalid(error.to_string().into()))?;
    let id = manager.next_id();
    let mut hints = Hints::default();
    hints.version = version.is_stateless().then_some(version);
    hints.method = Some(M::NAME.into());
    // What opens a connection is never cancelled: `initialize` may not be, and who does not know the other does not care.
    let message = write_request(id, &request, &stamp, &RequestExtras::default());
    connection.begin_beside(id, message, hints, OnDrop::Forget).await
}

fn mismatch(config: &Config, theirs: Vec<String>) -> HandshakeError {
    HandshakeError::Fault(Kind::Version { ours: config.versions.clone(), theirs }.into())
}

fn died(failure: RequestFailure) -> HandshakeError {
    match failure {
        RequestFailure::Lost { fault, .. } => HandshakeError::Died(Kind::Lost(fault).into()),
        other => stop(other),
    }
}

fn stop(failure: RequestFailure) -> HandshakeError {
    match failure {
        RequestFailure::Rpc(error) => HandshakeError::Refused(Kind::Rpc(error).into()),
        RequestFailure::Invalid(text) => HandshakeError::Refused(Error::invalid(text)),
        RequestFailure::Transport(fault) => match fault.http_status() {
            Some(400 | 404 | 405) => HandshakeError::Refused(Kind::Transport(fault).into()),
            _ => HandshakeError::Fault(Kind::Transport(fault).into()),
        },
        RequestFailure::Unsendable(fault) => HandshakeError::Fault(Kind::Unsendable(fault).into()),
        RequestFailure::Lost { fault, .. } => HandshakeError::Fault(Kind::Lost(fault).into()),
    }
}

/// How long to wait before the `attempt`th try, which counts from 1, give or take a quarter.
pub(crate) fn back_off(first: Duration, longest: Duration, attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let wait = first.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(longest);
    // The keys of a hasher are random, and that is all the randomness that this needs.
    let random = (RandomState::new().hash_one(attempt) % 1024) as u32;
    wait.mul_f64(0.75 + f64::from(random) / 2048.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound_and_never_overflow() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(30));
        for (attempt, millis) in [(1, 200), (2, 400), (5, 3200), (9, 30_000), (u32::MAX, 30_000)] {
            let wait = back_off(first, longest, attempt);
            let base = Duration::from_millis(millis);
            assert!(wait >= base.mul_f64(0.75) && wait <= base.mul_f64(1.25), "{attempt}: {wait:?}");
        }
    }
}
