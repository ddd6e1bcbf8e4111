//! A bar on stderr while a call runs, where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcp_protocol::ProgressParams;
use tokio::{task::AbortHandle, time::sleep};

use crate::{output::line, screen};

/// How long a call may take before anything is shown.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Shows the progress of one call. It is gone when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    shows: AbortHandle,
}

impl Progress {
    /// Nothing is shown of a call that is quick.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or(ProgressStyle::default_spinner()));
        bar.set_message(line(what));
        let shown = bar.clone();
        let shows = tokio::spawn(async move {
            sleep(PATIENCE).await;
            screen::show(&shown);
            shown.enable_steady_tick(TICK);
        });
        Self { bar, shows: shows.abort_handle() }
    }

    /// What a call tells of its progress. The callback outlives neither the call nor the bar's use.
    pub(crate) fn teller(&self) -> impl FnMut(ProgressParams) + Send + 'static {
        let bar = self.bar.clone();
        // Fractions are common: the bar counts in thousandths.
        let style = ProgressStyle::with_template("{wide_msg} [{bar:20}] {percent:>3}%");
        move |told| {
            if let Some(message) = &told.message {
                bar.set_message(line(message));
            }
            if let (Some(total), Ok(style)) = (told.total.filter(|total| *total > 0.0), &style) {
                bar.set_style(style.clone());
                bar.set_length(1000);
                bar.set_position((told.progress / total * 1000.0).clamp(0.0, 1000.0) as u64);
            }
        }
    }
}

impl Progress {
    /// The call is over, and so is what was asked for it: what comes next begins on a line of its own.
    pub(crate) async fn over(self) {
        drop(self);
        screen::end_questions();
        drop(screen::typing().await);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shows.abort();
        screen::hide(&self.bar);
    }
}
