//! Shows what a server tells, until the user has seen enough.

use mcp_client::{Notification, Update};
use mcp_protocol::{SubscriptionFilter, notification::LoggingMessage};
use serde_json::{Value, json, value::RawValue};

use super::Session;
use crate::{failure::Failure, output::line, screen::note, target::log_line};

pub(crate) async fn listen(session: &Session, uris: Vec<String>) -> Result<(), Failure> {
    // Also what belongs to no subscription: log messages, and what only this server knows.
    let mut notices = session.client.notifications();
    let mut updates = session.client.listen(SubscriptionFilter::lists().with_resources(&uris)).await?;
    let honoured = updates.honoured();
    for uri in uris.iter().filter(|uri| !honoured.resource_subscriptions.contains(uri)) {
        note(format!("mcp: the server does not tell of changes of {uri}"));
    }
    note("listening; Ctrl-C ends it");
    loop {
        tokio::select! {
            update = updates.next() => match update {
                Some(update) => show(session, &update?)?,
                None => return Ok(()),
            },
            notice = notices.next() => match notice {
                Some(notice) => tell(session, &notice)?,
                None => return Ok(()),
            },
        }
    }
}

/// Shows what the subscription does not. What is not what its name says is shown as it came.
fn tell(session: &Session, notice: &Notification) -> Result<(), Failure> {
    if is_update(notice) {
        return Ok(());
    }
    if !session.out.json
        && let Some(Ok(message)) = notice.params::<LoggingMessage>()
    {
        return session.out.text(&log_line(&message));
    }
    // A number beyond all bounds is JSON, but no value here.
    let raw = || notice.raw_params().map(RawValue::get).unwrap_or_default().into();
    let params: Value = notice.decode().unwrap_or_else(|_| raw());
    session.out.value(&json!({"method": notice.method(), "params": params}))
}

/// What the subscription shows already.
fn is_update(notice: &Notification) -> bool {
    notice.is_missed()
        || notice.method().ends_with("/list_changed")
        || matches!(notice.method(), "notifications/resources/updated" | "notifications/subscriptions/acknowledged")
}

fn show(session: &Session, update: &Update) -> Result<(), Failure> {
    let (what, uri) = match update {
        Update::ToolsChanged => ("the list of tools has changed", None),
        Update::PromptsChanged => ("the list of prompts has changed", None),
        Update::ResourcesChanged => ("the list of resources has changed", None),
        Update::ResourceUpdated { uri, .. } => ("changed", Some(uri)),
        Update::Missed => ("anything may have changed: the connection was away", None),
        _ => return Ok(()),
    };
    match (session.out.json, uri) {
        (true, uri) => session.out.value(&json!({"update": what, "uri": uri})),
        (false, Some(uri)) => session.out.text(&format!("{} {what}", line(uri))),
        (false, None) => session.out.text(what),
    }
}
