//! The terminal, which everybody shares: notes on stderr, the bar of a call, and whoever the user types for.
//!
//! While the user types, nothing else is printed: what is to be told waits until the line is finished.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::LazyLock,
};

use indicatif::{ProgressBar, ProgressDrawTarget};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::keyboard;

/// Notes that wait while the user types; the oldest are dropped beyond, and that is told.
const NOTES: usize = 1000;

static SCREEN: LazyLock<Screen> = LazyLock::new(|| Screen {
    turn: Semaphore::new(1),
    shown: Mutex::new(Shown::default()),
    commands: watch::Sender::new(0),
});

struct Screen {
    /// Taken by whoever the user types for; the next one is who has waited longest.
    turn: Semaphore,
    shown: Mutex<Shown>,
    /// How many commands have ended.
    commands: watch::Sender<u64>,
}

#[derive(Default)]
struct Shown {
    is_typing: bool,
    notes: VecDeque<String>,
    dropped: usize,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn hold(&mut self, text: String) {
        self.notes.push_back(text);
        if self.notes.len() > NOTES {
            self.notes.pop_front();
            self.dropped += 1;
        }
    }
}

impl Screen {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock()
    }
}

/// Tells the user something, on lines of their own. What a server chose is made `printable` before.
pub(crate) fn note(text: impl Into<String>) {
    let mut shown = SCREEN.shown();
    let text = text.into();
    if shown.is_typing {
        return shown.hold(text);
    }
    match &shown.bar {
        Some(bar) => bar.suspend(|| print(&text)),
        None => print(&text),
    }
}

/// Says something to whoever types.
pub(crate) fn say(text: &str) {
    print(text);
}

/// A closed stderr means that nobody wants to know.
fn print(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{text}").and_then(|()| err.flush());
}

/// Shows this bar until [`hide`]; not while the user types.
pub(crate) fn show(bar: &ProgressBar) {
    let mut shown = SCREEN.shown();
    if bar.is_finished() {
        return;
    }
    bar.set_draw_target(if shown.is_typing { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    shown.bar = Some(bar.clone());
}

/// Takes the bar away for good.
pub(crate) fn hide(bar: &ProgressBar) {
    let mut shown = SCREEN.shown();
    bar.finish_and_clear();
    shown.bar = None;
}

/// The right to read what the user types, until it is dropped.
pub(crate) struct Typing {
    _turn: SemaphorePermit<'static>,
    /// Whether the cursor stands behind a prompt.
    is_open: bool,
}

/// Waits until the user types for nobody else.
pub(crate) async fn typing() -> Typing {
    let turn = loop {
        // The semaphore is never closed.
        if let Ok(turn) = SCREEN.turn.acquire().await {
            break turn;
        }
    };
    let mut shown = SCREEN.shown();
    shown.is_typing = true;
    if let Some(bar) = shown.bar.as_ref().filter(|bar| !bar.is_hidden()) {
        // Not `suspend`: the user takes longer than a note does.
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
    Typing { _turn: turn, is_open: false }
}

impl Typing {
    /// Leaves the cursor behind a prompt.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.is_open = true;
        let mut err = io::stderr().lock();
        let _ = write!(err, "{text}").and_then(|()| err.flush());
    }

    /// The line of the prompt is finished.
    pub(crate) fn finished(&mut self) {
        self.is_open = false;
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        if self.is_open {
            print("\n(the question is over)");
            // What was typed of the answer is no answer to the next question.
            keyboard::forget();
        }
        let mut shown = SCREEN.shown();
        shown.is_typing = false;
        let dropped = std::mem::take(&mut shown.dropped);
        if dropped > 0 {
            print(&format!("({dropped} older notes were dropped)"));
        }
        for text in std::mem::take(&mut shown.notes) {
            print(&text);
        }
        if let Some(bar) = &shown.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Resolves when the command that now runs is over, and so is whatever was asked for it.
pub(crate) async fn command_ended() {
    let mut commands = SCREEN.commands.subscribe();
    // The sender is never dropped.
    if commands.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends the questions that are asked.
pub(crate) fn end_questions() {
    SCREEN.commands.send_modify(|commands| *commands += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded() {
        let mut shown = Shown::default();
        for number in 0..NOTES + 2 {
            shown.hold(number.to_string());
        }
        assert_eq!((shown.notes.len(), shown.dropped, &*shown.notes[0]), (NOTES, 2, "2"));
    }

    #[tokio::test]
    async fn notes_wait_while_the_user_types_for_one_after_the_other() {
        let first = typing().await;
        note("held");
        assert_eq!(SCREEN.shown().notes, ["held"]);
        let second = tokio::spawn(typing());
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        assert!(SCREEN.shown().notes.is_empty());
        drop(second.await.unwrap());
        assert!(!SCREEN.shown().is_typing);
    }
}
