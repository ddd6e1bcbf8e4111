//! Finds out which revision a server speaks, and negotiates one (basic, versioning; transports, §Backward Compatibility).
//!
//! The client first sends `server/discover`. A list of revisions, or an error that only the stateless revisions have, settles the
//! era. Any other answer, and silence, make the client send `initialize`.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    DiscoverResult, EmptyParams, ErrorCode, InitializeParams, InitializeResult, JsonObject, Method, NotificationMethod,
    ProtocolVersion, RpcError, SetLevelParams, Shape, jsonrpc,
    method::{Discover, Initialize, SetLevel},
    notification::Initialized,
    tasks::ext::IDENTIFIER,
};
use serde::Deserialize;
use tokio::time::{error::Elapsed, timeout};

use super::{
    Connection, ConnectionManager, Negotiated, OnDrop, Request, RequestExtras, RequestGuard, RequestOutcome, hints,
    pause::timeout_unless_paused, request::MetaTemplate, write_request,
};
use crate::{Error, config::Config, error::Kind, retry::RequestFailure};

/// The reason why no revision was negotiated.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The connection ended during `server/discover`, which not every server knows.
    Died(Error),
    /// The server rejected this way to open a connection. Another way can succeed.
    Refused(Error),
    /// No other way can succeed.
    Fault(Error),
}

impl HandshakeError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Died(error) | Self::Refused(error) | Self::Fault(error) => error,
        }
    }

    /// Returns the error for a failed request that servers of the other era may not know.
    fn died(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::Lost { .. } => Self::Died(failure.into()),
            other => other.into(),
        }
    }
}

impl From<RequestFailure> for HandshakeError {
    fn from(failure: RequestFailure) -> Self {
        if failure.rejects_handshake() { Self::Refused(failure.into()) } else { Self::Fault(failure.into()) }
    }
}

/// The number of attempts, since some servers reject a revision that they listed and accept it later.
const ATTEMPTS: usize = 3;

/// Asks the server for its revisions, and negotiates one.
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
        let mut probe =
            send::<Discover>(manager, connection, version, &EmptyParams::new()).await.map_err(HandshakeError::died)?;
        let verdict = match timeout_for_answer(manager, probe.outcome()).await {
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

/// Waits for the answer to a request within the probe timeout. The time until the request is authorized does not count,
/// because the server has not received it.
pub(super) async fn timeout_for_answer<T>(
    manager: &ConnectionManager,
    answer: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let clock = manager.authorization.as_ref().map(|clocks| &clocks.requests);
    timeout_unless_paused(manager.config.probe_timeout, manager.config.limits.login_pause, clock, answer).await
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
        // A starting server may be slow. The connect timeout bounds this wait.
        let outcome = send::<Initialize>(manager, connection, offer, &params)
            .await
            .map_err(HandshakeError::died)?
            .outcome()
            .await;
        let result = match outcome {
            Ok(result) => result,
            Err(RequestFailure::Rpc(error)) => {
                // Some servers list their revisions when they reject an offer.
                let other =
                    supported(&error).and_then(|theirs| newest(config, &theirs, ProtocolVersion::has_handshake));
                match other.filter(|other| *other != offer) {
                    Some(other) => offer = other,
                    None => return Err(HandshakeError::Refused(Kind::Rpc(error).into())),
                }
                continue;
            }
            Err(failure) => return Err(failure.into()),
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

/// Stores the negotiated revision in the connection.
pub(crate) fn agree(config: &Config, connection: &Connection, negotiated: Negotiated) {
    let capabilities = config.capabilities();
    let meta_template = MetaTemplate::new(negotiated.version, &capabilities, &config.info);
    let with_tasks = capabilities.with_extension(IDENTIFIER, JsonObject::new());
    let with_tasks = MetaTemplate::new(negotiated.version, &with_tasks, &config.info);
    connection.agree(negotiated, meta_template, with_tasks);
}

/// Sets the log level of a new session. If the server rejects it, the session sends no log messages.
pub(crate) async fn ask_for_logs(manager: &ConnectionManager, connection: &Arc<Connection>) {
    let (Some(agreed), Some(level)) = (connection.agreed(), manager.log_level()) else { return };
    let negotiated = &agreed.negotiated;
    let is_missing = negotiated.lacks(SetLevel::NAME).is_some() && manager.config.trusts_capabilities;
    if is_missing || !negotiated.version.has_session_methods() {
        return;
    }
    let Ok(request) = Request::of::<SetLevel>(&SetLevelParams::new(level)) else { return };
    let id = manager.next_id();
    let hints = hints(Some(negotiated.version), SetLevel::NAME);
    let message = write_request(id, &request, agreed.meta_template(false), &RequestExtras::default());
    let setting = async { connection.send_without_permit(id, message, hints, OnDrop::Cancel).await?.outcome().await };
    match timeout_for_answer(manager, setting).await {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => tracing::debug!(?failure, %level, "the server rejected the log level"),
        Err(_) => tracing::debug!(%level, "the server did not answer the request for log messages"),
    }
}

/// The meaning of an answer to `server/discover`.
pub(super) enum ProbeResult {
    /// The server speaks this stateless revision.
    Agreed(Box<Negotiated>),
    /// The server speaks another stateless revision.
    Other(ProtocolVersion),
    /// The server needs `initialize` with this offer.
    Legacy(ProtocolVersion),
}

/// Derives the era of the server from its answer to `server/discover`.
pub(super) fn judge(
    config: &Config,
    requested: ProtocolVersion,
    outcome: RequestOutcome,
) -> Result<ProbeResult, HandshakeError> {
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
                    // This can be the rejected revision itself: some servers accept it on the next attempt.
                    version => Ok(ProbeResult::Other(version)),
                }
            }
            // Only stateless servers send these errors, so `initialize` would fail too.
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH => {
                tracing::debug!(%error, version = %requested, "the server rejected `server/discover`");
                Err(HandshakeError::Fault(Kind::Rpc(error).into()))
            }
            _ => legacy(Kind::Rpc(error).into()),
        },
        Err(failure @ RequestFailure::Lost { .. }) => Err(HandshakeError::died(failure)),
        Err(RequestFailure::Transport(fault)) if fault.is_unanswered() => legacy(Kind::Transport(fault).into()),
        Err(failure) if failure.rejects_handshake() => legacy(failure.into()),
        Err(failure) => Err(failure.into()),
    }
}

