//! The gateway: the servers of a configuration file as one server.

mod audit;
mod chain;
mod ending;
mod files;
mod host;
mod keys;
mod logins;
mod pins;
mod status;
mod unusable;

use std::{error::Error, net::SocketAddr, sync::Arc};

use mcp_agent::{
    Gateway, GatewayError, Host, Names, ServerState, ServerStatus,
    config::{ConfigError, Endpoint, ServerDefinition},
};
use mcp_protocol::ErrorChain;
use mcp_server::{Server, http::HttpConfig, inputs::StateKeys};
use mcp_store_redis::{RedisOptions, RedisStore};
use tokio::net::lookup_host;

use self::{audit::AuditFile, logins::Renewable, unusable::Unusable};
use super::{auth::Auth, listener::Listener};
use crate::{
    args::{GatewayOptions, NameForm, Options},
    failure::Failure,
    login, logs,
    screen::warn,
    servers,
    signals::Signals,
    spans,
    text::line,
};

/// The most items in the failure of a strict gateway.
const DROPPED: usize = 100;
/// The namespace of gateways in a shared store.
const NAMESPACE: &str = "mcp-gateway";

/// Serves the servers of a configuration file, and ends them after a signal.
pub(super) async fn serve(gateway: &GatewayOptions, options: &Options, mut signals: Signals) -> Result<(), Failure> {
    let of_servers = chain::of_servers(options)?;
    let started = signals.interrupt(start(gateway, options)).await?;
    let Started { servers, faults, auth, shared, listener, host, audit } = started;
    let served = async {
        let mut renewable = Renewable::new(options);
        let start = async {
            let failures = host::ready(&host, &servers, &of_servers, gateway.strict, &mut renewable).await?;
            let unusable = Unusable::new(&servers, &faults, &failures);
            let name = title(&unusable, &host.statuses());
            let (server, config) = server(&host, unusable, &renewable, auth, shared, gateway)?;
            Ok((server, config, name))
        };
        let (server, config, name) = signals.interrupt(start).await?;
        logs::keep_server_stderr();
        let _watching = (host::watch(&host, renewable), pins::watch(&host, options));
        listener.serve(&server, config, &name, options.json, signals.clone()).await
    };
    let served = served.await;
    let files = async {
        let audit = async {
            if let Some(audit) = audit {
                audit.finish().await;
            }
        };
        tokio::join!(audit, spans::finish());
    };
    tokio::select! {
        () = ending::end(host.shutdown(), files, login::finish_renewals) => served,
        // If no signal began the shutdown, the first signal ends this wait.
        code = signals.next_again() => Err(Failure::interrupted(code)),
    }
}

/// A gateway whose servers have not started.
struct Started {
    servers: Vec<ServerDefinition>,
    /// The faults of the other entries of the configuration file.
    faults: Vec<ConfigError>,
    auth: Option<Auth>,
    shared: SharedState,
    listener: Listener,
    host: Host,
    audit: Option<AuditFile>,
}

/// The keys and the store that several gateways share.
struct SharedState {
    keys: Option<StateKeys>,
    store: Option<RedisStore>,
}

