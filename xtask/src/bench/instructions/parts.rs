//! The instructions of a hot path, for each crate.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Error};

use super::{FEW, MANY, callgrind};

/// The crates of the standard library. A function of these crates belongs to the crate of its type parameters.
const STANDARD: [&str; 3] = ["alloc", "core", "std"];
/// The smallest part that has a line, in per cent.
const LEAST: f64 = 1.0;

/// Prints the instructions of each crate in one iteration of a case.
pub(super) fn print(program: &Path, case: &str, scratch: &Path) -> Result<(), Error> {
    let (few, many) = (costs(program, case, FEW, scratch)?, costs(program, case, MANY, scratch)?);
    let each = |name: &String, many: &u64| {
        let few = few.get(name).copied().unwrap_or_default();
        (name.clone(), many.saturating_sub(few) / (MANY - FEW))
    };
    let mut parts: Vec<(String, u64)> = many.iter().map(|(name, many)| each(name, many)).collect();
    parts.sort_by_key(|(_, each)| std::cmp::Reverse(*each));
    let all: u64 = parts.iter().map(|(_, each)| each).sum();
    println!("\n{case:<30} {all:>8}");
    let share = |each: u64| each as f64 * 100.0 / all.max(1) as f64;
    let (shown, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, each)| share(*each) >= LEAST);
    let rest = ("other crates".to_owned(), rest.iter().map(|(_, each)| each).sum());
    for (name, each) in shown.into_iter().chain([rest]) {
        println!("  {name:<22} {each:>14} {:>5.1} %", share(each));
    }
    Ok(())
}

/// Counts the instructions of each crate in a run.
fn costs(program: &Path, case: &str, iterations: u64, scratch: &Path) -> Result<BTreeMap<String, u64>, Error> {
    fs::create_dir_all(scratch).with_context(|| scratch.display().to_string())?;
    let file = scratch.join("callgrind.out");
    let options = ["--dump-line=no", "--compress-strings=no", "--compress-pos=no"];
    callgrind(program, case, iterations, &file, &options)?;
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(of_crates(&text))
}

/// Adds the costs of the functions of each crate, from the output of callgrind with uncompressed names and positions.
fn of_crates(output: &str) -> BTreeMap<String, u64> {
    let (mut costs, mut current, mut is_call) = (BTreeMap::new(), None, false);
    for line in output.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            current = Some(crate_of(function));
        } else if line.starts_with("calls=") {
            // The next line has the cost of the called function.
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if let (false, Some(name), Some(cost)) = (is_call, &current, cost) {
                *costs.entry(String::clone(name)).or_default() += cost;
            }
            is_call = false;
        }
    }
    costs
}

/// Returns the first crate in the name of a function that is not the standard library.
fn crate_of(function: &str) -> String {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    // The first name of each path: the names that follow `::` are not crates.
    let mut words = function.split(|character: char| !is_name(character) && character != ':');
    let first = |word: &str| word.split_once("::").map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty());
    let mut is_standard = false;
    let found = words.find_map(|word| {
        let name = first(word)?;
        let is_of_standard = STANDARD.contains(&&*name);
        is_standard |= is_of_standard;
        (!is_of_standard).then_some(name)
    });
    found.unwrap_or_else(|| if is_standard { "standard library" } else { "system library" }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_belongs_to_the_first_crate_that_is_not_the_standard_library() {
        for (function, expected) in [
            ("mcp_server_core::engine::run::{{closure}}", "mcp_server_core"),
            ("<mcp_transport::ndjson::Ndjson<R> as tokio::io::AsyncRead>::poll", "mcp_transport"),
            ("core::ptr::drop_in_place<serde_json::value::Value>", "serde_json"),
            ("<alloc::vec::Vec<T> as core::clone::Clone>::clone", "standard library"),
            ("<alloc::boxed::Box<dyn core::future::Future> as http_body::Body>::poll_frame", "http_body"),
            ("__memcpy_avx_unaligned_erms", "system library"),
        ] {
            assert_eq!(crate_of(function), expected, "{function}");
        }
    }

    #[test]
    fn the_cost_of_a_called_function_belongs_to_its_own_crate() {
        let output = "\
events: Ir
fn=tokio::run
0 5
cfn=serde_json::parse
calls=2 0
0 900
0 7

fn=serde_json::parse
0 900
fn=malloc
0 3
";
        let expected = [("serde_json", 900), ("system library", 3), ("tokio", 12)];
        let expected: BTreeMap<String, u64> = expected.map(|(name, cost)| (name.to_owned(), cost)).into();
        assert_eq!(of_crates(output), expected);
    }
}
