//! The lookup of names, and the check of its results.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve};

use crate::guard::Guard;

/// The future of a [`Resolver`].
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Looks up the addresses of a name. Tests and applications with a DNS client of their own implement it.
///
/// ```
/// use mcp_fetch::{Fetch, Resolver, Resolving};
///
/// struct Fixed;
///
/// impl Resolver for Fixed {
///     fn resolve<'a>(&'a self, _host: &'a str) -> Resolving<'a> {
///         Box::pin(std::future::ready(Ok(vec!["192.0.2.1".parse().unwrap()])))
///     }
/// }
///
/// let fetch = Fetch::builder().resolver(Fixed).build();
/// # let _ = fetch;
/// ```
pub trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of a host.
    ///
    /// # Errors
    /// If the name has no address, or the lookup failed.
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a>;
}

/// The resolver of the operating system.
pub(crate) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// The lookup of the HTTP client. The client connects to the returned addresses, and all of them are checked.
pub(crate) struct CheckedResolver {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) guard: Arc<Guard>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> reqwest::dns::Resolving {
        let (resolver, guard) = (Arc::clone(&self.resolver), Arc::clone(&self.guard));
        Box::pin(async move {
            let host = name.as_str();
            let addresses = resolver.resolve(host).await?;
            for address in &addresses {
                guard.check_address(host, *address)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
