//! The life cycle of a server: one task that starts it, reads its lists, follows its changes and ends it.

use std::{
    convert::Infallible,
    future::pending,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_client::{
    Client, ClientBuilder, Error, State, Subscription, Update,
    protocol::{Implementation, SubscriptionFilter},
    transport::Connect,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Registry, ServerState, Settings, Slot, listing::list, questions::HostHandler, slot::Link};

/// The shortest time between two readings of the lists.
const CALM: Duration = Duration::from_millis(100);
/// How long the first reading of the lists waits for the acknowledgement of a subscription.
const SUBSCRIBE: Duration = Duration::from_secs(1);
/// How long the host waits for a late acknowledgement, before it follows the server without a subscription.
const SUBSCRIBE_LATE: Duration = Duration::from_secs(30);
/// A connection that lasted this long was not a failed attempt.
const STABLE: Duration = Duration::from_secs(60);

/// The reason why a connection ended.
enum End {
    /// The server was removed, or the host ends.
    Stopped,
    Idle,
    Lost,
}

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
    fn change(&self, registry: &Registry, change: impl FnOnce(&mut Link)) {
        self.link.send_modify(change);
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

    async fn live(&self, registry: &Arc<Registry>, mut starts_now: bool) {
        let mut attempts = 0;
        while !self.stop.is_cancelled() {
            if !starts_now || self.state() == ServerState::NeedsApproval {
                tokio::select! {
                    () = self.wanted.notified() => {}
                    () = self.stop.cancelled() => break,
                }
                if self.state() == ServerState::NeedsApproval {
                    continue;
                }
            }
            starts_now = true;
            let mut connected = None;
            let opened = tokio::select! {
                opened = self.open(registry, &mut connected) => Some(opened),
                () = self.stop.cancelled() => None,
                never = self.wait_for_slow_start(registry) => match never {},
            };
            let Some(opened) = opened else {
                if let Some(client) = connected {
                    client.close().await;
                }
                break;
            };
            // The attempt has an outcome for each call that waited for it.
            self.clear_wake_up();
            let is_retryable = match opened {
                Ok((client, changes)) => {
                    let began = Instant::now();
                    let end = tokio::select! {
                        end = self.serve(registry, &client, changes) => end,
                        () = self.stop.cancelled() => End::Stopped,
                    };
                    client.close().await;
                    match end {
                        End::Stopped => break,
                        End::Idle => {
                            (attempts, starts_now) = (0, false);
                            continue;
                        }
                        End::Lost => {}
                    }
                    if began.elapsed() >= STABLE {
                        attempts = 0;
                    }
                    self.lost(registry);
                    true
                }
                Err(error) => {
                    self.failed(registry, &error);
                    error.is_retryable()
                }
            };
            attempts += 1;
            let policy = &registry.settings.reconnect;
            let is_repeated = is_retryable && attempts < policy.attempts;
            let wait = policy.first.saturating_mul(1 << attempts.min(16)).min(policy.longest);
            tokio::select! {
                () = sleep(wait), if is_repeated => {}
                () = self.wanted.notified() => attempts = 0,
                () = self.stop.cancelled() => break,
            }
        }
        self.change(registry, |link| {
            (link.client, link.has_ended, link.state) = (None, true, ServerState::Stopped);
        });
    }

    /// Sets the state of a start that takes longer than the host waits. Never returns.
    async fn wait_for_slow_start(&self, registry: &Registry) -> Infallible {
        let limit = self.options.start_limit.unwrap_or(registry.settings.start_limit);
        sleep(limit).await;
        self.change(registry, |link| {
            link.state = ServerState::Waiting;
            link.reason = Some(format!("the server has not answered for {limit:?}"));
        });
        pending().await
    }

    fn failed(&self, registry: &Registry, error: &Error) {
        let state = if error.is_unauthorized() { ServerState::NeedsLogin } else { ServerState::Failed };
        let reason = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        tracing::warn!(server = &*self.name, reason, "a server did not start");
        self.change(registry, |link| {
            (link.state, link.reason, link.client) = (state, Some(reason), None);
            link.failures += 1;
        });
    }

    /// Sets the state of a server whose connection has ended.
    fn lost(&self, registry: &Registry) {
        let reason = self.connector.fault().unwrap_or_else(|| "the server closed the connection".to_owned());
        tracing::warn!(server = &*self.name, reason, "a server was lost");
        self.change(registry, |link| {
            (link.state, link.reason, link.client) = (ServerState::Failed, Some(reason), None);
        });
    }

    /// Opens a connection, subscribes to changes, and then reads the lists. No change is missed in between. `connected` receives
    /// the client as soon as it is connected.
    async fn open(&self, registry: &Arc<Registry>, connected: &mut Option<Client>) -> Result<(Client, Changes), Error> {
        self.change(registry, |link| {
            (link.state, link.reason) = (ServerState::Starting, None);
        });
        let connector: Arc<dyn Connect> = self.connector.clone();
        let client = builder(&registry.settings, &self.name).connect(connector).await?;
        *connected = Some(client.clone());
        let changes = Changes::open(&client, SUBSCRIBE).await;
        self.read_lists(registry, &client).await;
        Ok((client, changes))
    }

    /// Reads the lists, publishes the catalog, and then lets calls use the client.
    async fn read_lists(&self, registry: &Arc<Registry>, client: &Client) {
        let former = self.entries();
        let listed = list(client, &former, &self.options, registry.settings.list_limit).await;
        self.set_entries(listed.entries, true);
        registry.rebuild();
        self.activity.touch();
        let problems = listed.problems.join("; ");
        self.change(registry, |link| {
            link.state = if problems.is_empty() { ServerState::Ready } else { ServerState::Degraded };
            link.reason = (!problems.is_empty()).then_some(problems);
            link.client = Some(client.clone());
        });
        // The file is written while calls already run.
        let registry = Arc::clone(registry);
        tokio::spawn(async move { registry.store().await });
    }

    /// Follows a connected server until it ends or is idle. Cancel safe.
    async fn serve(&self, registry: &Arc<Registry>, client: &Client, mut changes: Changes) -> End {
        let idle = self.options.idle_stop.or(registry.settings.idle_stop);
        let mut late = pin!(Changes::open(client, SUBSCRIBE_LATE));
        let mut is_late = matches!(changes, Changes::Late);
        let mut states = client.states();
        let mut idle_at = idle.map(|idle| Instant::now() + idle);
        loop {
            tokio::select! {
                opened = &mut late, if is_late => {
                    is_late = false;
                    changes = opened;
                    // The lists may have changed before the subscription.
                    self.read_lists(registry, client).await;
                }
                () = changes.next() => {
                    self.read_lists(registry, client).await;
                    sleep(CALM).await;
                }
                state = states.changed() => match state {
                    None | Some(State::Closed) => {
                        self.change(registry, |link| link.client = None);
                        return End::Lost;
                    }
                    Some(state) => self.follow(registry, client, state, &mut changes).await,
                },
                () = until(idle_at) => {
                    let Some(idle) = idle else { continue };
                    let stop = || {
                        self.clear_wake_up();
                        self.link.send_modify(|link| {
                            (link.client, link.state, link.reason) = (None, ServerState::Stopped, None);
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

    /// Shows a change of the connection, which the client opens again.
    async fn follow(&self, registry: &Arc<Registry>, client: &Client, state: State, changes: &mut Changes) {
        let reason = || self.connector.fault();
        match state {
            State::Ready => {
                // Another connection can lead to another version of the server.
                if !matches!(changes, Changes::Open(_)) {
                    *changes = Changes::open(client, SUBSCRIBE).await;
                }
                self.read_lists(registry, client).await;
            }
            State::Connecting { .. } => self.change(registry, |link| {
                (link.state, link.reason) = (ServerState::Degraded, reason());
            }),
            State::AwaitingUser => self.change(registry, |link| link.state = ServerState::NeedsLogin),
            State::Down => self.change(registry, |link| {
                (link.state, link.reason) = (ServerState::Failed, reason());
            }),
            _ => {}
        }
    }
}

/// The changes of lists that a server reports.
enum Changes {
    Open(Box<Subscription>),
    /// The server has not acknowledged the subscription in time.
    Late,
    /// The server reports no changes.
    None,
}

impl Changes {
    /// Subscribes within a time limit.
    async fn open(client: &Client, limit: Duration) -> Self {
        match timeout(limit, client.listen(SubscriptionFilter::lists())).await {
            Ok(Ok(subscription)) => Self::Open(Box::new(subscription)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the server reports no changes of lists");
                Self::None
            }
            Err(_) => Self::Late,
        }
    }

    /// Waits for the next change of a list. Cancel safe.
    async fn next(&mut self) {
        loop {
            let Self::Open(subscription) = self else { return pending().await };
            match subscription.next().await {
                Some(Ok(Update::ToolsChanged | Update::PromptsChanged | Update::ResourcesChanged | Update::Missed)) => {
                    return;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "the subscription of a server ended");
                    *self = Self::None;
                }
                None => *self = Self::None,
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Returns the builder of the client of a server.
fn builder(settings: &Settings, server: &str) -> ClientBuilder {
    let Implementation { name, version, .. } = &settings.info;
    Client::builder(name, version)
        .connect_timeout(settings.connect_limit)
        .reconnect(settings.reconnect.clone())
        .handler(HostHandler::new(settings, server))
}
