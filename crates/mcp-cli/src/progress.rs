//! A progress bar on stderr for a running call or login, if stderr is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcp_protocol::ProgressParams;
use tokio::{task::AbortHandle, time::sleep};

use crate::{screen, text::line};

/// The time before the bar appears: a quick call shows no bar.
const DELAY: Duration = Duration::from_millis(300);
/// The time between two frames of the animation.
const TICK: Duration = Duration::from_millis(100);

/// Shows the progress of one call or login. Dropping it removes the bar.
pub(crate) struct Progress {
    bar: ProgressBar,
    appearance: AbortHandle,
}

impl Progress {
    /// Starts the bar with this text, such as the name of a call.
    pub(crate) fn new(name: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or(ProgressStyle::default_spinner()));
        bar.set_message(line(name));
        let shown = bar.clone();
        let appearance = tokio::spawn(async move {
            sleep(DELAY).await;
            screen::show_bar(&shown);
            shown.enable_steady_tick(TICK);
        });
        Self { bar, appearance: appearance.abort_handle() }
    }

    /// Returns the callback for the progress notifications of the call.
    pub(crate) fn callback(&self) -> impl FnMut(ProgressParams) + Send + 'static {
        let bar = self.bar.clone();
        // Servers often send fractions: the bar counts in thousandths.
        let style = ProgressStyle::with_template("{wide_msg} [{bar:20}] {percent:>3}%");
        move |params| {
            if let Some(message) = &params.message {
                bar.set_message(line(message));
            }
            if let (Some(total), Ok(style)) = (params.total.filter(|total| *total > 0.0), &style) {
                bar.set_style(style.clone());
                bar.set_length(1000);
                bar.set_position((params.progress / total * 1000.0).clamp(0.0, 1000.0) as u64);
            }
        }
    }

    /// Replaces the text of the bar.
    pub(crate) fn set_message(&self, text: &str) {
        self.bar.set_message(line(text));
    }

    /// Removes the bar and cancels the questions of the call. The following output begins on a new line.
    pub(crate) async fn finish(self) {
        drop(self);
        screen::cancel_questions();
        drop(screen::input_turn().await);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.appearance.abort();
        screen::hide_bar(&self.bar);
    }
}
