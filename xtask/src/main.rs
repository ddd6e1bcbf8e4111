//! Automation of this workspace: `cargo xtask <command>`.
//!
//! One module per command; [`COMMANDS`] is the table that `main` and the usage text are made from.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints its results")]

use std::process::ExitCode;

use anyhow::Error;

mod api;
mod bench;
mod ci;
mod conformance;
mod fleet;
mod fuzz;
mod interop;
mod ledger;
mod package;
mod parallel;
mod process;
mod release;
mod soak;
mod test;
mod tidy;
mod tools;
mod wire_check;
mod workspace;

/// One command of the table.
struct Command {
    name: &'static str,
    /// The usage text of the command: its arguments, then its effect.
    usage: &'static str,
    run: fn(&[String]) -> Result<(), Error>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "[CARGO TEST ARGS]  runs each test of the workspace, with doc tests",
        run: test::run,
    },
    Command {
        name: "tidy",
        usage: "[--update | --language]  checks crate and room order, file heads and lengths, links and language",
        run: tidy::run,
    },
    Command {
        name: "ledger",
        usage: "checks that the tests named in docs/ledger.toml and docs/ledger/ exist",
        run: ledger::run,
    },
    Command {
        name: "api",
        usage: "[--update]  compares the public API with xtask/api and its external types with the allow-list",
        run: api::run,
    },
    Command {
        name: "wire-check",
        usage: "--schemas DIR  our messages of each revision against that revision's JSON schema",
        run: wire_check::run,
    },
    Command {
        name: "conformance",
        usage: "server|client|authorization|gateway|fleet [--cell NAME] [--requirements REV | --suite NAME | --scenario NAME]  the official suites",
        run: conformance::run,
    },
    Command {
        name: "interop",
        usage: "[--direction server|client|login|protected|gateway] [--peer NAME]... [--transport stdio|http|sse] \
            [--server BINARY] [--client BINARY]  peers of other projects, as a matrix",
        run: interop::run,
    },
    Command {
        name: "fleet",
        usage: "[--seed N] [--size PERCENT] [--check NAME]... [--no-suites]  three nodes with Redis behind a balancer, with kills",
        run: fleet::run,
    },
    Command {
        name: "fuzz",
        usage: "[--seconds N] [--quick] [--input FILE] [--list] [TARGET]...  runs the fuzz targets with a nightly toolchain",
        run: fuzz::run,
    },
    Command {
        name: "soak",
        usage: "[--seconds N] [--seed S]  mixed load with faults over HTTP, stdio, in memory and through a gateway, and a report",
        run: soak::run,
    },
    Command {
        name: "bench",
        usage: "[STAGE]... [--peers] [--publish] [--quick] | growth | instructions | render  speed, size, build time, growth",
        run: bench::run,
    },
    Command {
        name: "release",
        usage: "--dry-run [--prefix NAME] [--no-check]  packages each crate, and prints the open points and the commands",
        run: release::run,
    },
    Command { name: "ci", usage: "[--after-test] [--step NAME]...  runs each check", run: ci::run },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        print_usage();
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print_usage();
        return ExitCode::SUCCESS;
    }
    let Some(command) = command(name) else {
        eprintln!("error: no command `{name}`\n");
        print_usage();
        return ExitCode::from(2);
    };
    if asks_for_help(rest) {
        println!("usage: cargo xtask {} {}", command.name, command.usage);
        return ExitCode::SUCCESS;
    }
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the arguments before `--` ask for the usage of a command.
fn asks_for_help(args: &[String]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| matches!(arg.as_str(), "--help" | "-h"))
}

/// The command of that name, if the table has it.
fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

fn print_usage() {
    println!("usage: cargo xtask <command>\n");
    for command in COMMANDS {
        println!("  {:<12} {}", command.name, command.usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_command_names_its_arguments() {
        for (name, usage) in [("fuzz", fuzz::USAGE), ("interop", interop::USAGE)] {
            let arguments = usage.strip_prefix(&format!("usage: cargo xtask {name} ")).unwrap();
            let help = command(name).unwrap().usage;
            assert!(help.strip_prefix(arguments).is_some_and(|effect| effect.starts_with("  ")), "{help}");
        }
    }

    #[test]
    fn help_is_an_argument_of_each_command() {
        for (line, expected) in
            [("--help", true), ("server -h", true), ("", false), ("--check tasks", false), ("-- --help", false)]
        {
            let args: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(asks_for_help(&args), expected, "{line}");
        }
    }
}
