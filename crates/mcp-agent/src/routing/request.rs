//! A read, a prompt or a completion: a builder that is sent when it is awaited.

use std::{fmt, sync::Arc};

use mcp_client::{Call, Client, transport::BoxFuture};
use serde::de::DeserializeOwned;
use tokio::time::{Duration, Instant};

use super::{
    CallError, Shared,
    options::{RequestOptions, request_options},
};
use crate::{ServerState, policy::PolicyInput, registry::Caller};

/// A request of a host ([`Host::read`](crate::Host::read), [`Host::prompt`](crate::Host::prompt),
/// [`Host::complete`](crate::Host::complete)). It is sent when it is awaited. Dropping its future cancels it.
///
/// ```
/// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
/// use std::time::Duration;
///
/// let contents = host
///     .read("files", "file:///large.csv")
///     .timeout(Duration::from_secs(30))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// println!("{} parts", contents.contents.len());
/// # Ok(())
/// # }
/// ```
#[must_use = "a request does nothing until it is awaited"]
pub struct HostRequest<T> {
    shared: Arc<Shared>,
    /// The display name of a prompt, the URI of a resource, or the name of a server.
    name: String,
    find: Find<T>,
    options: RequestOptions,
}

/// Finds the target of a request.
type Find<T> = Box<dyn Fn(&Shared, &Caller) -> Result<Target<T>, CallError> + Send + Sync>;
type Build<T> = Box<dyn FnOnce(&Client) -> Call<T> + Send>;
/// Bounds the result of a request.
type Bound<T> = fn(&Shared, &Caller, &mut T);

/// The target of a request.
pub(crate) enum Target<T> {
    /// The host has the result.
    Ready(T),
    Server(Box<ServerTarget<T>>),
}

/// The server of a request, the input of its policies, and the request of the client.
pub(crate) struct ServerTarget<T> {
    pub(crate) server: String,
    pub(crate) input: PolicyInput,
    pub(crate) build: Build<T>,
    pub(crate) bound: Option<Bound<T>>,
}

impl<T> HostRequest<T> {
    request_options!();

    pub(crate) fn new(
        shared: &Arc<Shared>,
        caller: &Arc<Caller>,
        name: impl Into<String>,
        find: impl Fn(&Shared, &Caller) -> Result<Target<T>, CallError> + Send + Sync + 'static,
    ) -> Self {
        let options = RequestOptions::new(caller);
        Self { shared: Arc::clone(shared), name: name.into(), find: Box::new(find), options }
    }
}

impl<T: DeserializeOwned + Send + 'static> HostRequest<T> {
    async fn run(mut self) -> Result<T, CallError> {
        let shared = Arc::clone(&self.shared);
        let registry = &shared.registry;
        let call_wait = registry.settings.call_wait;
        let caller = Arc::clone(&self.options.caller);
        // The limit includes the wait for the lists, and not that for an approval.
        let mut waited = Duration::ZERO;
        let mut found = (self.find)(&shared, &caller);
        if let Err(CallError::Unknown(_)) = &found
            && let Some(slot) = registry.unlisted(&self.name)
        {
            let started = Instant::now();
            let wait = self.options.timeout.map_or(call_wait, |limit| limit.min(call_wait));
            let listed = self.options.until_cancelled(&self.name, slot.listed_within(wait)).await?;
            listed.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
            found = (self.find)(&shared, &caller);
            waited = started.elapsed();
        }
        let ServerTarget { server, mut input, build, bound } = match found? {
            Target::Ready(value) => return Ok(value),
            Target::Server(target) => *target,
        };
        let slot = registry.slot(&server).ok_or_else(|| shared.unknown_server(&server))?;
        input.principal = caller.principal_name().map(str::to_owned);
        self.options.until_cancelled(&self.name, shared.permit_item(&slot, &input)).await??;
        if !registry.slot(&server).is_some_and(|now| Arc::ptr_eq(&now, &slot)) {
            // The policies of the new server have not decided.
            let reason = Some("it was replaced during the request".to_owned());
            return Err(CallError::Unavailable { server, state: ServerState::Stopped, reason, retry_in: None });
        }
        let limit = self.options.timeout.or(slot.options.call_timeout).or(registry.settings.call_timeout);
        let limit = limit.map(|limit| limit.saturating_sub(waited));
        let wait = limit.map_or(call_wait, |limit| limit.min(call_wait));
        let began = Instant::now();
        let reached = self.options.until_cancelled(&self.name, slot.reach(registry, &caller, wait)).await?;
        let (lease, client) = reached.map_err(|cause| CallError::unavailable(&server, cause))?;
        // The limit includes the start of the server.
        let call = self.options.apply(build(&client), limit.map(|limit| limit.saturating_sub(began.elapsed())));
        let failed = |error| CallError::of_request(&lease, &server, self.name, error);
        let mut result = call.await.map_err(failed)?;
        if let Some(bound) = bound {
            bound(&shared, &caller, &mut result);
        }
        Ok(result)
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for HostRequest<T> {
    type Output = Result<T, CallError>;
    type IntoFuture = BoxFuture<'static, Result<T, CallError>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<T> fmt::Debug for HostRequest<T> {
    /// Omits the arguments, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRequest").field("name", &self.name).finish_non_exhaustive()
    }
}