impl SharedState {
    /// Reads the keys, and connects to the store.
    async fn open(gateway: &GatewayOptions) -> Result<Self, Failure> {
        let keys = gateway.state_keys.as_deref().map(keys::read).transpose()?;
        let failed = |error: &(dyn Error + 'static)| Failure::usage(line(&ErrorChain::new(error).to_string()));
        let store = match &gateway.redis {
            Some(url) => {
                let options = RedisOptions::from_url(url).map_err(|error| failed(&error))?.namespace(NAMESPACE);
                Some(RedisStore::connect(options).await.map_err(|error| failed(&error))?)
            }
            None => None,
        };
        Ok(Self { keys, store })
    }
}

/// Reads the files of a gateway, and starts its host.
async fn start(gateway: &GatewayOptions, options: &Options) -> Result<Started, Failure> {
    files::check(gateway, options)?;
    let (servers, faults) = servers::configured(options)?;
    let exchanging: Vec<&str> =
        servers.iter().filter(|server| exchanges_tokens(server)).map(|server| &*server.name).collect();
    let auth = gateway.auth.as_deref().map(|file| Auth::load(file, !exchanging.is_empty())).transpose()?;
    let mut listener = Listener::at(&gateway.host, &gateway.listen);
    match &auth {
        None => listener = only_loopback(listener).await?,
        Some(auth) => {
            check_public_url(auth, &listener).await?;
            auth.warnings().iter().for_each(|text| warn(text));
            if options.policy.is_empty() {
                warn("without --policy, a gateway with --auth denies each call: write rules, or `default = \"allow\"`");
            }
        }
    }
    let shared = SharedState::open(gateway).await?;
    if let (None, Some(server)) = (&auth, exchanging.first()) {
        warn(&line(&format!(
            "without --auth, the clients have no tokens for the token exchange of the server `{server}`: each of its calls fails"
        )));
    }
    if let Some(path) = &gateway.spans {
        spans::open(path).await.map_err(|error| Failure::usage(error.to_string()))?;
    }
    let (host, audit) = host::start(gateway, options, auth.is_some(), &servers).await?;
    Ok(Started { servers, faults, auth, shared, listener, host, audit })
}

/// Returns the server in front of a host, and the settings of its HTTP endpoint.
fn server(
    host: &Host,
    unusable: Unusable,
    renewable: &Renewable,
    auth: Option<Auth>,
    shared: SharedState,
    gateway: &GatewayOptions,
) -> Result<(Server, HttpConfig), Failure> {
    let names = match gateway.names {
        NameForm::Provider => Names::Provider,
        NameForm::Raw => Names::Raw,
    };
    let mut builder = Gateway::builder(host.clone()).names(names).strict(gateway.strict);
    if gateway.listen.stdio {
        builder = builder.one_client();
    }
    if let Some(keys) = shared.keys {
        builder = builder.state_keys(keys);
    }
    let observed = builder.gateway();
    let mut server = builder.build().map_err(|error| not_built(&error))?;
    if let Some(store) = shared.store {
        server = server.store(Arc::new(store));
    }
    if gateway.spans.is_some() {
        server = server.propagate(spans::Bridge);
    }
    let mut config = HttpConfig::new();
    let operators = auth.as_ref().map(Auth::operators);
    if let Some(auth) = auth {
        server = server.requires_scopes(auth.required_scopes().iter().cloned());
        config = auth.apply_to(config);
    }
    if operators.as_ref().is_none_or(|operators| !operators.is_empty()) {
        let renewable = renewable.clone();
        config = config.status("/status", move |caller| {
            let may_read = operators.as_ref().is_none_or(|operators| operators.include(caller));
            may_read.then(|| status::document(&observed, &unusable, &renewable))
        });
    }
    Ok((server.build(), config))
}

/// Returns the failure of a gateway that cannot be built. Each item that a strict gateway does not serve has a line.
fn not_built(error: &GatewayError) -> Failure {
    match error {
        GatewayError::Dropped(items) if items.len() > 1 => {
            let failure = Failure::usage(format!("--strict: the gateway does not serve {} items", items.len()));
            let failure = items.iter().take(DROPPED).fold(failure, |all, item| all.with_line(&line(&item.to_string())));
            match items.len().saturating_sub(DROPPED) {
                0 => failure,
                more => failure.with_line(&format!("and {more} more")),
            }
        }
        error => Failure::usage(line(&ErrorChain::new(error).to_string())),
    }
}

/// Returns the name of a gateway, with the number of its servers in each state.
fn title(unusable: &Unusable, statuses: &[ServerStatus]) -> String {
    let count = |states: &[ServerState]| statuses.iter().filter(|status| states.contains(&status.state)).count();
    let configured = statuses.len() + unusable.count();
    let connected = count(&[ServerState::Ready, ServerState::Degraded]);
    let failed = count(&[ServerState::Failed]);
    let without_login = count(&[ServerState::NeedsLogin]);
    let waiting = statuses.len().saturating_sub(connected + failed + without_login);
    let mut states = format!("{connected} connected");
    for (count, state) in
        [(failed, "failed"), (without_login, "without a login"), (unusable.count(), "unusable"), (waiting, "not ready")]
    {
        if count > 0 {
            states.push_str(&format!(", {count} {state}"));
        }
    }
    format!("the gateway of {configured} server{} ({states})", if configured == 1 { "" } else { "s" })
}

/// Whether a server receives tokens of the callers by a token exchange.
fn exchanges_tokens(server: &ServerDefinition) -> bool {
    matches!(&server.endpoint, Endpoint::Http(http) if http.token_exchange.is_some())
}

/// Resolves an address, because its name could lead to another address later. Rejects an address that other machines reach: each of
/// them could call the tools.
async fn only_loopback(listener: Listener) -> Result<Listener, Failure> {
    let Listener::Http(host, port) = &listener else { return Ok(listener) };
    let addresses = resolve(host, *port).await?;
    match addresses.iter().find(|address| is_open(address)) {
        None => Ok(Listener::Resolved(addresses)),
        Some(address) => Err(Failure::usage(format!(
            "{} is not a loopback address, and other machines could call each tool: authenticate the clients with --auth FILE",
            address.ip()
        ))),
    }
}

/// Checks that a gateway beyond loopback has a public URL, for which its clients request tokens.
async fn check_public_url(auth: &Auth, listener: &Listener) -> Result<(), Failure> {
    let Listener::Http(host, port) = listener else { return Ok(()) };
    if auth.has_public_url() {
        return Ok(());
    }
    match resolve(host, *port).await?.iter().find(|address| is_open(address)) {
        None => Ok(()),
        Some(address) => Err(auth.fault(
            "public_url",
            &format!("{} is not a loopback address: set the URL at which clients reach the gateway", address.ip()),
        )),
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let unresolved = |error| Failure::usage(format!("the address `{}` is not usable: {error}", line(host)));
    Ok(lookup_host((host, port)).await.map_err(unresolved)?.collect())
}

/// Whether other machines reach an address.
fn is_open(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gateway_without_authentication_binds_addresses_that_were_checked() {
        for (host, expected) in [
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("::1", Some("[::1]:80")),
            ("0.0.0.0", None),
            ("192.0.2.1", None),
            ("::ffff:192.0.2.1", None),
        ] {
            match (only_loopback(Listener::Http(host.to_owned(), 80)).await, expected) {
                (Ok(Listener::Resolved(addresses)), Some(expected)) => {
                    assert_eq!(addresses, [expected.parse::<SocketAddr>().unwrap()], "{host}");
                }
                (Err(failure), None) => assert!(format!("{failure:?}").contains("not a loopback address"), "{host}"),
                _ => panic!("{host}"),
            }
        }
        assert!(matches!(only_loopback(Listener::Stdio).await, Ok(Listener::Stdio)));
    }
}
