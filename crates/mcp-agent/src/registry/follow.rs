//! A connected server: its lists, their changes, the changes of its connection, and its idle stop.

use std::{
    convert::Infallible,
    future::{pending, ready},
    sync::Arc,
    time::Duration,
};

use mcp_client::{Client, State};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{
    Registry, ServerState, Slot,
    changes::Changes,
    listing::{LISTING, Listed, list, text_of_incomplete},
    runner::until,
    slot::{Calls, Role},
};

/// The shortest time between two readings of the lists.
const MIN_LIST_INTERVAL: Duration = Duration::from_millis(100);
/// The idle time after which a connection for callers ends, if the options have no other time. The connection of a session ends
/// with its session.
const CALLER_IDLE: Duration = Duration::from_secs(300);

/// The reason why a connection ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The server was removed, or the host ends.
    Stopped,
    Idle,
    Lost,
    /// The client lost the connection and could not open another connection.
    Down,
}

impl Slot {
    /// Reads the lists, publishes the catalog, and then lets calls use the client. Returns false if a list failed. The reading ends after
    /// `limit`.
    pub(super) async fn read_lists(&self, registry: &Arc<Registry>, client: &Client, limit: Duration) -> bool {
        let (former, keeps_tools) = self.former();
        let again = self.declared_again(registry, client);
        let listed = list(client, &former, keeps_tools, &self.options, &registry.settings, limit, again).await;
        self.report_incomplete(&listed);
        let fault_of_pins = self.publish(registry, Some((listed.entries, listed.is_complete))).await;
        self.activity.touch();
        let all: Vec<String> = listed.problems.into_iter().chain(fault_of_pins).collect();
        let problems = all.join("; ");
        self.change(registry, |link| {
            link.state = if problems.is_empty() { ServerState::Ready } else { ServerState::Degraded };
            link.reason = (!problems.is_empty()).then_some(problems);
            (link.diagnostics, link.filter_notes) = (all, listed.notes);
            link.error = listed.error;
            link.client = Some(client.clone());
            #[cfg(feature = "gateway")]
            {
                link.version = Some(client.version());
            }
        });
        registry.store_soon();
        listed.is_complete
    }

    /// Logs the faults of lists. A list with the same fault is read again and again.
    fn report_incomplete(&self, listed: &Listed) {
        let known = self.diagnostics();
        for (reason, lists) in &listed.incomplete {
            if lists.iter().any(|list| !known.contains(&text_of_incomplete(list, reason))) {
                let lists = lists.join(", ");
                tracing::warn!(target: LISTING, server = &*self.name, lists, reason, "a list is incomplete");
            }
        }
    }

    /// Lets calls use the client of a connection for callers.
    pub(super) fn ready(&self, registry: &Registry, client: &Client) {
        self.activity.touch();
        self.change(registry, |link| {
            (link.state, link.reason, link.client) = (ServerState::Ready, None, Some(client.clone()));
        });
    }

    /// Follows a connected server until it ends or is idle. Cancel safe.
    pub(super) async fn serve(&self, registry: &Arc<Registry>, client: &Client, mut changes: Option<Changes>) -> End {
        let is_for_callers = matches!(self.role, Role::Calls(_));
        let idle = self.options.idle_stop.or(registry.settings.idle_stop);
        let ends_idle = matches!(&self.role, Role::Calls(calls) if !calls.is_of_session);
        let idle = idle.or(ends_idle.then_some(CALLER_IDLE));
        let mut states = client.states();
        let mut idle_at = idle.map(|idle| Instant::now() + idle);
        let mut has_failed_question = false;
        loop {
            tokio::select! {
                () = next(&mut changes) => {
                    if is_for_callers {
                        self.read_items_of_callers(registry, client, &mut changes).await;
                        sleep(MIN_LIST_INTERVAL).await;
                        continue;
                    }
                    self.reread(registry, client, &mut changes).await;
                    sleep(MIN_LIST_INTERVAL).await;
                }
                () = self.items_gone.notified(), if !is_for_callers => self.publish_again(registry).await,
                () = self.lists_changed.notified(), if !is_for_callers => {
                    self.reread(registry, client, &mut changes).await;
                    sleep(MIN_LIST_INTERVAL).await;
                }
                state = states.changed() => match state {
                    None | Some(State::Closed) => {
                        self.change(registry, |link| link.client = None);
                        self.forget_items_of_callers();
                        return End::Lost;
                    }
                    Some(State::Down) => {
                        self.change(registry, |link| link.client = None);
                        self.forget_items_of_callers();
                        return End::Down;
                    }
                    Some(state) => self.follow(registry, client, state, &mut changes).await,
                },
                () = client.question_failed(), if !has_failed_question => {
                    has_failed_question = true;
                    // The connections of a server share its status.
                    let server = registry.slot(&self.name).filter(|slot| slot.fingerprint == self.fingerprint);
                    if let Some(server) = server {
                        server.report_failed_question(registry);
                    }
                }
                () = until(idle_at) => {
                    let Some(idle) = idle else { continue };
                    let stop = || {
                        self.clear_wake_up();
                        self.link.send_modify(|link| {
                            (link.client, link.state, link.reason) = (None, ServerState::Stopped, None);
                            link.has_ended = is_for_callers;
                        });
                    };
                    match self.activity.stop_if_idle(idle, stop) {
                        Ok(()) => {
                            self.change(registry, |_| {});
                            return End::Idle;
                        }
                        Err(left) => idle_at = Some(Instant::now() + left),
                    }
                }
            }
        }
    }

