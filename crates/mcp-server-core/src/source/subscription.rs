//! The value that keeps a subscription of a caller alive.

use std::{any::Any, fmt};

/// A running subscription to a resource or a task. Dropping it ends the subscription.
///
/// ```
/// use mcp_server_core::source::SourceSubscription;
///
/// /// Unsubscribes upstream when it is dropped.
/// struct Upstream(String);
///
/// impl Drop for Upstream {
///     fn drop(&mut self) {
///         println!("unsubscribe from {}", self.0);
///     }
/// }
///
/// let subscription = SourceSubscription::new(Upstream("news://today".to_owned()));
/// # drop(subscription);
/// ```
#[derive(Default)]
#[must_use = "dropping it ends the subscription"]
pub struct SourceSubscription(Option<Box<dyn Any + Send + Sync>>);

impl SourceSubscription {
    /// Creates a subscription that ends when the server drops the value.
    ///
    /// See the example of the [type](Self).
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }

    pub(crate) fn into_guard(self) -> Option<Box<dyn Any + Send + Sync>> {
        self.0
    }
}

impl fmt::Debug for SourceSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceSubscription")
    }
}
