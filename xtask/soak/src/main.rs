//! The program of `cargo xtask soak`: servers and a gateway as processes, mixed load with faults, and the checks of a long run.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints to its streams")]

use std::{process::ExitCode, time::Duration};

use self::options::Command;

mod canary;
mod load;
mod machine;
mod options;
mod serve;
mod soak;
mod tally;

/// The longest time that the runtime may take to end.
const SHUTDOWN: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    // Another part of the program may have installed a provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let command = match options::parse() {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match command {
            Command::Help => {
                println!("{}", options::USAGE);
                Ok(())
            }
            Command::Run(options) => soak::run(&options).await,
            Command::Node { port } => serve::node(port).await,
            Command::Stdio => serve::stdio().await,
            Command::Gateway { port, upstream } => serve::gateway(port, &upstream).await,
        }
    });
    // An actor without an end is a fault of the report already. It must not delay the exit.
    runtime.shutdown_timeout(SHUTDOWN);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
