//! The shared terminal: notes on stderr, the progress bar, and turns for keyboard input.
//!
//! While the user types, the screen prints nothing else. It prints the held notes when the line is finished.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::LazyLock,
};

use indicatif::{ProgressBar, ProgressDrawTarget};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{
    keyboard,
    style::{self, Style},
};

/// The number of notes that the screen holds while the user types. Beyond it, the screen drops the oldest and counts them.
const MAX_NOTES: usize = 1000;

static SCREEN: LazyLock<Screen> = LazyLock::new(|| Screen {
    input: Semaphore::new(1),
    display: Mutex::new(Display::default()),
    ended_commands: watch::Sender::new(0),
});

struct Screen {
    /// The permit to read keyboard input. The semaphore is fair.
    input: Semaphore,
    display: Mutex<Display>,
    /// The number of commands that have ended.
    ended_commands: watch::Sender<u64>,
}

#[derive(Default)]
struct Display {
    is_typing: bool,
    notes: VecDeque<String>,
    dropped: usize,
    bar: Option<ProgressBar>,
}

impl Display {
    fn hold(&mut self, text: String) {
        self.notes.push_back(text);
        if self.notes.len() > MAX_NOTES {
            self.notes.pop_front();
            self.dropped += 1;
        }
    }
}

/// Prints a note on stderr, on lines of its own. The caller makes text of a server `printable` first.
pub(crate) fn note(text: impl Into<String>) {
    let mut display = SCREEN.display.lock();
    let text = text.into();
    if display.is_typing {
        return display.hold(text);
    }
    match &display.bar {
        Some(bar) => bar.suspend(|| print(&text)),
        None => print(&text),
    }
}

/// Prints a warning as a note. The caller makes text of a server printable first.
pub(crate) fn warn(text: &str) {
    note(format!("mcp: {} {text}", style::err(Style::Warning, "warning:")));
}

/// Prints a text to stderr at once. The caller holds the [`InputTurn`].
pub(crate) fn print(text: &str) {
    let mut err = io::stderr().lock();
    // If stderr is closed, the user does not want the text.
    let _ = writeln!(err, "{text}").and_then(|()| err.flush());
}

/// Shows a bar until [`hide_bar`]. The screen hides it while the user types.
pub(crate) fn show_bar(bar: &ProgressBar) {
    let mut display = SCREEN.display.lock();
    if bar.is_finished() {
        return;
    }
    bar.set_draw_target(if display.is_typing { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    display.bar = Some(bar.clone());
}

/// Removes a bar.
pub(crate) fn hide_bar(bar: &ProgressBar) {
    let mut display = SCREEN.display.lock();
    bar.finish_and_clear();
    display.bar = None;
}

/// The exclusive right to read keyboard input, until it is dropped.
pub(crate) struct InputTurn {
    _permit: SemaphorePermit<'static>,
    /// Whether a prompt waits for its line.
    has_open_prompt: bool,
}

/// Waits for the right to read keyboard input.
pub(crate) async fn input_turn() -> InputTurn {
    let permit = loop {
        // The semaphore is never closed.
        if let Ok(permit) = SCREEN.input.acquire().await {
            break permit;
        }
    };
    let mut display = SCREEN.display.lock();
    display.is_typing = true;
    if let Some(bar) = display.bar.as_ref().filter(|bar| !bar.is_hidden()) {
        // `suspend` would hold a lock of the bar while the user types.
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
    InputTurn { _permit: permit, has_open_prompt: false }
}

impl InputTurn {
    /// Prints a prompt, and leaves the cursor behind it.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.has_open_prompt = true;
        let mut err = io::stderr().lock();
        let _ = write!(err, "{text}").and_then(|()| err.flush());
    }

    /// Marks the line of the prompt as finished.
    pub(crate) fn prompt_finished(&mut self) {
        self.has_open_prompt = false;
    }
}

impl Drop for InputTurn {
    fn drop(&mut self) {
        if self.has_open_prompt {
            print("\n(the question was cancelled)");
            // A partial answer must not reach the next question.
            keyboard::discard_typed();
        }
        let mut display = SCREEN.display.lock();
        display.is_typing = false;
        let dropped = std::mem::take(&mut display.dropped);
        if dropped > 0 {
            print(&format!("({dropped} older notes were dropped)"));
        }
        for text in std::mem::take(&mut display.notes) {
            print(&text);
        }
        if let Some(bar) = &display.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Waits until the running command ends or its questions are cancelled.
pub(crate) async fn command_ended() {
    let mut ended = SCREEN.ended_commands.subscribe();
    // The sender is never dropped.
    if ended.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Cancels the open questions.
pub(crate) fn cancel_questions() {
    SCREEN.ended_commands.send_modify(|ended| *ended += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_notes_are_bounded() {
        let mut display = Display::default();
        for number in 0..MAX_NOTES + 2 {
            display.hold(number.to_string());
        }
        assert_eq!((display.notes.len(), display.dropped, &*display.notes[0]), (MAX_NOTES, 2, "2"));
    }

    #[tokio::test]
    async fn an_input_turn_is_exclusive_and_queues_notes() {
        let first = input_turn().await;
        note("held");
        assert_eq!(SCREEN.display.lock().notes, ["held"]);
        let second = tokio::spawn(input_turn());
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(SCREEN.display.lock().notes.is_empty());
        drop(second.await.unwrap());
        assert!(!SCREEN.display.lock().is_typing);
    }
}
