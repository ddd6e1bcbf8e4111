//! The program `mcp` connects to any Model Context Protocol server from a terminal.

mod answers;
mod approval;
mod args;
mod arguments;
mod commands;
mod configuration;
mod connection;
mod elicit;
mod failure;
mod files;
mod input;
mod keyboard;
mod line_file;
mod lint;
mod login;
mod logs;
mod opened;
mod output;
mod progress;
mod project;
mod question;
mod requests;
mod sampling;
mod screen;
mod servers;
mod serving;
mod shell;
mod signals;
mod spans;
mod state;
mod style;
mod suggestion;
mod target;
mod text;
mod tokens;
mod trace;

use std::{
    io::{IsTerminal, stdin},
    num::NonZero,
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

use clap::FromArgMatches;
use tokio::{runtime::Builder, time::timeout};

use self::{
    answers::Answers,
    args::{Cli, Command, Options},
    commands::Session,
    connection::ClientSettings,
    failure::Failure,
    input::Input,
    keyboard::TerminalGuard,
    opened::Opened,
    servers::Work,
    signals::Signals,
    target::Target,
};

/// The longest time that the runtime may take to end after the connection is closed.
const RUNTIME_SHUTDOWN: Duration = Duration::from_millis(500);
/// The longest time for closing the connection after a signal.
const CLOSE_AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// The longest time for the renewals of tokens that still run at the end of a command. A lost renewal requires a new login.
const RENEWAL_LIMIT: Duration = Duration::from_secs(30);
/// The longest time for these renewals after a signal. Another signal ends the wait.
const RENEWAL_AFTER_SIGNAL: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let command = Cli::definition().color(style::requested(std::env::args_os()).into());
    let cli = Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    style::install(cli.options.color);
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::definition(), "mcp", &mut script);
        return output::bytes(&script).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    if let Command::New { name, http, path, git } = &cli.command {
        let created = project::create(name, *http, path.as_deref(), git.as_deref());
        let printed = created.and_then(|text| output::bytes(format!("{text}\n").as_bytes()));
        return printed.map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    let serves = matches!(cli.command, Command::Serving(_));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = match runtime(serves, processors).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::local(format!("cannot start the runtime: {error}")).report(),
    };
    logs::install(cli.options.trace, cli.options.trace || cli.options.stderr, serves);
    let terminal = TerminalGuard::new();
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serving(command) => serving::run(command, &cli.options).await,
            command => run(Cli { command, ..cli }).await,
        }
    });
    // Dropping the tasks kills server processes that still run. A blocked read of stdin delays the exit by this limit at most.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
    drop(terminal);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.report();
            failure.offer_server_stderr();
            code
        }
    }
}

/// Returns the runtime of a command on a number of processors. A server uses all of them. Other commands have one connection.
fn runtime(serves: bool, processors: usize) -> Builder {
    // On one processor, a second thread gains no parallelism. A runtime of one thread runs tasks in the order of their events. The
    // tasks of calls that arrive together then share the caches of the processor, which saves a fifth of the CPU time of a gateway.
    if serves && processors == 1 {
        return Builder::new_current_thread();
    }
    let mut runtime = Builder::new_multi_thread();
    if !serves {
        runtime.worker_threads(2);
    }
    runtime
}

/// Runs the command, and closes the connection in every case.
///
/// The command runs in its own task. A signal can therefore end it while it is blocked on a full stdout.
async fn run(cli: Cli) -> Result<(), Failure> {
    let mut signals = Signals::install();
    // In an interactive shell, Ctrl-C ends the command and not the shell.
    let keeps_interrupts = matches!(cli.command, Command::Shell(_)) && stdin().is_terminal();
    let opened = Arc::new(Opened::default());
    let mut work = tokio::spawn(work(cli, Arc::clone(&opened), signals.clone()));
    let stop = async { if keeps_interrupts { signals.next_except_interrupt().await } else { signals.next().await } };
    let done = tokio::select! {
        done = &mut work => done.unwrap_or_else(|error| Err(Failure::local(format!("the program failed: {error}")))),
        code = stop => {
            work.abort();
            Err(Failure::interrupted(code))
        }
    };
    let done = close(&opened, done, &mut signals).await;
    let is_interrupted = done.as_ref().is_err_and(Failure::is_interrupted);
    let limit = if is_interrupted { RENEWAL_AFTER_SIGNAL } else { RENEWAL_LIMIT };
    tokio::select! {
        () = login::finish_renewals(limit) => done,
        code = signals.next() => Err(Failure::interrupted(code)),
    }
}

