//! Unsubscribes from resources of a session that no subscription wants any more.

use std::sync::Arc;

use mcp_protocol::{SubscribeParams, method};
use tokio::runtime::Handle;

use crate::{
    call::{CallOptions, ClientCore, execute},
    connection::Request,
    inbound::UpdateQueue,
};

/// Removes a subscription from its session. A task unsubscribes from the resources that no other subscription wants.
pub(super) fn leave(core: &Arc<ClientCore>, queue: &Arc<UpdateQueue>) {
    let unwanted = core.inbound.subscribers.leave(queue);
    // The subscriptions of a lost session ended with it.
    let version = core.connections.current().and_then(|connection| connection.version());
    if unwanted.is_empty() || !version.is_some_and(|version| version.has_session_methods()) {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(unsubscribe(Arc::clone(core), unwanted));
}

async fn unsubscribe(core: Arc<ClientCore>, unwanted: Vec<String>) {
    let idle = core.config.idle_timeout;
    for uri in unwanted {
        let Some(_unsubscribing) = core.inbound.subscribers.unsubscribe(&uri) else { continue };
        let Ok(mut request) = Request::of::<method::Unsubscribe>(&SubscribeParams::new(&uri)) else { return };
        let mut options = CallOptions { idle_timeout: idle, total_timeout: idle, ..CallOptions::default() };
        if let Err(error) = execute(&core, &mut request, &mut options).await {
            tracing::debug!(%error, "the client could not unsubscribe from a resource");
            return;
        }
    }
}
