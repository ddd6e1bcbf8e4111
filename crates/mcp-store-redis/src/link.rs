//! The connection for commands: shared by all calls, supervised, and replaced in the background when it fails.

use std::{
    error::Error as _,
    fmt,
    hash::{BuildHasher as _, RandomState},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use mcp_store::StoreError;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection, cmd};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    activity::{Activity, Watched},
    dial::Dialer,
    error::{NO_PERMISSION, REPLICA, Verdict, reason, store_error, verdict},
    script::{Reply, Request},
    settings::Settings,
};

/// The interval between two checks of a connection.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);
/// The longest time without activity of the server while a check waits. A lost connection is replaced before the lease of a node
/// ends, which is 4 seconds by default.
const SILENCE: Duration = Duration::from_secs(2);
/// The shortest and the longest delay between two attempts to connect, before the random reduction.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));
/// The delays become short again after a connection that lived as long as this.
const STABLE: Duration = Duration::from_secs(3);

/// The number of the first connection.
const FIRST: u64 = 1;
/// The number of redirections that a call follows.
const REDIRECTIONS: usize = 3;

/// Whether a call may run twice when the first response was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
}

/// The supervised connection. Its drop closes the connection.
pub(crate) struct Link {
    dialer: Arc<Dialer>,
    state: watch::Receiver<State>,
    /// The number of the newest connection.
    newest: watch::Receiver<u64>,
    call_time: Duration,
    supervisor: JoinHandle<()>,
}

#[derive(Clone)]
enum State {
    /// The connection was lost, and the first attempt to replace it is under way. Calls wait.
    Connecting,
    Up(Live),
    /// The last attempt failed. Calls fail at once until an attempt succeeds.
    Down(Arc<str>),
}

/// A connection in use.
#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    number: u64,
    broken: Arc<Notify>,
}

/// A connection with the task that moves its bytes.
struct Connected {
    connection: MultiplexedConnection,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    activity: Arc<Activity>,
    settings: Settings,
}

impl Link {
    /// Connects, checks the settings of the server, and supervises the connection from then on.
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) for settings or credentials that cannot work, and
    /// [unavailable](StoreError::is_unavailable) for a server that is not reachable.
    pub(crate) async fn open(dialer: Arc<Dialer>, call_time: Duration) -> Result<Self, StoreError> {
        let first = connect(&dialer).await?;
        report(&first.settings);
        let (sender, state) = watch::channel(State::Connecting);
        let (numbers, newest) = watch::channel(FIRST);
        let supervisor = tokio::spawn(supervise(dialer.clone(), (sender, numbers), first, call_time));
        Ok(Self { dialer, state, newest, call_time, supervisor })
    }

    /// Returns the number of the newest connection. It changes with each new connection.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.clone()
    }

    /// The longest time for the acknowledgement of replicas, in milliseconds: half of the time after which a silent connection is lost.
    /// Redis sends nothing on the connection meanwhile.
    pub(crate) fn longest_wait(&self) -> u64 {
        u64::try_from(self.call_time.min(SILENCE).as_millis() / 2).unwrap_or(u64::MAX).max(1)
    }

    /// Runs `request` on the current connection, within the time limit of a call.
    pub(crate) async fn call(&self, effect: Effect, request: &Request<'_>) -> Result<Reply, StoreError> {
        let mut used = None;
        let deadline = Instant::now() + self.call_time;
        match timeout_at(deadline, self.attempts(effect, request, &mut used)).await {
            Ok(result) => result,
            Err(_) => {
                // The connection may lead to a peer that does not exist any more.
                if let Some(live) = used {
                    live.broken.notify_one();
                }
                let limit = self.call_time.as_millis();
                Err(StoreError::unavailable(format!("redis did not respond within {limit} ms")))
            }
        }
    }

    async fn attempts(
        &self,
        effect: Effect,
        request: &Request<'_>,
        used: &mut Option<Live>,
    ) -> Result<Reply, StoreError> {
        let (mut replaced, mut redirections) = (0, 0);
        loop {
            let mut live = self.live(replaced).await?;
            *used = Some(live.clone());
            let error = match request.run(&mut live.connection).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            *used = None;
            if verdict(&error) == Verdict::Replace {
                // A redirected command had no effect.
                let is_redirected = redirections < REDIRECTIONS
                    && error.redirect_node().is_some_and(|(address, _)| self.dialer.redirect(address));
                live.broken.notify_one();
                if is_redirected || (effect == Effect::Read && replaced == 0) {
                    replaced = live.number;
                    redirections += usize::from(is_redirected);
                    continue;
                }
            }
            return Err(store_error(error));
        }
    }

    /// Returns a connection that is newer than number `replaced`.
    async fn live(&self, replaced: u64) -> Result<Live, StoreError> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Up(live) if live.number > replaced => return Ok(live.clone()),
                State::Up(_) | State::Connecting => {}
                State::Down(reason) => return Err(StoreError::unavailable(reason.to_string())),
            }
            if state.changed().await.is_err() {
                return Err(StoreError::unavailable("the store is closed"));
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.borrow() {
            State::Connecting => "connecting",
            State::Up(_) => "connected",
            State::Down(_) => "not connected",
        };
        f.debug_struct("Link").field("state", &state).field("call_time", &self.call_time).finish_non_exhaustive()
    }
}

