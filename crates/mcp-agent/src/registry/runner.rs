//! The life cycle of a connection: one task that opens it, follows it, opens it again after a failure, and ends it.

use std::{
    convert::Infallible,
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_client::{
    Client, ClientBuilder, Error, Handler as _, Reconnect,
    protocol::{ClientCapabilities, Implementation, Rounded, ServerCapabilities},
    transport::{BoxFuture, Connect, PauseClock},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Registry, ServerState, Settings, Slot, back_off::BackOff, changes::Changes, follow::End, questions::HostHandler,
    slot::Link, slot::Role,
};

/// A connection that lasted this long was not a failed attempt.
const STABLE: Duration = Duration::from_secs(60);
/// The shortest time limit of the first reading of the lists.
const SHORTEST_LIST: Duration = Duration::from_secs(1);

impl Slot {
    /// Starts the task of the server. `starts_now` is false for a server that waits for its first call.
    pub(crate) fn run(self: &Arc<Self>, registry: &Arc<Registry>, starts_now: bool) {
        if starts_now && self.state() == ServerState::Configured {
            self.change(registry, |link| link.state = ServerState::Starting);
        }
        let (slot, registry) = (Arc::clone(self), Arc::clone(registry));
        self.has_run.store(true, Ordering::Release);
        let ended = self.ended.clone().drop_guard();
        tokio::spawn(async move {
            let _ended = ended;
            slot.live(&registry, starts_now).await;
        });
    }

    /// Publishes a change of the connection.
    pub(super) fn change(&self, registry: &Registry, change: impl FnOnce(&mut Link)) {
        self.link.send_modify(change);
        self.publish_status(registry);
    }

    /// Publishes the status, unless another server has the name now.
    pub(super) fn publish_status(&self, registry: &Registry) {
        if registry.slot(&self.name).is_some_and(|slot| std::ptr::eq(&*slot, self)) {
            registry.statuses.update(self);
        }
    }

    /// Approves a server that waits for an approval.
    pub(crate) fn approve(&self, registry: &Registry) {
        if self.state() == ServerState::NeedsApproval {
            self.change(registry, |link| link.state = ServerState::Starting);
            self.wanted.notify_one();
        }
    }

    async fn live(&self, registry: &Arc<Registry>, starts_now: bool) {
        self.attempts(registry, starts_now).await;
        self.change(registry, |link| {
            (link.client, link.has_ended, link.state) = (None, true, ServerState::Stopped);
            link.next_attempt = None;
        });
        self.forget_items_of_callers();
        // A connection that was not opened completely can have a process too.
        self.connector.closed().await;
    }

    /// Opens connections until the server is stopped.
    async fn attempts(&self, registry: &Arc<Registry>, mut starts_now: bool) {
        let mut back_off = BackOff::new(&registry.settings.reconnect);
        while !self.stop.is_cancelled() {
            if !starts_now || self.state() == ServerState::NeedsApproval {
                tokio::select! {
                    () = self.wanted.notified() => {}
                    () = self.stop.cancelled() => return,
                    never = self.follow_ends_of_callers(registry) => match never {},
                }
                if self.state() == ServerState::NeedsApproval {
                    continue;
                }
            }
            starts_now = true;
            let Some(opened) = self.open_unless_stopped(registry).await else { return };
            // The attempt has an outcome for each call that waited for it.
            self.clear_wake_up();
            let repeats = match opened {
                Ok((client, changes)) => {
                    let began = Instant::now();
                    let end = tokio::select! {
                        end = self.serve(registry, &client, changes) => end,
                        () = self.stop.cancelled() => End::Stopped,
                    };
                    if began.elapsed() >= STABLE {
                        back_off.reset();
                    }
                    // The close fails the calls of the client. Their error has the new state of the server.
                    match end {
                        End::Stopped => {}
                        End::Idle => back_off.reset(),
                        End::Lost => self.lost(registry, back_off.lost()),
                        // The client made all its attempts already.
                        End::Down => self.lost(registry, back_off.failed()),
                    }
                    client.close().await;
                    match end {
                        End::Stopped => return,
                        End::Idle if matches!(self.role, Role::Calls(_)) => return,
                        End::Idle => {
                            starts_now = false;
                            continue;
                        }
                        End::Lost => back_off.repeats(),
                        End::Down => false,
                    }
                }
                Err(error) => {
                    let wait = back_off.failed().max(error.retry_after().unwrap_or_default());
                    self.failed(registry, &error, wait);
                    error.is_retryable() && back_off.repeats()
                }
            };
            let next_attempt = self.link.borrow().next_attempt;
            // The next call of the caller opens another connection, with the credentials of that time.
            let ends = !repeats && matches!(self.role, Role::Calls(_));
            tokio::select! {
                () = until(next_attempt), if repeats || ends => {
                    if ends && self.end_unused() {
                        return;
                    }
                }
                () = self.wanted.notified() => {}
                () = self.stop.cancelled() => return,
                never = self.follow_ends_of_callers(registry) => match never {},
            }
            // The process of a failed attempt ends before the next one starts.
            tokio::select! {
                () = self.connector.closed() => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Ends a connection without calls. Returns false if a call uses it.
    fn end_unused(&self) -> bool {
        let end = || self.link.send_modify(|link| link.has_ended = true);
        self.activity.stop_without_calls(end)
    }

    async fn open_unless_stopped(&self, registry: &Arc<Registry>) -> Option<Result<(Client, Option<Changes>), Error>> {
        let (mut connected, lists) = (None, AtomicBool::new(false));
        let opened = tokio::select! {
            opened = self.open(registry, &mut connected, &lists) => return Some(opened),
            () = self.stop.cancelled() => None,
            never = self.show_start(registry, &lists) => match never {},
            never = self.follow_ends_of_callers(registry) => match never {},
        };
        if let Some(client) = connected {
            client.close().await;
        }
        opened
    }

    /// Shows a start that takes longer than the host waits, and a start that waits for a login of the user. `lists` is true while the
    /// connected server lists its items. Never returns.
    async fn show_start(&self, registry: &Registry, lists: &AtomicBool) -> Infallible {
        let limit = self.options.start_limit.unwrap_or(registry.settings.start_limit);
        let user = self.connector.authorization().map(|clocks| clocks.user);
        let mut slow = pin!(sleep(limit));
        let (mut is_slow, mut asks_user) = (false, false);
        loop {
            tokio::select! {
                () = &mut slow, if !is_slow => is_slow = true,
                () = pause_changes(user.as_ref(), asks_user) => asks_user = !asks_user,
            }
            self.change(registry, |link| {
                (link.state, link.reason) = match (asks_user, is_slow) {
                    (true, _) => (ServerState::NeedsLogin, Some("the user must log in".to_owned())),
                    (false, true) => {
                        let lists = lists.load(Ordering::Relaxed);
                        let missing = if lists { "sent its lists" } else { "answered" };
                        (ServerState::Waiting, Some(format!("the server has not {missing} for {}", Rounded(limit))))
                    }
                    (false, false) => (ServerState::Starting, None),
                };
            });
        }
    }

    fn failed(&self, registry: &Registry, error: &Error, wait: Duration) {
        // A login of the operator does not change the tokens of callers.
        let token_fault = self.token_fault(error);
        let needs_login = error.is_unauthorized() && token_fault.is_none();
        let state = if needs_login { ServerState::NeedsLogin } else { ServerState::Failed };
        let reason = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        tracing::warn!(server = &*self.name, reason, ?wait, "a server did not start");
        self.change(registry, |link| {
            (link.state, link.reason, link.client) = (state, Some(reason), None);
            link.next_attempt = Some(Instant::now() + wait);
            link.error = Some(error.clone());
            link.token_fault = token_fault;
            link.failures += 1;
        });
    }

    /// Sets the state of a server whose connection has ended.
    fn lost(&self, registry: &Registry, wait: Duration) {
        let reason = self.connector.fault().unwrap_or_else(|| "the server closed the connection".to_owned());
        tracing::warn!(server = &*self.name, reason, ?wait, "a server was lost");
        self.change(registry, |link| {
            (link.state, link.reason, link.client) = (ServerState::Failed, Some(reason), None);
            link.next_attempt = Some(Instant::now() + wait);
        });
    }

    /// Opens a connection, subscribes to changes, and then reads the lists. No change is missed in between. `connected` receives
    /// the client as soon as it is connected, and `lists` is true then.
    async fn open(
        &self,
        registry: &Arc<Registry>,
        connected: &mut Option<Client>,
        lists: &AtomicBool,
    ) -> Result<(Client, Option<Changes>), Error> {
        let began = Instant::now();
        self.change(registry, |link| {
            (link.state, link.reason, link.error, link.next_attempt) = (ServerState::Starting, None, None, None);
            link.token_fault = None;
        });
        let connector: Arc<dyn Connect> = self.connector.clone();
        let client = self.builder(registry).connect(connector).await?;
        *connected = Some(client.clone());
        lists.store(true, Ordering::Relaxed);
        #[cfg(feature = "gateway")]
        self.sessions.reconnected();
        if let Role::Calls(_) = self.role {
            self.forget_items_of_callers();
            let changes = self.changes_of_calls(registry, &client).await;
            self.ready(registry, &client);
            return Ok((client, changes));
        }
        let changes = Changes::open(&client, registry.settings.lists).await;
        let limit = self.first_list_limit(began, registry.settings.list_limit);
        let is_complete = self.read_lists(registry, &client, limit).await;
        Ok((client, Some(changes.after_reading(is_complete))))
    }

    /// Returns the time limit of the first reading of the lists, which belongs to the start. A server that needed longer than the host
    /// waits for it joins with all its items.
    fn first_list_limit(&self, began: Instant, of_lists: Duration) -> Duration {
        let rest = self.options.start_limit.and_then(|limit| limit.checked_sub(began.elapsed()));
        rest.map_or(of_lists, |rest| rest.clamp(SHORTEST_LIST.min(of_lists), of_lists))
    }

    /// Returns the changes of lists that a connection for callers reports. A server of the stateless revision reports them to the
    /// connection that lists the items.
    async fn changes_of_calls(&self, registry: &Registry, client: &Client) -> Option<Changes> {
        if client.version().is_stateless() {
            return None;
        }
        Some(Changes::open(client, registry.settings.lists).await)
    }

    /// Returns the current capabilities of a server. A server of the session era declares them once for each connection, so the future
    /// opens another connection for a moment. Without a declaration, it returns `None`.
    pub(super) fn declared_again<'a>(
        &'a self,
        registry: &'a Registry,
        client: &'a Client,
    ) -> BoxFuture<'a, Option<ServerCapabilities>> {
        Box::pin(async move {
            // Another process has other servers behind it.
            if self.connector.starts_process() {
                return Some(client.negotiated().capabilities.clone());
            }
            let builder = self.builder(registry).versions([client.version()]).reconnect(Reconnect::never());
            let again = builder.connect(self.connector.inner()).await.ok()?;
            let capabilities = again.negotiated().capabilities.clone();
            again.close().await;
            Some(capabilities)
        })
    }

    /// Returns the capabilities that the host declares, if it has no handler for requests of the server. `None`: it has one.
    pub(super) fn capabilities_without_handlers(&self, registry: &Registry) -> Option<ClientCapabilities> {
        let settings = &registry.settings;
        let builder = || Client::builder(settings.info.name.clone(), settings.info.version.clone());
        let changed = settings.client_of.as_ref().map(|client_of| client_of(&self.name, builder()));
        let has_handlers = settings.handler_of.is_some() || changed.is_some_and(|builder| builder.has_handlers());
        (!has_handlers).then(|| HostHandler::new(settings, &self.name, None).capabilities())
    }

    fn handler(&self, settings: &Settings, declared: Option<&ClientCapabilities>) -> HostHandler {
        let handler = HostHandler::new(settings, &self.name, declared);
        #[cfg(feature = "gateway")]
        let handler = handler.records(&self.records);
        handler
    }

    /// Returns the builder of the client.
    fn builder(&self, registry: &Registry) -> ClientBuilder {
        let settings = &registry.settings;
        let Implementation { name, version, .. } = &settings.info;
        let declared = match &self.role {
            Role::Calls(calls) => calls.declared.as_deref(),
            Role::Listing => None,
        };
        let builder = Client::builder(name, version)
            .peer(Arc::clone(&self.name))
            .connect_timeout(settings.connect_limit)
            .reconnect(settings.reconnect.clone())
            .handler(self.handler(settings, declared));
        let builder = match &settings.bridge {
            Some(bridge) => builder.propagate(Arc::clone(bridge)),
            None => builder,
        };
        let builder = match &settings.client_of {
            Some(client_of) => client_of(&self.name, builder),
            None => builder,
        };
        match declared {
            // The closures of the application must not answer the questions of a caller.
            Some(_) => builder
                .only_handler(self.handler(settings, declared))
                // The answer of a caller has the time limit of the caller.
                .limits(|limits| limits.server_request_timeout = limits.server_request_timeout.max(CALLER_ANSWERS)),
            None => builder,
        }
    }
}

/// How long the handler of a caller with capabilities of its own may take to answer.
const CALLER_ANSWERS: Duration = Duration::from_secs(3600);

/// Waits until the login of the user begins, or until it ends.
async fn pause_changes(user: Option<&PauseClock>, is_paused: bool) {
    match user {
        Some(user) if is_paused => user.until_running().await,
        Some(user) => user.until_paused().await,
        None => pending().await,
    }
}

/// Waits until this time; for ever without a time.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
