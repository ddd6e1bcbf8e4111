//! Shows notifications and updates of a server until a signal ends the command.

use mcp_client::{Notification, Update};
use mcp_protocol::{SubscriptionFilter, notification::LoggingMessage};
use serde_json::{Value, json, value::RawValue};

use super::Session;
use crate::{connection::log_line, failure::Failure, screen::note, text::line};

pub(crate) async fn listen(session: &Session, uris: Vec<String>) -> Result<(), Failure> {
    // This stream also has log messages and the notifications that only this server defines.
    let mut notifications = session.client.notifications();
    let mut updates = session.client.listen(SubscriptionFilter::lists().with_resources(&uris)).await?;
    let honoured = updates.honoured();
    for uri in uris.iter().filter(|uri| !honoured.resource_subscriptions.contains(uri)) {
        note(format!("mcp: the server does not send updates of {uri}"));
    }
    let mut states = updates.open_states();
    let mut was_open = states.current();
    note("listening; Ctrl-C ends it");
    if !was_open {
        show_state(session, true, false)?;
    }
    loop {
        tokio::select! {
            biased;
            Some(is_open) = states.changed() => {
                show_state(session, was_open, is_open)?;
                was_open = is_open;
            }
            update = updates.next() => match update {
                Some(update) => show_update(session, &update?)?,
                None => return Ok(()),
            },
            notification = notifications.next() => match notification {
                Some(notification) => show_notification(session, &notification)?,
                None => return Ok(()),
            },
        }
    }
}

/// Shows that the connection is lost, or open again.
fn show_state(session: &Session, was_open: bool, is_open: bool) -> Result<(), Failure> {
    let (name, text) = match (was_open, is_open) {
        (true, false) => ("lost", "the connection is lost; mcp opens it again"),
        (false, true) => ("open", "the connection is open again"),
        // The states between were too short to be seen.
        (true, true) => ("reopened", "the connection was lost and is open again"),
        (false, false) => return Ok(()),
    };
    if session.out.json {
        return session.out.value(&json!({"connection": name}));
    }
    session.out.text(text)
}

/// Shows a notification that is not an update. If its parameters are invalid, they are shown unchanged.
fn show_notification(session: &Session, notification: &Notification) -> Result<(), Failure> {
    if is_update(notification) {
        return Ok(());
    }
    if !session.out.json
        && let Some(Ok(message)) = notification.params::<LoggingMessage>()
    {
        return session.out.text(&log_line(&message));
    }
    // A JSON number can exceed the range of a `Value`.
    let raw = || notification.raw_params().map(RawValue::get).unwrap_or_default().into();
    let params: Value = notification.decode().unwrap_or_else(|_| raw());
    session.out.value(&json!({"method": notification.method(), "params": params}))
}

/// Returns whether the subscription shows the notification as an update.
fn is_update(notification: &Notification) -> bool {
    notification.is_missed()
        || notification.method().ends_with("/list_changed")
        || matches!(
            notification.method(),
            "notifications/resources/updated" | "notifications/subscriptions/acknowledged"
        )
}

fn show_update(session: &Session, update: &Update) -> Result<(), Failure> {
    let (what, uri) = match update {
        Update::ToolsChanged => ("the list of tools has changed", None),
        Update::PromptsChanged => ("the list of prompts has changed", None),
        Update::ResourcesChanged => ("the list of resources has changed", None),
        Update::ResourceUpdated { uri, .. } => ("changed", Some(uri)),
        Update::Missed => ("updates were lost: anything may have changed", None),
        _ => return Ok(()),
    };
    match (session.out.json, uri) {
        (true, uri) => session.out.value(&json!({"update": what, "uri": uri})),
        (false, Some(uri)) => session.out.text(&format!("{} {what}", line(uri))),
        (false, None) => session.out.text(what),
    }
}