/// The delays between attempts to connect.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(BACKOFF.0)
    }

    /// Waits, and doubles the next delay up to the longest.
    pub(crate) async fn wait(&mut self) {
        // The processes of a fleet lose their connections at the same time.
        let random = RandomState::new().hash_one(()) % 512;
        sleep(self.0 * u32::try_from(512 + random).unwrap_or(512) / 1024).await;
        self.0 = (self.0 * 2).min(BACKOFF.1);
    }

    /// Waits after a connection that began at `start`. A connection that lived for seconds needs no delay.
    pub(crate) async fn wait_after(&mut self, start: Instant) {
        if start.elapsed() >= STABLE {
            *self = Self::new();
        } else {
            self.wait().await;
        }
    }
}

/// Returns the error of an attempt to connect. Credentials and settings that cannot work are
/// [invalid](StoreError::is_invalid).
pub(crate) fn connect_error(dialer: &Dialer, error: RedisError) -> StoreError {
    let url = dialer.url();
    let invalid = |text: String, error: RedisError| StoreError::invalid(text).with_source(error);
    match error.kind() {
        _ if error.code() == Some("NOAUTH") => {
            invalid(format!("redis at {url} requires credentials, and the options have none"), error)
        }
        _ if error.code() == Some("WRONGPASS") => invalid(format!("redis at {url} rejected the credentials"), error),
        ErrorKind::AuthenticationFailed => invalid(format!("redis at {url} rejected the credentials"), error),
        ErrorKind::Server(ServerErrorKind::NoPerm) => {
            invalid(format!("{NO_PERMISSION}, at {url}{}", reason(&error)), error)
        }
        ErrorKind::InvalidClientConfig | ErrorKind::RESP3NotSupported => {
            invalid(format!("redis at {url} does not support the options of the connection"), error)
        }
        // The text of the source has several lines.
        ErrorKind::Parse => StoreError::unavailable(format!("the server at {url} does not reply as redis")),
        ErrorKind::Io => dialer.closed().with_source(error),
        _ => store_error(error),
    }
}

async fn supervise(
    dialer: Arc<Dialer>,
    (state, newest): (watch::Sender<State>, watch::Sender<u64>),
    first: Connected,
    call_time: Duration,
) {
    let mut settings = first.settings.clone();
    let mut next = Some(first);
    let mut number = FIRST;
    let mut backoff = Backoff::new();
    loop {
        let connected = match next.take() {
            Some(connected) => connected,
            None => reconnect(&dialer, &state, &mut backoff).await,
        };
        if connected.settings != settings {
            report(&connected.settings);
            settings = connected.settings;
        }
        let (start, broken) = (Instant::now(), Arc::new(Notify::new()));
        let live = Live { connection: connected.connection.clone(), number, broken: broken.clone() };
        state.send_replace(State::Up(live));
        newest.send_replace(number);
        number += 1;
        let reason = tokio::select! {
            // After the runtime was blocked, a reply that has arrived counts before the time limit of the check.
            biased;
            () = connected.driver => "closed",
            () = broken.notified() => "failed",
            () = heartbeat(connected.connection, call_time.min(SILENCE), &connected.activity) => "silent",
        };
        state.send_replace(State::Connecting);
        tracing::warn!(reason, "the connection to redis is lost");
        backoff.wait_after(start).await;
    }
}

