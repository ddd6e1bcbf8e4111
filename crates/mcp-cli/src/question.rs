//! Questions to the user at the terminal, one at a time.

use std::io::{IsTerminal, stderr, stdin};

use crate::{
    keyboard,
    screen::{self, InputTurn, print},
    text::line,
};

/// Returns whether `mcp` can ask the user. If not, `mcp` does not declare elicitation to the server.
pub(crate) fn is_possible() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Waits for the input turn, then runs `ask` with it.
///
/// Returns `None` if the command that the question belongs to ends first. Dropping the future cancels the question too.
pub(crate) async fn ask<T>(ask: impl AsyncFnOnce(&mut InputTurn) -> T) -> Option<T> {
    let answer = async {
        let mut turn = screen::input_turn().await;
        keyboard::discard_typed();
        ask(&mut turn).await
    };
    tokio::select! {
        answer = answer => Some(answer),
        () = screen::command_ended() => None,
    }
}

/// Asks until the user types one of the answers, each named by its first letter. Returns `None` if the user declines.
///
/// An empty line is not an answer: the function asks again.
pub(crate) async fn choose(turn: &mut InputTurn, prompt: &str, answers: &[&'static str]) -> Option<&'static str> {
    loop {
        let typed = read(turn, prompt).await?.trim().to_lowercase();
        let is_long_form = |answer: &str| matches!((answer, &*typed), ("y", "yes") | ("n", "no") | ("a", "all"));
        if let Some(answer) = answers.iter().find(|answer| **answer == typed || is_long_form(answer)) {
            return Some(answer);
        }
    }
}

/// Reads a line behind a prompt. Returns `None` if the user declines, or if the terminal cannot be read.
pub(crate) async fn read(turn: &mut InputTurn, prompt: &str) -> Option<String> {
    turn.prompt(prompt);
    let line = keyboard::read_line().await;
    turn.prompt_finished();
    match line {
        Ok(Some(line)) => return Some(line),
        // The cursor is still behind the prompt.
        Ok(None) => print(""),
        Err(error) => print(&format!("\nmcp: cannot read from the terminal: {error}")),
    }
    None
}

/// Returns the name of a server as a question shows it.
pub(crate) fn server_name(name: &str) -> String {
    if name.is_empty() { "The server".to_owned() } else { line(name) }
}
