//! The HTTP client below a [`Fetch`](crate::Fetch): its trusted certificates, its proxy and its resolver.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{Client, Proxy, redirect::Policy};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::CertificateDer,
};
use rustls_platform_verifier::Verifier;

use crate::{
    error::{FetchError, FetchErrorKind},
    resolver::CheckedResolver,
};

/// The settings of the client.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) proxy: Option<Proxy>,
    pub(crate) roots: Vec<CertificateDer<'static>>,
}

/// The ways in which requests leave this machine. Each way has a client of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Without TLS, to this machine.
    Cleartext,
    /// With TLS, to this machine. A proxy would connect to itself instead.
    Loopback,
    /// With TLS, through the proxy if there is one.
    Network,
}

/// Builds a client. A client for `http` trusts no certificates of the system, because reading them takes time.
pub(crate) fn build(
    settings: &Settings,
    route: Route,
    resolver: CheckedResolver,
    timeout: Duration,
) -> Result<Client, FetchError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        FetchError::new(FetchErrorKind::Configuration, "the HTTP client cannot be built").because(error)
    };
    let tls = tls(settings, route != Route::Cleartext).map_err(|error| failed(error.into()))?;
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(resolver)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .pool_max_idle_per_host(2)
        .pool_idle_timeout(Duration::from_secs(30));
    if let Some(proxy) = settings.proxy.clone().filter(|_| route == Route::Network) {
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| failed(error.into()))
}

fn tls(settings: &Settings, needs_tls: bool) -> Result<ClientConfig, rustls::Error> {
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    let builder = || ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    if !needs_tls {
        let empty = RootCertStore::empty();
        return Ok(with_protocols(builder()?.with_root_certificates(empty).with_no_client_auth()));
    }
    // `dangerous` is how rustls names any verifier but its own; this one asks the system.
    let trusting = |verifier: Verifier| {
        let builder = builder()?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(with_protocols(builder.with_no_client_auth()))
    };
    if !settings.roots.is_empty() {
        return trusting(Verifier::new_with_extra_roots(settings.roots.iter().cloned(), provider())?);
    }
    if let Some(system) = SYSTEM.get() {
        return Ok(system.clone());
    }
    let system = trusting(Verifier::new(provider())?)?;
    Ok(SYSTEM.get_or_init(|| system).clone())
}

fn with_protocols(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn provider() -> Arc<CryptoProvider> {
    ring::default_provider().into()
}
