//! `mcp shell`: the commands over one open connection, with history and completion.

mod complete;
mod template;

use std::io::{IsTerminal as _, stdin};

use clap::FromArgMatches;
use rustyline::{CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};

use self::complete::{Completer, Names, Values};
use crate::{
    args::{Cli, Command, Options},
    commands::{self, Session},
    failure::Failure,
    input::Input,
    logs,
    requests::Requests,
    screen::{self, InputTurn, note},
    signals::Signals,
    state, style,
    suggestion::nearest,
    text::line,
};

/// The number of history lines that the shell keeps.
const MAX_HISTORY: usize = 1000;
/// The word that prints the stderr of the server's command.
const STDERR: &str = "stderr";
const PROMPT: &str = "mcp> ";

type LineEditor = Editor<Completer, FileHistory>;

/// Reads and runs commands until the user closes the shell.
pub(crate) async fn run(session: Session, mut signals: Signals) -> Result<(), Failure> {
    let names = Names::follow(&session.client, session.filter.clone());
    let mut editor = open_editor(session.requests.clone(), names)?;
    let history = state::path("history");
    if let Some(file) = &history {
        // Before the first shell the file does not exist.
        let _ = editor.load_history(file);
    }
    let server = session.client.server_info();
    let (name, version) = (line(&server.name), line(&server.version));
    note(format!("connected to {name} {version}; `help` lists the commands, Ctrl-D closes the shell"));
    loop {
        let turn = input_turn(&mut signals).await;
        let (line, returned) = read_line(editor).await?;
        editor = returned;
        drop(turn);
        drop(input_turn(&mut signals).await);
        match line {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) if matches!(line.trim(), "quit" | "exit") => break,
            Ok(line) => {
                // The command runs even if the history rejects the line.
                let _ = editor.add_history_entry(line.as_str());
                run_line(&session, &line, &mut signals).await?;
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::local(format!("cannot read from the terminal: {error}"))),
        }
    }
    if let Some(file) = &history {
        let saved = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = saved.and_then(|()| editor.save_history(file)) {
            note(format!("mcp: cannot save the history: {error}"));
        }
    }
    Ok(())
}

/// Waits for the input turn behind open questions of the server. Ctrl-C cancels those questions.
async fn input_turn(signals: &mut Signals) -> InputTurn {
    signals.discard_pending();
    loop {
        tokio::select! {
            biased;
            turn = screen::input_turn() => return turn,
            _ = signals.next() => screen::cancel_questions(),
        }
    }
}

/// Runs one line. A failure is printed, and the shell continues unless stdout is closed.
async fn run_line(session: &Session, line: &str, signals: &mut Signals) -> Result<(), Failure> {
    let words = match shell_words::split(line) {
        Ok(words) => words,
        Err(error) => {
            note(format!("mcp: {error}"));
            return Ok(());
        }
    };
    match &*words {
        [word] if word == "help" || word == "?" => {
            help();
            return Ok(());
        }
        [word] if word == STDERR => {
            show_stderr();
            return Ok(());
        }
        _ => {}
    }
    let with_command = tokio::select! {
        words = with_command(session, words) => words,
        code = signals.next() => Err(Failure::interrupted(code)),
    };
    let words = match with_command {
        Ok(words) => words,
        Err(failure) => return shown(failure),
    };
    let words = std::iter::once("mcp".to_owned()).chain(words);
    let matches = Cli::definition().color(style::choice().into()).try_get_matches_from(words);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // clap returns requested help as an error too.
            let _ = error.print();
            return Ok(());
        }
    };
    let session = Session {
        client: session.client.clone(),
        out: session.out.or_json(cli.options.json),
        answers: session.answers.clone(),
        input: Input::of_shell(),
        filter: session.filter.clone(),
        requests: session.requests.clone(),
    };
    let Cli { options, mut command } = cli;
    let done = match check_options(&options, &mut command) {
        Ok(()) => tokio::select! {
            done = commands::run(&session, command) => done,
            code = signals.next() => Err(Failure::interrupted(code)),
        },
        Err(failure) => Err(failure),
    };
    screen::cancel_questions();
    session.answers.explain(done).or_else(shown)
}

