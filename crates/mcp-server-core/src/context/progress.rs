//! The extractor that reports the progress of a request.

use mcp_protocol::{ProgressParams, Shape, notification};

use super::Context;

/// Reports the progress of a request. Nothing is sent when the client gave no progress token.
///
/// # Example
/// ```
/// use mcp_server_core::{Progress, Server, tool};
///
/// async fn count(progress: Progress) -> String {
///     if progress.is_wanted() {
///         println!("the client shows progress");
///     }
///     for step in 1..=3 {
///         progress.report(f64::from(step), Some(3.0), "counting").await;
///     }
///     "done".to_owned()
/// }
///
/// let server = Server::builder("counter", "1.0").tool(tool("count", count)).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Progress {
    pub(super) context: Context,
}

impl Progress {
    /// Whether the client gave a progress token.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.context.inner.progress_token.is_some() && self.context.inner.sink.is_some()
    }

    /// Sends a progress notification with the work done, the total, and a message. A value that does not grow is not
    /// sent (utilities/progress). The message also becomes the status message of a task.
    ///
    /// See the [example](Self#example).
    pub async fn report(&self, progress: f64, total: Option<f64>, message: impl Into<Option<&str>>) {
        let inner = &self.context.inner;
        let message = message.into();
        if let (Some(upgrade), Some(message)) = (self.context.task_upgrade(), message) {
            upgrade.set_message(message);
        }
        let Some(token) = inner.progress_token.as_ref().filter(|_| inner.sink.is_some()) else { return };
        if !progress.is_finite() {
            return;
        }
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total.filter(|total| total.is_finite());
        params.message = message.map(str::to_owned);
        params.shape(inner.version);
        self.context.notify::<notification::Progress>(&params, Some(progress)).await;
    }
}
