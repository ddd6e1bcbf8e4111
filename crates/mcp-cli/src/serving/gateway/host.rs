//! The host behind a gateway: its start, its events, and the attempts to start failed servers again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use mcp_agent::{
    Host, ServerState, ServerStatus,
    config::{Approvals, ServerDefinition},
    pins::{Drift, PinFile, PinRules},
    policy::Effect,
};
use mcp_protocol::ErrorChain;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{audit::AuditFile, logins::Renewable};
use crate::{
    args::{GatewayOptions, Options},
    connection::{ClientSettings, NAME, VERSION},
    failure::Failure,
    screen::{note, warn},
    servers, spans,
    text::line,
};

/// The time after which a gateway serves without the servers that have not started yet. They join later.
const START_WAIT: Duration = Duration::from_secs(15);
/// The longest start of a server whose definition sets no limit.
const LONGEST_START: Duration = Duration::from_secs(300);
/// The interval at which the host reads the policy file again.
const WATCH: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two attempts to start a failed server.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// Starts a host without servers, and returns it with the file of its audit events.
pub(super) async fn start(
    gateway: &GatewayOptions,
    options: &Options,
    has_auth: bool,
    servers: &[ServerDefinition],
) -> Result<(Host, Option<AuditFile>), Failure> {
    servers::check_options(servers, options)?;
    let settings = ClientSettings::without_answers(options);
    let definitions: HashMap<String, ServerDefinition> =
        servers.iter().map(|server| (server.name.clone(), server.clone())).collect();
    let has_timeout = options.timeout.is_some();
    let mut builder = Host::builder(NAME, VERSION).clients(move |name, client| match definitions.get(name) {
        Some(server) => {
            let client = settings.apply_to(client, server);
            // The server can join after the wait of the gateway, so this limit is longer.
            let has_limit = has_timeout || server.start_timeout.is_some();
            if has_limit { client } else { client.connect_timeout(LONGEST_START) }
        }
        None => client,
    });
    if has_auth {
        // A policy file can set another default.
        builder = builder.default_effect(Effect::Deny);
    }
    builder = options.policy.iter().fold(builder, |builder, file| builder.policy_file(file)).watch(WATCH);
    if let Ok(directory) = servers::state_directory() {
        builder = builder.approvals(Approvals::open(directory));
    }
    if let Some(path) = &options.pins {
        builder = builder.pins(PinFile::new(path), PinRules::new().drift(Drift::Block));
    }
    let mut audit = None;
    if let Some(path) = &gateway.audit {
        let file = audit.insert(AuditFile::open(path).await?);
        builder = builder.audit(file.clone());
    }
    if gateway.spans.is_some() {
        builder = builder.propagate(spans::Bridge);
    }
    if gateway.audit_required {
        builder = builder.require_audit();
    }
    let invalid = |error| Failure::usage(line(&ErrorChain::new(&error).to_string()));
    Ok((builder.start().await.map_err(invalid)?, audit))
}

/// Starts the servers, and waits until each of them is ready or has failed. If the gateway is not strict, the wait has a limit. Returns the
/// failures of the servers with a definition that `mcp` cannot use.
///
/// # Errors
/// - If the entry of a required server or each entry cannot be used. No server starts if the check of the entries finds the fault. If the
///   host rejects a definition later, other servers can run already.
/// - If a required server or each server failed.
pub(super) async fn ready(
    host: &Host,
    servers: &[ServerDefinition],
    options: &Options,
    is_strict: bool,
    renewable: &mut Renewable,
) -> Result<HashMap<String, Failure>, Failure> {
    let mut connectors = servers::Connectors::of(servers, options, false).await;
    let mut unusable = at_entries(servers, std::mem::take(&mut connectors.unusable));
    check_entries(servers, &mut unusable)?;
    let wrap = |server: &_, connector| renewable.wrap(server, connector);
    unusable.extend(at_entries(servers, connectors.add_to(host, wrap)));
    until_settled(host, is_strict).await;
    let (mut fatal, mut failures) = (None, Vec::new());
    for server in servers {
        let name = &server.name;
        let failure = match (unusable.get(name), host.status(name)) {
            (Some(failure), _) => Failure::usage(failure.to_string()),
            (None, Some(status)) if status.state == ServerState::Failed => {
                Failure::no_server_ready(format!("the server `{name}` failed: {}", reason(host, &status)))
            }
            (None, Some(status)) if status.state == ServerState::NeedsLogin => {
                warn(&line(&needs_login(host, renewable, name)));
                continue;
            }
            _ => continue,
        };
        match fatal {
            None if server.required => fatal = Some(failure),
            _ => failures.push(failure),
        }
    }
    if fatal.is_none() && failures.len() == servers.len() {
        fatal = failures.pop().map(|last| Failure::no_server_ready(last.to_string()));
    }
    failures.iter().for_each(|failure| warn(&line(&failure.to_string())));
    fatal.map_or(Ok(unusable), Err)
}

