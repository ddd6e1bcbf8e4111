//! The program behind `cargo xtask bench instructions`: it runs one hot path a number of times in one thread.
//!
//! The command counts the instructions of two runs. The difference belongs to the iterations, without the start of the program.

#![expect(clippy::print_stderr, reason = "a command line tool prints its errors")]

use std::process::ExitCode;

use instructions::{Case, Failure};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &*args {
        [name, count] => run(name, count),
        _ => Err("usage: instructions CASE COUNT".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, count: &str) -> Result<(), Failure> {
    let case = Case::ALL.into_iter().find(|case| case.name == name);
    case.ok_or_else(|| format!("`{name}` is not a case"))?.run(count.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_counts_are_rejected() {
        run("decode-sse", "3").unwrap();
        for (name, count) in [("none", "1"), ("decode-sse", "x")] {
            run(name, count).unwrap_err();
        }
    }
}