/// Sends `initialize` to a server that did not answer `server/discover` in time. A late answer to the latter still counts.
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
    tracing::debug!("the server did not answer `server/discover`");
    let opened = {
        let opening = initialize(manager, connection, legacy);
        tokio::pin!(opening);
        tokio::select! {
            biased;
            outcome = probe.outcome() => {
                // `initialize` may have succeeded at the same moment. The first result counts.
                if connection.agreed().is_none()
                    && let Ok(ProbeResult::Agreed(negotiated)) = judge(config, version, outcome)
                {
                    return Ok(*negotiated);
                }
                return opening.await;
            }
            opened = &mut opening => opened,
        }
    };
    let Err(HandshakeError::Refused(error)) = opened else { return opened };
    // A stateless server that starts slowly answers both requests, and it can reject `initialize` first.
    let names_revisions = error.rpc().is_some_and(|error| error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
    let limit = if names_revisions { config.probe_timeout } else { Duration::ZERO };
    if let Ok(outcome) = timeout(limit, probe.outcome()).await
        && let Ok(ProbeResult::Agreed(negotiated)) = judge(config, version, outcome)
    {
        return Ok(*negotiated);
    }
    Err(HandshakeError::Refused(error))
}

fn discovered(version: ProtocolVersion, theirs: Vec<String>, mut result: DiscoverResult) -> Negotiated {
    let mut negotiated = Negotiated::new(version);
    negotiated.server_info = result.meta.take().and_then(|meta| meta.server_info()).unwrap_or_default();
    negotiated.capabilities = result.capabilities;
    negotiated.instructions = result.instructions;
    negotiated.supported_versions = theirs;
    negotiated
}

/// Returns the newest common stateless revision, or else the newest common revision with a handshake.
fn choose(config: &Config, theirs: &[String]) -> Result<ProtocolVersion, HandshakeError> {
    newest(config, theirs, ProtocolVersion::is_stateless)
        .or_else(|| newest(config, theirs, ProtocolVersion::has_handshake))
        .ok_or_else(|| mismatch(config, theirs.to_vec()))
}

fn newest(config: &Config, theirs: &[String], which: fn(ProtocolVersion) -> bool) -> Option<ProtocolVersion> {
    config.versions.iter().copied().find(|ours| which(*ours) && theirs.iter().any(|version| version == ours.as_str()))
}

/// Returns the revisions that an error lists.
fn supported(error: &RpcError) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    Data::deserialize(error.data.as_ref()?).ok().map(|data| data.supported)
}

pub(super) async fn send<M: Method>(
    manager: &ConnectionManager,
    connection: &Arc<Connection>,
    version: ProtocolVersion,
    params: &M::Params,
) -> Result<RequestGuard, RequestFailure> {
    let config = &manager.config;
    let meta_template = MetaTemplate::new(version, &config.capabilities(), &config.info);
    let request = Request::of::<M>(params).map_err(|error| RequestFailure::Invalid(error.to_string().into()))?;
    let id = manager.next_id();
    let hints = hints(version.is_stateless().then_some(version), M::NAME);
    // `initialize` must not be cancelled, and a server that does not know `server/discover` ignores its cancellation.
    let message = write_request(id, &request, &meta_template, &RequestExtras::default());
    connection.send_without_permit(id, message, hints, OnDrop::Forget).await
}

fn mismatch(config: &Config, theirs: Vec<String>) -> HandshakeError {
    HandshakeError::Fault(Kind::Version { ours: config.versions.clone(), theirs }.into())
}