/// Waits until the start of each server has an outcome. If the gateway is not strict, servers that need longer join later.
async fn until_settled(host: &Host, is_strict: bool) {
    if is_strict {
        // A later server must not take the names of a server that still starts. The time limits of the starts bound the wait.
        servers::settle(host).await;
    } else {
        let _ = timeout(START_WAIT, servers::settle(host)).await;
    }
}

/// Adds the place of its entry to each failure.
fn at_entries(servers: &[ServerDefinition], failures: HashMap<String, Failure>) -> HashMap<String, Failure> {
    let origin = |name: &String| servers.iter().find(|server| server.name == *name)?.origin.as_ref();
    let located = failures.into_iter().map(|(name, failure)| match origin(&name) {
        Some(origin) => (name, failure.within(&origin.to_string())),
        None => (name, failure),
    });
    located.collect()
}

/// Checks the entries before a server starts.
///
/// # Errors
/// If the entry of a required server, or each entry, cannot be used.
fn check_entries(servers: &[ServerDefinition], unusable: &mut HashMap<String, Failure>) -> Result<(), Failure> {
    let is_unusable = |server: &&ServerDefinition| unusable.contains_key(&server.name);
    let required = servers.iter().find(|server| server.required && is_unusable(server));
    let last = servers.last().filter(|_| servers.iter().all(|server| is_unusable(&server)));
    let Some(fatal) = required.or(last) else { return Ok(()) };
    let fatal = unusable.remove(&fatal.name);
    servers.iter().filter_map(|server| unusable.get(&server.name)).for_each(|fault| warn(&line(&fault.to_string())));
    fatal.map_or(Ok(()), Err)
}

/// Returns the diagnostic of a server that needs a login.
fn needs_login(host: &Host, renewable: &Renewable, name: &str) -> String {
    format!("the server `{name}` needs a login: {}", renewable.remedy(host, name))
}

fn reason(host: &Host, status: &ServerStatus) -> String {
    match host.start_error(&status.name) {
        Some(error) => Failure::text_of(&error),
        None => status.reason.clone().unwrap_or_else(|| "the reason is unknown".to_owned()),
    }
}

/// Prints the changes of the states, and starts failed servers again, until the drop of the returned value.
pub(super) fn watch(host: &Host, renewable: Renewable) -> AbortOnDropHandle<()> {
    let (known, noted, retries) = (HashMap::new(), HashSet::new(), HashMap::new());
    let mut watcher = Watcher { host: host.clone(), renewable, known, noted, retries };
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut events = watcher.host.status_events();
        for status in watcher.host.statuses() {
            watcher.follow(&status);
            watcher.note(&status);
            watcher.known.insert(status.name.to_string(), status.state);
        }
        while let Some(status) = events.next().await {
            watcher.see(&status);
        }
    }))
}

/// The states of the servers of a host, and the attempts to start servers again.
struct Watcher {
    host: Host,
    renewable: Renewable,
    known: HashMap<String, ServerState>,
    /// The servers whose notes are printed.
    noted: HashSet<String>,
    retries: HashMap<String, Retry>,
}

/// The attempts to start a failed server.
struct Retry {
    next: Duration,
    waiting: AbortOnDropHandle<()>,
}

impl Watcher {
    /// Prints a change of the state of a server, and plans the next attempt.
    fn see(&mut self, status: &ServerStatus) {
        let is_new = self.known.insert(status.name.to_string(), status.state) != Some(status.state);
        if is_new {
            print(&self.host, &self.renewable, status);
            self.note(status);
        }
        // A slow reader of the events misses the states between two equal ones.
        let has_tried = || self.retries.get(&*status.name).is_some_and(|retry| retry.waiting.is_finished());
        if is_new || has_tried() {
            self.follow(status);
        }
    }

    /// Prints the parts of the entry of a server without an effect, such as a pattern that matches no tool, after its first start.
    fn note(&mut self, status: &ServerStatus) {
        let has_started = matches!(status.state, ServerState::Ready | ServerState::Degraded);
        if !has_started || !self.noted.insert(status.name.to_string()) {
            return;
        }
        for text in &status.filter_notes {
            warn(&line(&format!("the entry of the server `{}`: {text}", status.name)));
        }
    }

