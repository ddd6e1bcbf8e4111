//! `mcp shell`: the commands over one open connection, with history and completion.

mod complete;

use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use rustyline::{CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};

use self::complete::{Completer, Names};
use crate::{
    args::{Cli, Command, Options},
    commands::{self, Session},
    failure::Failure,
    input::Input,
    output::line,
    screen::{self, Typing, note},
    signals::Signals,
};

/// How many lines of history are kept.
const HISTORY: usize = 1000;

type LineEditor = Editor<Completer, FileHistory>;

/// Reads and runs commands until the user leaves.
pub(crate) async fn run(mut session: Session, mut signals: Signals) -> Result<(), Failure> {
    session.input = Input::of_shell();
    let names = Names::follow(&session.client);
    let mut editor = open_editor(names)?;
    let history = history_file();
    if let Some(file) = &history {
        // The first shell has no history.
        let _ = editor.load_history(file);
    }
    let server = session.client.server_info();
    let (name, version) = (line(&server.name), line(&server.version));
    note(format!("connected to {name} {version}; `help` lists the commands, Ctrl-D leaves"));
    loop {
        let typing = between_commands(&mut signals).await;
        let (line, returned) = read_line(editor).await?;
        editor = returned;
        drop(typing);
        drop(between_commands(&mut signals).await);
        match line {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) if matches!(line.trim(), "quit" | "exit") => break,
            Ok(line) => {
                // A history that cannot be kept is no reason not to run the command.
                let _ = editor.add_history_entry(line.as_str());
                run_line(&session, &line, &mut signals).await?;
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::other(format!("cannot read from the terminal: {error}"))),
        }
    }
    if let Some(file) = &history {
        let kept = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = kept.and_then(|()| editor.save_history(file)) {
            note(format!("mcp: the history is not kept: {error}"));
        }
    }
    Ok(())
}

/// Takes the keyboard, after the questions that the server asked while nothing ran. Ctrl-C ends those.
async fn between_commands(signals: &mut Signals) -> Typing {
    signals.forget();
    loop {
        tokio::select! {
            biased;
            typing = screen::typing() => return typing,
            _ = signals.next() => screen::end_questions(),
        }
    }
}

/// Runs one line. A failure is told and ends nothing.
async fn run_line(session: &Session, line: &str, signals: &mut Signals) -> Result<(), Failure> {
    let words = match shell_words::split(line) {
        Ok(words) => words,
        Err(error) => {
            note(format!("mcp: {error}"));
            return Ok(());
        }
    };
    if matches!(&*words, [word] if word == "help" || word == "?") {
        let mut command = Cli::command();
        for subcommand in command.get_subcommands_mut().filter(|command| is_here(command.get_name())) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            note(format!("  {:<10} {about}", subcommand.get_name()));
        }
        return Ok(());
    }
    let cli = match Cli::try_parse_from(std::iter::once("mcp".to_owned()).chain(words)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help that was asked for is told in the same way.
            let _ = error.print();
            return Ok(());
        }
    };
    let here = Session {
        client: session.client.clone(),
        out: session.out.or_json(cli.options.json),
        input: Input::of_shell(),
    };
    let Cli { options, mut command } = cli;
    let done = match fits(&options, &mut command) {
        Ok(()) => tokio::select! {
            done = commands::run(&here, command) => done,
            code = signals.next() => Err(Failure::stopped(code)),
        },
        Err(failure) => Err(failure),
    };
    screen::end_questions();
    match done {
        Err(failure) if failure.is_left() => Err(failure),
        Err(failure) if failure.is_stopped() => {
            // The cursor stands behind a `^C`.
            note("");
            Ok(())
        }
        Err(failure) => {
            failure.tell();
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Refuses what was settled when the shell was started.
fn fits(options: &Options, command: &mut Command) -> Result<(), Failure> {
    let Options { json: _, header, timeout, revision, trace, env, cwd, root, sample_with, log_level } = options;
    let given = [
        ("--header", !header.is_empty()),
        ("--timeout", timeout.is_some()),
        ("--revision", revision.is_some()),
        ("--trace", *trace),
        ("--env", !env.is_empty()),
        ("--cwd", cwd.is_some()),
        ("--root", !root.is_empty()),
        ("--sample-with", sample_with.is_some()),
        ("--log-level", log_level.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!("{name} holds for the whole shell: give it to `mcp shell`")));
    }
    if command.words_mut().is_some_and(|words| !words.server.is_empty()) {
        return Err(Failure::usage("this shell talks to one server: start another one for another"));
    }
    Ok(())
}

/// The commands that make sense in a shell.
fn is_here(name: &str) -> bool {
    !matches!(name, "shell" | "completions" | "help")
}

/// Reads a line on a thread of its own, so that the connection lives meanwhile.
async fn read_line(mut editor: LineEditor) -> Result<(Result<String, ReadlineError>, LineEditor), Failure> {
    let read = tokio::task::spawn_blocking(move || {
        let line = editor.readline("mcp> ");
        (line, editor)
    });
    read.await.map_err(|error| Failure::other(format!("the prompt failed: {error}")))
}

fn open_editor(names: Names) -> Result<LineEditor, Failure> {
    let failed = |error: ReadlineError| Failure::other(format!("cannot use the terminal: {error}"));
    let config = Config::builder().completion_type(CompletionType::List).max_history_size(HISTORY).map_err(failed)?;
    let mut editor = Editor::with_config(config.build()).map_err(failed)?;
    let cli = Cli::command();
    let commands = cli.get_subcommands().map(|command| command.get_name().to_owned());
    let commands = commands.filter(|name| is_here(name)).chain(["help".to_owned(), "quit".to_owned()]);
    editor.set_helper(Some(Completer::new(commands.collect(), names)));
    Ok(editor)
}

/// Where the history lies, by the XDG rules.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .or_else(|| absolute("LOCALAPPDATA"))?;
    Some(state.join("mcp/history"))
}
