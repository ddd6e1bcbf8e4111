//! The HTTP client: its trusted certificates, its proxy, and its redirects.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{
    Client, StatusCode, Url,
    redirect::{Action, Attempt, Policy},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
};
use rustls_platform_verifier::Verifier;

use crate::{
    config::{self, Config},
    fault::Fault,
};

/// Builds a client for one endpoint.
pub(crate) fn build(url: &Url, config: &Config) -> Result<Client, Fault> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(url, config).map_err(Fault::Roots)?)
        .redirect(if config.authorization.is_some() { Policy::none() } else { Policy::custom(follow) })
        .referer(false)
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE);
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(proxy.clone());
    } else if config::is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(Fault::Client)
}

/// The interval of HTTP/2 pings, and the time limit for their answers. The keep-alive of TCP, which the client also
/// uses, does not detect a hanging process.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The largest number of redirects, which covers a proxy and a trailing slash.
pub(crate) const MAX_REDIRECTS: usize = 3;

/// Decides about a redirect. A redirect that is not followed becomes the response, which is then a fault. With an
/// authorizer, the transport follows redirects itself, because each request needs its own authorization.
fn follow(attempt: Attempt<'_>) -> Action {
    let is_same_origin = attempt.previous().iter().all(|url| config::is_same_origin(url, attempt.url()));
    if keeps_request(attempt.status()) && is_same_origin && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Returns true if a redirect with this status keeps the method and the body.
pub(crate) fn keeps_request(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

fn tls(url: &Url, config: &Config) -> Result<ClientConfig, rustls::Error> {
    /// The certificates of the system are read once, because reading takes time.
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    /// The configuration for endpoints without TLS. Each configuration has a cache of sessions, which these endpoints do not use.
    static CLEARTEXT: OnceLock<ClientConfig> = OnceLock::new();
    if url.scheme() == "http" && config.proxy.is_none() {
        // No connection needs a certificate, and the system may have none.
        if config.roots.is_empty()
            && let Some(cleartext) = CLEARTEXT.get()
        {
            return Ok(cleartext.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(config.roots.iter().cloned());
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let cleartext = with_protocols(builder.with_root_certificates(roots).with_no_client_auth());
        return Ok(if config.roots.is_empty() { CLEARTEXT.get_or_init(|| cleartext).clone() } else { cleartext });
    }
    if !config.roots.is_empty() {
        return trusting(Verifier::new_with_extra_roots(config.roots.iter().cloned(), provider())?);
    }
    if let Some(system) = SYSTEM.get() {
        return Ok(system.clone());
    }
    let system = trusting(Verifier::new(provider())?)?;
    Ok(SYSTEM.get_or_init(|| system).clone())
}

fn trusting(verifier: Verifier) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    // `dangerous` is how rustls names any verifier but its own; this one asks the system.
    Ok(with_protocols(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()))
}

fn with_protocols(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn provider() -> Arc<CryptoProvider> {
    ring::default_provider().into()
}