    /// Plans the next attempt for a failed server. A ready server begins anew with the shortest wait.
    fn follow(&mut self, status: &ServerStatus) {
        let name = status.name.to_string();
        match status.state {
            ServerState::Ready | ServerState::Degraded => drop(self.retries.remove(&name)),
            ServerState::NeedsLogin => {
                let (host, server, renewable) = (self.host.clone(), name.clone(), self.renewable.clone());
                let waiting = tokio::spawn(async move { renewable.restart_after_login(&host, &server).await });
                let waiting = AbortOnDropHandle::new(waiting);
                self.retries.insert(name, Retry { next: FIRST_RETRY, waiting });
            }
            ServerState::Failed => {
                let wait = self.retries.get(&name).map_or(FIRST_RETRY, |retry| retry.next);
                let (host, server) = (self.host.clone(), name.clone());
                let waiting = tokio::spawn(async move {
                    sleep(wait).await;
                    host.restart(&server);
                });
                let next = LAST_RETRY.min(wait * 2);
                self.retries.insert(name, Retry { next, waiting: AbortOnDropHandle::new(waiting) });
            }
            _ => {}
        }
    }
}

/// Prints a change of the state of a server.
fn print(host: &Host, renewable: &Renewable, status: &ServerStatus) {
    let name = &status.name;
    match status.state {
        ServerState::Ready => note(line(&ready_text(name, status.tools))),
        ServerState::Failed => warn(&line(&format!("the server `{name}` failed: {}", reason(host, status)))),
        ServerState::NeedsLogin => warn(&line(&needs_login(host, renewable, name))),
        ServerState::Degraded | ServerState::Waiting | ServerState::Stopped | ServerState::NeedsApproval => {
            let reason = status.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            note(line(&format!("mcp: the server `{name}` is {}{reason}", status.state)));
        }
        _ => {}
    }
}

fn ready_text(name: &str, tools: usize) -> String {
    let plural = if tools == 1 { "" } else { "s" };
    format!("mcp: the server `{name}` is ready: {tools} tool{plural}")
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use mcp_agent::ServerOptions;
    use mcp_client::Reconnect;
    use mcp_transport::{BoxFuture, Connect, Transport, TransportError};
    use tokio::time::Instant;

    use super::*;

    /// The time after which the start of a slow server fails.
    const SLOW: Duration = Duration::from_secs(100);

    /// A server whose start fails late.
    struct Slow;

    impl Connect for Slow {
        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
            Box::pin(async {
                sleep(SLOW).await;
                Err(TransportError::unreachable("the port is closed"))
            })
        }

        fn describe(&self) -> String {
            "a slow server".to_owned()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_strict_gateway_waits_for_a_slow_server() {
        for (is_strict, expected) in [(true, SLOW), (false, START_WAIT)] {
            let host = Host::builder("host", "1").reconnect(Reconnect::never()).start().await.unwrap();
            host.add("s", Arc::new(Slow), ServerOptions::new()).unwrap();
            let began = Instant::now();
            until_settled(&host, is_strict).await;
            assert_eq!(began.elapsed().as_secs(), expected.as_secs(), "{is_strict}");
            host.shutdown().await;
        }
    }

    /// A server that never starts. It counts the attempts.
    struct Failing(Arc<AtomicUsize>);

    impl Connect for Failing {
        fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Err(TransportError::unreachable("the port is closed")) })
        }

        fn describe(&self) -> String {
            "a failing server".to_owned()
        }
    }

    #[test]
    fn a_single_tool_has_the_singular() {
        for (tools, expected) in [(0, "0 tools"), (1, "1 tool"), (2, "2 tools")] {
            assert_eq!(ready_text("s", tools), format!("mcp: the server `s` is ready: {expected}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_server_has_another_attempt_if_its_start_is_not_seen() {
        let attempts: Arc<AtomicUsize> = Arc::default();
        let host = Host::builder("host", "1").reconnect(Reconnect::never()).start().await.unwrap();
        host.add("s", Arc::new(Failing(Arc::clone(&attempts))), ServerOptions::new()).unwrap();
        servers::settle(&host).await;
        let (known, noted, retries) = (HashMap::new(), HashSet::new(), HashMap::new());
        let renewable = Renewable::new(&Options::default());
        let mut watcher = Watcher { host: host.clone(), renewable, known, noted, retries };
        // The watcher sees the failed state only. Columns: the seconds since the last state, and the attempts then.
        for (seconds, expected) in [(0, 1), (4, 1), (2, 2), (9, 2), (2, 3), (19, 3), (2, 4)] {
            sleep(Duration::from_secs(seconds)).await;
            let status = host.status("s").unwrap();
            assert_eq!((status.state, attempts.load(Ordering::SeqCst)), (ServerState::Failed, expected));
            watcher.see(&status);
        }
        host.shutdown().await;
    }
}