/// Closes the connections after a command.
async fn close(opened: &Opened, done: Result<(), Failure>, signals: &mut Signals) -> Result<(), Failure> {
    if done.as_ref().is_err_and(Failure::is_interrupted) {
        // If the time is not enough, the shutdown of the runtime kills the server process.
        let _ = timeout(CLOSE_AFTER_SIGNAL, opened.close()).await;
        return done;
    }
    tokio::select! {
        () = opened.close() => done,
        code = signals.next() => Err(Failure::interrupted(code)),
    }
}

/// Opens the connection, and runs the command.
async fn work(cli: Cli, opened: Arc<Opened>, signals: Signals) -> Result<(), Failure> {
    let Cli { options, command } = cli;
    if let Command::Account(account) = &command {
        return login::run(account, &options, &opened.client).await;
    }
    if let Command::Configuration(command) = &command {
        return servers::configure(command, &options, &opened).await;
    }
    let (target, command) = Target::take_from(command, &options)?;
    let server = match &target {
        Target::Url(url) => Some(shell_words::quote(url).into_owned()).filter(|_| !target::has_credentials(url)),
        _ => options.config_server.clone(),
    };
    let done = work_at(target, command, options, &opened, signals).await;
    done.map_err(|failure| match &server {
        Some(server) => failure.at(server),
        None => failure,
    })
}

/// Connects to the server, and runs the command.
async fn work_at(
    target: Target,
    command: Command,
    options: Options,
    opened: &Arc<Opened>,
    signals: Signals,
) -> Result<(), Failure> {
    let input = if matches!(command, Command::Shell(_)) { Input::of_shell() } else { Input::default() };
    let answers = Arc::new(Answers::read(&options, &input).await?);
    let (session, command) = if target == Target::Configuration {
        match servers::open(command, &options, &answers, opened).await? {
            Work::One(server, command) => {
                let mut session = Session::new(server.client, &options, answers, input);
                (session.filter, session.requests) = (Some(server.filter), server.requests);
                (session, command)
            }
            Work::Done => return Ok(()),
        }
    } else {
        if !options.policy.is_empty() || options.pins.is_some() {
            let message =
                "--policy and --pins apply to the servers of a configuration file; name the file with --config";
            return Err(Failure::usage(message));
        }
        let authorizer = match &target {
            Target::Url(url) => login::authorizer(&options, url, None, true).await?,
            Target::Command(_) | Target::Configuration => None,
        };
        let settings = ClientSettings::new(&options, &answers, &command)?;
        let client = connection::open(&target, &settings, authorizer).await?;
        let client = opened.client.get_or_init(|| client).clone();
        (Session::new(client, &options, answers, input), command)
    };
    let answers = Arc::clone(&session.answers);
    let done = match command {
        Command::Shell(_) => shell::run(session, signals).await,
        command => answers.explain(commands::run(&session, command).await),
    };
    // A failure of the command line names the misspelt answer itself.
    if done.as_ref().err().is_none_or(Failure::may_have_stderr) {
        answers.warn_about_unused();
    }
    done
}

#[cfg(test)]
mod tests {
    use tokio::runtime::RuntimeFlavor;

    use super::*;

    #[test]
    fn a_server_on_one_processor_has_one_thread() {
        for (serves, processors, flavor) in [
            (true, 1, RuntimeFlavor::CurrentThread),
            (true, 2, RuntimeFlavor::MultiThread),
            (false, 1, RuntimeFlavor::MultiThread),
        ] {
            let runtime = runtime(serves, processors).build().unwrap();
            assert_eq!(runtime.handle().runtime_flavor(), flavor, "{serves} {processors}");
        }
    }
}
