//! The extractor that reports the progress of a request.

use mcp_protocol::{ProgressParams, ProgressToken, Shape, notification};

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
///         progress.report(step, 3, "counting").await;
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
    /// The two numbers have one type, an integer or a float: `report(3, 10, "text")`, `report(0.5, None, None)`. On the
    /// wire they are floats, so an integer above 2^53 loses its last digits.
    ///
    /// See the [example](Self#example).
    pub async fn report<N: ProgressNumber>(
        &self,
        progress: N,
        total: impl Into<Option<N>>,
        message: impl Into<Option<&str>>,
    ) {
        self.send(progress.to_f64(), total.into().map(N::to_f64), message.into()).await;
    }

    async fn send(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let inner = &self.context.inner;
        if let (Some(upgrade), Some(message)) = (self.context.task_upgrade(), message) {
            upgrade.set_message(message);
        }
        let Some(token) = inner.progress_token.as_ref().filter(|_| inner.sink.is_some()) else { return };
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(str::to_owned);
        self.context.forward_progress(params).await;
    }
}

impl Context {
    /// Sends a progress notification with the token of the client, if the client gave one.
    pub(crate) async fn forward_progress(&self, mut params: ProgressParams) {
        let Some(token) = self.progress_token() else { return };
        if !params.progress.is_finite() {
            return;
        }
        params.progress_token = token.clone();
        params.total = params.total.filter(|total| total.is_finite());
        params.shape(self.version());
        self.notify::<notification::Progress>(&params, Some(params.progress)).await;
    }

    pub(crate) fn progress_token(&self) -> Option<&ProgressToken> {
        self.inner.progress_token.as_ref()
    }

    /// Returns the last progress value that was sent.
    pub(crate) fn last_progress(&self) -> Option<f64> {
        self.outgoing().last_progress
    }
}

/// A number of [`Progress::report`]: an integer of up to 64 bits, or a float.
///
/// ```
/// use mcp_server_core::Progress;
///
/// async fn copy(progress: Progress, sizes: Vec<u64>, expected: Option<u64>) {
///     let mut done = 0;
///     for size in sizes {
///         done += size;
///         progress.report(done, expected, "copying").await;
///     }
/// }
/// # let _ = copy;
/// ```
///
/// ```
/// use mcp_server_core::ProgressNumber;
///
/// assert_eq!(7_u64.to_f64(), 7.0);
/// ```
pub trait ProgressNumber: Copy + Send {
    /// Returns the nearest float.
    fn to_f64(self) -> f64;
}

macro_rules! progress_numbers {
    ($($number:ty)*) => {$(
        impl ProgressNumber for $number {
            #[allow(clippy::cast_precision_loss, clippy::cast_lossless, trivial_numeric_casts, reason = "documented")]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

progress_numbers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 }