/// Returns when the server does not respond in time.
async fn heartbeat(mut connection: MultiplexedConnection, limit: Duration, activity: &Activity) {
    let ping = cmd("PING");
    loop {
        sleep(HEARTBEAT).await;
        let sent = Instant::now();
        let mut reply = pin!(ping.query_async::<()>(&mut connection));
        loop {
            let end = activity.last().max(sent) + limit;
            match timeout_at(end, &mut reply).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) if verdict(&error) == Verdict::Keep => break,
                // On a slow connection, the check waits behind the values of calls.
                Err(_) if activity.last() + limit > end => {}
                _ => return,
            }
        }
    }
}

async fn reconnect(dialer: &Dialer, state: &watch::Sender<State>, backoff: &mut Backoff) -> Connected {
    loop {
        match connect(dialer).await {
            Ok(connected) => {
                tracing::info!("redis is connected again");
                return connected;
            }
            Err(error) => {
                tracing::debug!(?error, "redis is not connected");
                dialer.reset();
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                state.send_replace(State::Down(format!("{error}{cause}").into()));
            }
        }
        backoff.wait().await;
    }
}

/// Connects to the node that has the namespace, within the time limit.
async fn connect(dialer: &Dialer) -> Result<Connected, StoreError> {
    let attempts = async {
        for _ in 0..REDIRECTIONS {
            if let Some(connected) = attempt(dialer).await? {
                return Ok(connected);
            }
        }
        Err(StoreError::unavailable(format!("redis redirects the namespace {REDIRECTIONS} times")))
    };
    dialer.in_time(attempts).await
}

/// Connects to a node, and checks it. Returns `None` if the node redirects the namespace to another node.
async fn attempt(dialer: &Dialer) -> Result<Option<Connected>, StoreError> {
    let stream = dialer.open().await?;
    let (stream, activity) = Watched::new(stream);
    let failed = |error| connect_error(dialer, error);
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&dialer.info, stream, config).await.map_err(failed)?;
    let mut driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(driver);
    let check = async {
        // A handshake without credentials also succeeds at a server that requires them.
        cmd("PING").query_async::<()>(&mut connection).await.map_err(failed)?;
        let probe = cmd("EXISTS").arg(&dialer.key).query_async::<Value>(&mut connection).await;
        let redirection = probe.as_ref().err().and_then(RedisError::redirect_node);
        if redirection.is_some_and(|(address, _)| dialer.redirect(address)) {
            return Ok(None);
        }
        if is_replica(&mut connection).await {
            return Err(StoreError::unavailable(REPLICA));
        }
        let settings = Settings::read(&mut connection).await;
        settings.check().map(|()| Some(settings))
    };
    let settings = tokio::select! {
        settings = check => settings?,
        () = &mut driver => return Err(dialer.closed()),
    };
    Ok(settings.map(|settings| Connected { connection, driver, activity, settings }))
}

/// Whether the server is a replica, as after a failover. Without the permission for `ROLE`, the first write shows it.
async fn is_replica(connection: &mut MultiplexedConnection) -> bool {
    match cmd("ROLE").query_async::<Value>(connection).await {
        Ok(Value::Array(role)) => matches!(role.first(), Some(Value::BulkString(name)) if name.as_slice() == b"slave"),
        Ok(_) => false,
        Err(error) => {
            tracing::debug!(%error, "redis does not allow ROLE");
            false
        }
    }
}

