//! `mcp`: any Model Context Protocol server from a terminal.

mod args;
mod arguments;
mod commands;
mod elicit;
mod failure;
mod input;
mod keyboard;
mod logs;
mod output;
mod progress;
mod sampling;
mod screen;
mod shell;
mod signals;
mod target;
mod trace;

use std::{
    io::{IsTerminal, stdin},
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use clap::{CommandFactory, Parser};
use mcp_client::Client;
use tokio::time::timeout;

use self::{
    args::{Cli, Command},
    commands::Session,
    failure::Failure,
    input::Input,
    keyboard::Restored,
    signals::Signals,
    target::Target,
};

/// How long the end of the program may take beyond its own close.
const LEAVING: Duration = Duration::from_millis(500);
/// How long a server has to take its leave when the user does not want to wait.
const FAREWELL: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "mcp", &mut script);
        return output::bytes(&script).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("the program cannot start: {error}")).report(),
    };
    logs::show(cli.options.trace);
    let restored = Restored::new();
    let done = runtime.block_on(run(cli));
    // Dropping what runs ends server processes that are not ended yet. A read that nobody answers holds a thread; it is no
    // reason to stay.
    runtime.shutdown_timeout(LEAVING);
    drop(restored);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Runs the command, and closes the connection whatever came of it.
///
/// The command has a task of its own, so that a signal ends it also while it waits for whoever reads its output.
async fn run(cli: Cli) -> Result<(), Failure> {
    let mut signals = Signals::listen();
    // Whoever types into a shell ends a command by Ctrl-C, not the shell.
    let keeps_interrupts = matches!(cli.command, Command::Shell(_)) && stdin().is_terminal();
    let client = Arc::new(OnceLock::new());
    let mut work = tokio::spawn(work(cli, client.clone(), signals.clone()));
    let stop = async { if keeps_interrupts { signals.next_but_interrupts().await } else { signals.next().await } };
    let done = tokio::select! {
        done = &mut work => done.unwrap_or_else(|error| Err(Failure::other(format!("the program failed: {error}")))),
        code = stop => {
            work.abort();
            Err(Failure::stopped(code))
        }
    };
    let Some(client) = client.get() else { return done };
    if done.as_ref().is_err_and(Failure::is_stopped) {
        // An elapsed time is what the end of the runtime is for.
        let _ = timeout(FAREWELL, client.close()).await;
        return done;
    }
    tokio::select! {
        () = client.close() => done,
        code = signals.next() => Err(Failure::stopped(code)),
    }
}

/// Opens the connection, and runs the command.
async fn work(cli: Cli, opened: Arc<OnceLock<Client>>, signals: Signals) -> Result<(), Failure> {
    let Cli { options, command } = cli;
    let (target, command) = Target::take_from(command)?;
    let client = target::open(&target, &options, &command).await?;
    let session = Session::new(opened.get_or_init(|| client).clone(), &options, Input::default());
    if matches!(command, Command::Shell(_)) {
        shell::run(session, signals).await
    } else {
        commands::run(&session, command).await
    }
}
