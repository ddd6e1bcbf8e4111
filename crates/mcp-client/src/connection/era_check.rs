//! Checks whether the server still has the era that it had when the connection was opened.
//!
//! Another server can take the place of the first one, over HTTP also on an open connection. Its answers then look wrong, and the
//! check sends `server/discover`.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{EmptyParams, method::Discover};
use mcp_transport::TransportError;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{
    Connection, ConnectionManager,
    era::{HandshakeError, ProbeResult, judge, send, timeout_for_answer},
};

/// The time for which the result of a check is reused.
const REUSED_FOR: Duration = Duration::from_secs(60);

/// The result of a check: `None` while it runs, true if the server has another era.
type CheckResult = watch::Receiver<Option<bool>>;

/// The last check on a connection. One check runs at a time.
#[derive(Default)]
pub(crate) struct EraCheck(Mutex<Option<StartedCheck>>);

struct StartedCheck {
    at: Instant,
    result: CheckResult,
}

impl EraCheck {
    /// Returns the running or recent check, or starts one with `start`.
    fn join(&self, start: impl FnOnce(watch::Sender<Option<bool>>)) -> CheckResult {
        let mut last = self.0.lock();
        if let Some(check) = &*last {
            let is_running = check.result.borrow().is_none() && check.result.has_changed().is_ok();
            if is_running || check.at.elapsed() < REUSED_FOR {
                return check.result.clone();
            }
        }
        let (sender, result) = watch::channel(None);
        start(sender);
        *last = Some(StartedCheck { at: Instant::now(), result: result.clone() });
        result
    }
}

/// Checks whether the server has another era than was negotiated. If it has, the connection is retired.
pub(crate) async fn has_changed(manager: &Arc<ConnectionManager>, connection: &Arc<Connection>) -> bool {
    let mut result = begin(manager, connection);
    result.wait_for(Option::is_some).await.is_ok_and(|result| *result == Some(true))
}

/// Starts a check, which continues when the result is dropped.
pub(crate) fn begin(manager: &Arc<ConnectionManager>, connection: &Arc<Connection>) -> CheckResult {
    connection.era_check.join(|result| {
        let (manager, connection) = (Arc::clone(manager), Arc::clone(connection));
        tokio::spawn(async move {
            let is_changed = check(&manager, &connection).await;
            if is_changed {
                tracing::debug!("the server changed its era; the connection is retired");
                connection.retire(TransportError::closed());
            }
            result.send_replace(Some(is_changed));
        });
    })
}

async fn check(manager: &ConnectionManager, connection: &Arc<Connection>) -> bool {
    let config = &manager.config;
    let Some(version) = connection.version() else { return false };
    let probing = async { send::<Discover>(manager, connection, version, &EmptyParams::new()).await?.outcome().await };
    // A server whose era was negotiated may just be slow.
    let Ok(outcome) = timeout_for_answer(manager, probing).await else {
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
