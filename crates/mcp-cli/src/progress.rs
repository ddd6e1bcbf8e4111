//! A bar on stderr while a call runs, where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mcp_protocol::ProgressParams;

use crate::output::printable;

/// How long a call may take before anything is shown.
const PATIENCE: Duration = Duration::from_millis(300);

/// Shows the progress of one call. It is gone when this is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Nothing is shown before the first notice, except that something runs.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_message(printable(what));
        bar.enable_steady_tick(PATIENCE);
        Self(bar)
    }

    /// What a call tells of its progress. The callback outlives neither the call nor the bar's use.
    pub(crate) fn teller(&self) -> impl FnMut(ProgressParams) + Send + 'static {
        let bar = self.0.clone();
        // Fractions are common: the bar counts in thousandths.
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {percent}%");
        move |told| {
            if let Some(message) = &told.message {
                bar.set_message(printable(message));
            }
            if let (Some(total), Ok(style)) = (told.total.filter(|total| *total > 0.0), &style) {
                bar.set_style(style.clone());
                bar.set_length(1000);
                bar.set_position((told.progress / total * 1000.0).clamp(0.0, 1000.0) as u64);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
