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
    /// The line of the command in the list of commands: its arguments, then its effect.
    usage: &'static str,
    /// The full usage text. It is empty if the line of the command is complete.
    full: &'static str,
    run: fn(&[String]) -> Result<(), Error>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "[CARGO TEST ARGS]  runs each test of the workspace, with doc tests",
        full: "",
        run: test::run,
    },
    Command {
        name: "tidy",
        usage: "[--update | --language]  checks crate and room order, file heads and lengths, links and language",
        full: "",
        run: tidy::run,
    },
    Command {
        name: "ledger",
        usage: "checks that the tests named in docs/ledger.toml and docs/ledger/ exist",
        full: "",
        run: ledger::run,
    },
    Command {
        name: "api",
        usage: "[--update]  compares the public API with xtask/api and its external types with the allow-list",
        full: "",
        run: api::run,
    },
    Command {
        name: "wire-check",
        usage: "--schemas DIR  our messages of each revision against that revision's JSON schema",
        full: "",
        run: wire_check::run,
    },
    Command {
        name: "conformance",
        usage: "server|client|authorization|gateway|fleet [--cell NAME] [--requirements REV | --suite NAME | --scenario NAME]  the official suites",
        full: conformance::USAGE,
        run: conformance::run,
    },
    Command {
        name: "interop",
        usage: "[--direction server|client|login|protected|gateway] [--peer NAME]... [--transport stdio|http|sse] \
            [--server BINARY] [--client BINARY]  peers of other projects, as a matrix",
        full: interop::USAGE,
        run: interop::run,
    },
    Command {
        name: "fleet",
        usage: "[--seed N] [--size PERCENT] [--check NAME]... [--no-suites]  three nodes with Redis behind a balancer, with kills",
        full: fleet::USAGE,
        run: fleet::run,
    },
    Command {
        name: "fuzz",
        usage: "[--seconds N] [--quick] [--input FILE] [--list] [TARGET]...  runs the fuzz targets with a nightly toolchain",
        full: fuzz::USAGE,
        run: fuzz::run,
    },
    Command {
        name: "soak",
        usage: "[--seconds N] [--seed S]  mixed load with faults over HTTP, stdio, in memory and through a gateway, and a report",
        full: soak::USAGE,
        run: soak::run,
    },
    Command {
        name: "bench",
        usage: "[STAGE]... [--peers] [--publish] [--quick] | growth | instructions | render  speed, size, build time, growth",
        full: bench::USAGE,
        run: bench::run,
    },
    Command {
        name: "release",
        usage: "--dry-run [--prefix NAME] [--no-check]  packages each crate, and prints the open points and the commands",
        full: "",
        run: release::run,
    },
    Command { name: "ci", usage: "[--after-test] [--step NAME]...  runs each check", full: "", run: ci::run },
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
        println!("{}", help(command));
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

/// The usage of a command: its full text, if it has one, and its effect.
fn help(command: &Command) -> String {
    let Command { name, usage, full, .. } = command;
    let Some((_, effect)) = usage.rsplit_once("  ").filter(|_| !full.is_empty()) else {
        return format!("usage: cargo xtask {name} {usage}");
    };
    format!("{full}\n\n{effect}")
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

/// Splits a command line of a test.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
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
            assert_eq!(asks_for_help(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_help_of_a_command_has_its_full_usage() {
        for (name, parts) in [
            ("bench", &["instructions [--update", "micro [NAME]", "stages: builds", "speed, size"] as &[&str]),
            ("interop", &["--transport stdio|http|sse", "peers of other projects"]),
            ("conformance", &["authorization | server|client", "the official suites"]),
            ("ledger", &["usage: cargo xtask ledger checks that"]),
        ] {
            let text = help(command(name).unwrap());
            for part in parts {
                assert!(text.contains(part), "{name}: {part}: {text}");
            }
        }
        for command in COMMANDS {
            let start = format!("usage: cargo xtask {} ", command.name);
            assert!(help(command).starts_with(&start), "{}", help(command));
        }
    }
}