/// Prints a failure, with the command that shows the stderr of the server. A closed stdout ends the shell.
fn shown(failure: Failure) -> Result<(), Failure> {
    if failure.is_stdout_closed() {
        return Err(failure);
    }
    if failure.is_interrupted() {
        // The terminal shows `^C` in the current line.
        note("");
        return Ok(());
    }
    failure.print();
    if failure.may_have_stderr() && logs::has_server_stderr() {
        note(format!("mcp: the command has written to stderr; `{STDERR}` prints the last lines"));
    }
    Ok(())
}

/// Prints the commands of the shell.
fn help() {
    let mut command = Cli::definition();
    for subcommand in command.get_subcommands_mut().filter(|command| is_in_shell(command.get_name())) {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        note(format!("  {:<10} {about}", subcommand.get_name()));
    }
    note(format!("  {STDERR:<10} Show the last lines that the server's command wrote to stderr"));
    note("  TOOL       Call a tool: `call` may be omitted");
}

fn show_stderr() {
    let lines = logs::take_server_stderr();
    if lines.is_empty() {
        note("mcp: the command has written nothing new to stderr");
    }
    lines.iter().for_each(|line| logs::note_server_stderr(line));
}

/// Adds `call` to a line that begins with the name of a tool. A command takes precedence over a tool of the same name.
async fn with_command(session: &Session, mut words: Vec<String>) -> Result<Vec<String>, Failure> {
    let cli = Cli::definition();
    let commands: Vec<&str> = cli.get_subcommands().map(|command| command.get_name()).chain(["help"]).collect();
    let is_command = words.iter().any(|word| commands.contains(&word.as_str()));
    let Some(first) = words.first().filter(|word| !word.starts_with('-') && !is_command) else { return Ok(words) };
    let tools = commands::tool_names(session).await?;
    if tools.contains(first) {
        words.insert(0, "call".to_owned());
        return Ok(words);
    }
    let names = commands.into_iter().filter(|name| is_in_shell(name)).chain(tools.iter().map(String::as_str));
    let hint = nearest(first, names).map(|name| format!("; did you mean `{}`?", line(name))).unwrap_or_default();
    Err(Failure::usage(format!("there is no command and no tool `{}`{hint}", line(first))))
}

/// Rejects options that apply only when the shell starts.
fn check_options(options: &Options, command: &mut Command) -> Result<(), Failure> {
    if let Some(name) = options.given().next() {
        return Err(Failure::usage(format!("{name} applies to the whole shell; pass it to `mcp shell`")));
    }
    if command.words_mut().is_some_and(|words| !words.server.is_empty()) {
        return Err(Failure::usage("a shell has one server; start another shell for another server"));
    }
    Ok(())
}

/// Returns whether a command is available in the shell.
fn is_in_shell(name: &str) -> bool {
    let is_outside = matches!(name, "install" | "uninstall" | "approve" | "deny" | "doctor");
    !is_outside && !matches!(name, "shell" | "completions" | "new" | "login" | "logout" | "whoami" | "help")
}

/// Reads a line on a blocking thread, with a prompt if stdin is a terminal. The connection continues to work meanwhile.
async fn read_line(mut editor: LineEditor) -> Result<(Result<String, ReadlineError>, LineEditor), Failure> {
    let read = tokio::task::spawn_blocking(move || {
        // With `TERM=dumb`, the editor writes the prompt to stdout also for a pipe.
        let prompt = if stdin().is_terminal() { PROMPT } else { "" };
        let line = editor.readline(prompt);
        (line, editor)
    });
    read.await.map_err(|error| Failure::local(format!("cannot read a line: {error}")))
}

fn open_editor(requests: Requests, names: Names) -> Result<LineEditor, Failure> {
    let failed = |error: ReadlineError| Failure::local(format!("cannot use the terminal: {error}"));
    let config =
        Config::builder().completion_type(CompletionType::List).max_history_size(MAX_HISTORY).map_err(failed)?;
    let mut editor = Editor::with_config(config.build()).map_err(failed)?;
    let cli = Cli::definition();
    let commands = cli.get_subcommands().map(|command| command.get_name().to_owned());
    let commands = commands.filter(|name| is_in_shell(name)).chain(["help", STDERR, "quit"].map(ToOwned::to_owned));
    editor.set_helper(Some(Completer::new(commands.collect(), names, Some(Values::new(requests)))));
    Ok(editor)
}
