//! The program of `cargo xtask fleet`: nodes, a balancer and Redis as processes, and the checks of a fleet.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints to its streams")]

use std::{process::ExitCode, time::Instant};

use anyhow::{Context, Error, anyhow};
use check_kit::random::Random;
use tokio::time::timeout;

use self::{
    checks::{CHECKS, Run},
    fleet::{Fleet, Settings},
    options::{Command, Options},
};

mod balancer;
mod checks;
mod fleet;
mod options;
mod orders;
mod stateless;
mod token_client;

#[tokio::main]
async fn main() -> ExitCode {
    // Another part of the program may have installed a provider before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let command = match options::parse() {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            println!("{}", options::USAGE);
            Ok(())
        }
        Command::Serve(options) => serve(options).await,
        Command::Check(options) => check(options).await,
        Command::TokenClient { redis, url } => token_client::run(&redis, &url).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Serves a fleet until the program is killed, or until stdin ends.
async fn serve(options: Options) -> Result<(), Error> {
    let directory = options.directory()?;
    let fleet = Fleet::start(&Settings { program: options.program, args: options.args, directory }).await?;
    println!("the fleet serves {}", fleet.url());
    let mut stdin = tokio::io::stdin();
    tokio::io::copy(&mut stdin, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Runs the chosen checks, and prints a line for each.
async fn check(options: Options) -> Result<(), Error> {
    println!("seed {}, size {} %", options.seed, options.size);
    let mut failed = Vec::new();
    let chosen = CHECKS.iter().filter(|check| options.checks.is_empty() || options.checks.contains(&check.name));
    let mut count = 0;
    for check in chosen {
        count += 1;
        println!("\n{}: {}", check.name, check.promise);
        let directory = options.directory()?.join(check.name);
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let settings = Settings { program: options.program.clone(), args: options.args.clone(), directory };
        let mut run = Run { settings, random: Random::new(options.seed), size: options.size };
        let start = Instant::now();
        let ended = timeout(check.limit, (check.run)(&mut run)).await;
        match ended.unwrap_or_else(|_| Err(anyhow!("the check does not end within {:?}", check.limit))) {
            Ok(line) => println!("  ok, {:.0} s: {line}", start.elapsed().as_secs_f64()),
            Err(error) => {
                println!("  FAILED, {:.0} s: {error:#}", start.elapsed().as_secs_f64());
                failed.push(check.name);
            }
        }
    }
    println!("\n{count} checks, {} failed", failed.len());
    if failed.is_empty() { Ok(()) } else { Err(Error::msg(format!("failed: {}", failed.join(", ")))) }
}
