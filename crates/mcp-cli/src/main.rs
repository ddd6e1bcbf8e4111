//! `mcp`: any Model Context Protocol server from a terminal.

#![expect(clippy::print_stderr, reason = "a program of the command line says on stderr what is no result")]

mod args;
mod ask;
mod commands;
mod failure;
mod output;
mod progress;
mod sample;
mod shell;
mod target;
mod trace;
mod values;

use std::{process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser};

use self::{
    args::{Cli, Command},
    commands::Session,
    failure::Failure,
    target::Target,
};

/// How long the end of the program may take beyond its own close.
const LEAVING: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::Completions { shell } = cli.command {
        clap_complete::generate(shell, &mut Cli::command(), "mcp", &mut std::io::stdout());
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::other(format!("the program cannot start: {error}")).report(),
    };
    let done = runtime.block_on(run(cli));
    // Dropping what runs ends server processes that are not ended yet. A prompt that nobody answers holds a thread; it is no
    // reason to stay.
    runtime.shutdown_timeout(LEAVING);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Opens the connection, runs the command, and closes the connection whatever came of it.
async fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { options, command } = cli;
    let (target, command) = Target::take_from(command)?;
    let client = tokio::select! {
        client = target::open(&target, &options) => client?,
        () = interrupted() => return Err(Failure::interrupted()),
    };
    let session = Session::new(client, &options);
    // The shell has interrupts of its own: they end a command, not the shell.
    let done = if matches!(command, Command::Shell(_)) {
        shell::run(&session).await
    } else {
        tokio::select! {
            done = commands::run(&session, command) => done,
            () = interrupted() => Err(Failure::interrupted()),
        }
    };
    session.client.close().await;
    done
}

/// Resolves when the user presses Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
