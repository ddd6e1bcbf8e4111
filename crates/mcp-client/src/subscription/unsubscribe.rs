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
    let options = || CallOptions { idle_timeout: idle, total_timeout: idle, ..CallOptions::default() };
    for uri in unwanted {
        let is_wanted = || core.inbound.subscribers.wants(&uri);
        if is_wanted() {
            continue;
        }
        let params = SubscribeParams::new(&uri);
        let Ok(request) = Request::of::<method::Unsubscribe>(&params) else { return };
        if let Err(error) = execute(&core, request, options()).await {
            tracing::debug!(%error, "the client could not unsubscribe from a resource");
            return;
        }
        // A new subscription may have subscribed before this request was answered.
        if is_wanted()
            && let Ok(request) = Request::of::<method::Subscribe>(&params)
            && let Err(error) = execute(&core, request, options()).await
        {
            tracing::debug!(%error, "the client could not subscribe to a resource again");
        }
    }
}
