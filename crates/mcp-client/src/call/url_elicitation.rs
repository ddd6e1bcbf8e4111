//! The error that sends the user to pages first (`-32042`, 2025-11-25): the user visits them, and the client repeats
//! the request.

use std::{collections::HashSet, sync::Arc, time::Duration};

use mcp_protocol::{
    ElicitAction, ElicitParams, ElicitResult, Method, RpcError, UrlElicitParams, method::Elicit,
    notification::ElicitationComplete,
};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{CallOptions, ClientCore, send_once::spend};
use crate::{
    Error, Notifications,
    connection::{Connection, RunningCall},
    error::Kind,
    inbound::RequestSource,
};

/// The first wait for the notification that the user is done. Servers need not send it, so the client then repeats the request. The
/// wait doubles each time.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for the notification.
const LONGEST: Duration = Duration::from_secs(30);

/// The pages that the user agreed to visit during one call, by id and by URL. Each is shown once.
#[derive(Default)]
pub(crate) struct UrlElicitations {
    agreed: HashSet<String>,
    attempts: u32,
}

impl UrlElicitations {
    /// Shows the pages of an error to the user and waits until the user is done, within the remaining time of the call.
    /// Returns true if the request can be repeated.
    pub(crate) async fn visit(
        &mut self,
        core: &Arc<ClientCore>,
        error: &Error,
        options: &mut CallOptions,
    ) -> Result<bool, Error> {
        let pages = error.url_elicitations();
        let Some(connection) = core.connections.current() else { return Ok(false) };
        let is_known = connection.version().is_some_and(|version| version.has_elicitation_complete());
        let handlers = core.inbound.handlers.during(options.questions.as_deref());
        let is_shown = handlers.capabilities().supports_url_elicitation();
        if !is_known || !is_shown || pages.is_empty() || pages.len() > core.config.limits.server_requests {
            return Ok(false);
        }
        // The subscription starts before the user can be done.
        let notices = core.inbound.hub.listen();
        let unseen = pages.iter().filter(|page| !names(page).any(|name| self.agreed.contains(name)));
        if !agree(core, &connection, unseen, options.questions.as_ref()).await? {
            return Ok(false);
        }
        self.agreed.extend(pages.iter().flat_map(names).cloned());
        let patience = PATIENCE.saturating_mul(1 << self.attempts.min(8)).min(LONGEST);
        self.attempts += 1;
        let open = pages.into_iter().filter_map(|page| page.elicitation_id).collect();
        let (since, limit) = (Instant::now(), options.total_timeout.map_or(patience, |total| total.min(patience)));
        if timeout(limit, completed(notices, open)).await.is_err() {
            tracing::debug!("the server did not report that the user is done; the request is repeated");
        }
        spend(options, since.elapsed());
        Ok(true)
    }
}

fn names(page: &UrlElicitParams) -> impl Iterator<Item = &String> {
    page.elicitation_id.iter().chain([&page.url])
}

/// Shows pages at the same time. Returns true if the user agrees to visit all of them.
async fn agree(
    core: &ClientCore,
    connection: &Arc<Connection>,
    pages: impl Iterator<Item = &UrlElicitParams>,
    call: Option<&Arc<RunningCall>>,
) -> Result<bool, Error> {
    let handlers = core.inbound.handlers.during(call.map(|call| &**call));
    let mut elicitations = JoinSet::new();
    for page in pages {
        let params = to_raw_value(&ElicitParams::Url(page.clone())).map_err(|e| Error::invalid(e.to_string()))?;
        let limit = core.config.limits.server_request_timeout;
        let source = RequestSource::on(connection).during(call);
        let request = handlers.request(Elicit::NAME, Some(&params), source, limit);
        elicitations.spawn(request.answer());
    }
    while let Some(answered) = elicitations.join_next().await {
        let Ok(answer) = answered else { return Err(Error::closed().after_sending()) };
        let answer = answer.map_err(Kind::Input)?;
        let unreadable = |error: serde_json::Error| Kind::Input(RpcError::internal(error.to_string()));
        if ElicitResult::deserialize(answer).map_err(unreadable)?.action != ElicitAction::Accept {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until the user is done with all pages, or the client is closed.
async fn completed(mut notices: Notifications, mut open: HashSet<String>) {
    while !open.is_empty() {
        let Some(notice) = notices.next().await else { return };
        if let Some(Ok(done)) = notice.params::<ElicitationComplete>() {
            open.remove(&done.elicitation_id);
        }
    }
}