    /// Reads the changed lists of a connection for callers, and lets the other connection publish them. The server can have a process
    /// for each connection, so the change can exist here alone.
    async fn read_items_of_callers(&self, registry: &Arc<Registry>, client: &Client, changes: &mut Option<Changes>) {
        if matches!(self.role, Role::Calls(Calls { is_public: true, .. })) {
            let (former, keeps_tools) = self.former();
            let limit = registry.settings.list_limit;
            let mut states = client.states();
            // The other connection knows the gateways behind the server.
            let again = Box::pin(ready(None));
            let listed = tokio::select! {
                listed = list(client, &former, keeps_tools, &self.options, &registry.settings, limit, again) => listed,
                // The process has ended, and another one has other items.
                _ = states.wait_for(|state| *state != State::Ready) => return,
            };
            self.report_incomplete(&listed);
            self.set_entries(listed.entries);
            self.change(registry, |link| link.diagnostics = listed.problems);
            *changes = changes.take().map(|changes| changes.after_reading(listed.is_complete));
        }
        self.lists_changed.notify_one();
    }

    /// Forgets the items of a connection for callers, because its process has ended.
    pub(super) fn forget_items_of_callers(&self) {
        if matches!(self.role, Role::Calls(_)) && self.forget_entries() {
            self.items_gone.notify_one();
        }
    }

    /// Publishes the last own items with the current items of connections for callers.
    async fn publish_again(&self, registry: &Registry) {
        let fault = self.publish(registry, None).await;
        if let Some(fault) = fault {
            tracing::debug!(server = &*self.name, fault, "the pins of a server cannot be used");
        }
        self.publish_status(registry);
    }

    /// Publishes the items again whenever those of a connection for callers are gone. Never returns.
    pub(super) async fn follow_ends_of_callers(&self, registry: &Registry) -> Infallible {
        if let Role::Calls(_) = self.role {
            return pending().await;
        }
        loop {
            self.items_gone.notified().await;
            let mut repetition = Repetition(Some(&self.items_gone));
            self.publish_again(registry).await;
            repetition.0 = None;
        }
    }

    async fn reread(&self, registry: &Arc<Registry>, client: &Client, changes: &mut Option<Changes>) {
        let is_complete = tokio::select! {
            is_complete = self.read_lists(registry, client, registry.settings.list_limit) => is_complete,
            never = self.follow_ends_of_callers(registry) => match never {},
        };
        *changes = changes.take().map(|changes| changes.after_reading(is_complete));
    }

    /// Shows a change of the connection, which the client opens again.
    async fn follow(&self, registry: &Arc<Registry>, client: &Client, state: State, changes: &mut Option<Changes>) {
        let reason = || self.connector.fault();
        match state {
            State::Ready => {
                #[cfg(feature = "gateway")]
                self.sessions.reconnected();
                if let Some(open) = changes {
                    open.reopen().await;
                }
                if let Role::Calls(_) = self.role {
                    self.forget_items_of_callers();
                    self.ready(registry, client);
                } else {
                    self.reread(registry, client, changes).await;
                }
            }
            State::Connecting { .. } => {
                self.change(registry, |link| (link.state, link.reason) = (ServerState::Degraded, reason()));
                self.forget_items_of_callers();
            }
            State::AwaitingUser => self.change(registry, |link| link.state = ServerState::NeedsLogin),
            _ => {}
        }
    }
}

/// Repeats the notice of a publication that is dropped before its end.
struct Repetition<'a>(Option<&'a Notify>);

impl Drop for Repetition<'_> {
    fn drop(&mut self) {
        if let Some(notice) = self.0 {
            notice.notify_one();
        }
    }
}

async fn next(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => pending().await,
    }
}