fn report(settings: &Settings) {
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    if let Some(note) = settings.note() {
        tracing::info!("{note}");
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use redis::RedisConnectionInfo;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::sleep_until,
    };

    use super::*;

    /// The bytes that a connection of a test accepts without a peer.
    const BUFFER: usize = 64 << 10;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_until_a_connection_lives_for_seconds() {
        let mut backoff = Backoff::new();
        for longest in [50, 100, 200, 250, 250].map(Duration::from_millis) {
            let start = Instant::now();
            // The connection was lost at once.
            backoff.wait_after(start).await;
            // The timer has a resolution of 1 ms.
            let (delay, shortest) = (start.elapsed(), longest / 2);
            assert!(shortest <= delay && delay <= longest + Duration::from_millis(1), "{delay:?} of {longest:?}");
        }
        let start = Instant::now();
        sleep(STABLE).await;
        backoff.wait_after(start).await;
        assert_eq!(start.elapsed(), STABLE);
        backoff.wait().await;
        assert!(start.elapsed() <= STABLE + BACKOFF.0 + Duration::from_millis(1));
    }

    /// Sends a value of each length in intervals of 100 ms. Returns the time until the heartbeat ends.
    async fn lost_after(lens: &[usize], rate: Option<Duration>, replies: &[(u64, &str)]) -> Duration {
        let (client, mut server) = duplex(BUFFER);
        let (stream, activity) = Watched::new(client);
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await.unwrap();
        let start = Instant::now();
        let calls = async {
            for len in lens {
                let (mut connection, mut set) = (connection.clone(), cmd("SET"));
                set.arg("k").arg(vec![b'v'; *len]);
                tokio::spawn(async move { set.query_async::<Value>(&mut connection).await });
                sleep(Duration::from_millis(100)).await;
            }
            pending::<()>().await;
        };
        let replies = async {
            let (mut rest, mut chunk) = (lens.iter().sum::<usize>(), vec![0; BUFFER]);
            while rest > 0
                && let Some(rate) = rate
            {
                rest = rest.saturating_sub(server.read(&mut chunk).await.unwrap());
                sleep(rate).await;
            }
            for (at, reply) in replies {
                sleep_until(start + Duration::from_millis(*at)).await;
                server.write_all(reply.as_bytes()).await.unwrap();
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = heartbeat(connection.clone(), SILENCE, &activity) => start.elapsed(),
            () = driver => panic!("the connection is closed"),
            () = async { tokio::join!(calls, replies); } => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_lost_after_silence_and_not_during_a_transfer() {
        let slow = Some(Duration::from_millis(50));
        for (name, lens, rate, replies, millis) in [
            ("no reply at all", &[][..], None, &[][..], 2_500),
            // The system accepts small calls although no peer reads them.
            ("calls without a reply", &[1; 20], None, &[], 2_500),
            ("silence after a reply", &[1], None, &[(1_000, "+OK\r\n")], 3_000),
            ("a long value to the server", &[64 * BUFFER], slow, &[(3_300, "+OK\r\n+PONG\r\n")], 5_800),
            (
                "a long value of the server",
                &[1],
                None,
                &[(1_000, "$4\r\n"), (2_500, "ab"), (4_000, "cd\r\n+PONG\r\n")],
                6_500,
            ),
            (
                "only errors",
                &[1, 1, 1],
                None,
                &[(1_500, "-ERR a\r\n"), (3_000, "-ERR b\r\n"), (4_500, "-ERR c\r\n+PONG\r\n")],
                7_000,
            ),
            ("a value that ends midway", &[64 * BUFFER], None, &[], 2_500),
        ] {
            let (time, expected) = (lost_after(lens, rate, replies).await, Duration::from_millis(millis));
            // The timer has a resolution of 1 ms.
            assert!(expected <= time && time <= expected + Duration::from_millis(5), "{name}: {time:?}");
        }
    }

    #[test]
    fn a_missing_permission_is_not_a_wrong_password() {
        let dialer = Dialer::new(&crate::RedisOptions::tcp("host", 1), String::new()).unwrap();
        for (line, text) in [
            (
                "NOPERM this user has no permissions to run the 'ping' command",
                "the user of redis lacks a permission of this store, at redis://host:1/0: this user has no permissions to run \
                 the 'ping' command",
            ),
            ("WRONGPASS invalid username-password pair", "redis at redis://host:1/0 rejected the credentials"),
            (
                "NOAUTH Authentication required.",
                "redis at redis://host:1/0 requires credentials, and the options have none",
            ),
        ] {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(Value::extract_error);
            let error = connect_error(&dialer, value.unwrap_err());
            assert!(error.is_invalid() && error.to_string() == text, "{line}: {error}");
        }
    }
}
