//! The names that count as tests: test functions, conformance scenarios that must pass, and rows of the interop matrix.

use std::path::Path;

use anyhow::{Context, Error};

use crate::{
    conformance,
    workspace::{self, Metadata},
};

/// The tests, scenarios and rows of the workspace.
#[derive(Debug)]
pub(super) struct Evidence {
    tests: Vec<Test>,
    scenarios: Vec<String>,
    /// The sources of the interop matrix; a row is named in them in quotes.
    interop: String,
}

/// A test function.
#[derive(Debug)]
struct Test {
    /// The crate, as Rust names it.
    package: String,
    name: String,
    /// The names that a path may have between the two: parts of the file's path and modules in the file.
    modules: Vec<String>,
}

impl Evidence {
    /// Reads the sources of every package of the workspace.
    pub(super) fn collect(root: &Path, metadata: &Metadata) -> Result<Self, Error> {
        let mut evidence =
            Self { tests: Vec::new(), scenarios: conformance::passing_scenarios(root)?, interop: String::new() };
        let members: Vec<_> = metadata
            .members()
            .filter_map(|package| {
                Some((workspace::dir(package).strip_prefix(root).ok()?, package.name.replace('-', "_")))
            })
            .collect();
        for file in workspace::files(root)? {
            let read = || std::fs::read_to_string(root.join(&file)).with_context(|| file.display().to_string());
            if file.starts_with("xtask/interop") || file.to_string_lossy().starts_with("xtask/src/interop") {
                // Not every file there is text, and only text names a row.
                evidence.interop.push_str(&read().unwrap_or_default());
            }
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            if let Some((dir, package)) = members.iter().find(|(dir, _)| file.starts_with(dir)) {
                let below = file.strip_prefix(dir).unwrap_or(&file);
                evidence.tests.extend(tests_in(package, below, &read()?));
            }
        }
        Ok(evidence)
    }

    /// Checks that the named test exists. The error gives the reason.
    pub(super) fn find(&self, name: &str) -> Result<(), String> {
        if let Some(scenario) = name.strip_prefix("conformance:") {
            return if self.scenarios.iter().any(|known| known == scenario) {
                Ok(())
            } else {
                Err("no such scenario is required and expected to pass".to_owned())
            };
        }
        if let Some(row) = name.strip_prefix("interop:") {
            let known = self.interop.contains(&format!("\"{row}\""));
            return if known { Ok(()) } else { Err("no such row in the interop matrix".to_owned()) };
        }
        let parts: Vec<&str> = name.split("::").collect();
        let [package, path @ .., function] = parts.as_slice() else {
            return Err("not `crate::path::test`, `conformance:scenario` or `interop:row`".to_owned());
        };
        let package = package.replace('-', "_");
        let mut named = self.tests.iter().filter(|test| test.package == package && test.name == *function).peekable();
        if named.peek().is_none() {
            return Err(format!("no test `{function}` in `{package}`"));
        }
        if named.any(|test| path.iter().all(|part| test.modules.iter().any(|module| module == *part))) {
            Ok(())
        } else {
            Err(format!("`{function}` is in another module of `{package}`"))
        }
    }

    #[cfg(test)]
    pub(super) fn of(tests: &[&str]) -> Self {
        let test = |name: &&str| {
            let parts: Vec<&str> = name.split("::").collect();
            Test {
                package: parts[0].to_owned(),
                name: parts[parts.len() - 1].to_owned(),
                modules: parts[1..parts.len() - 1].iter().map(|part| (*part).to_owned()).collect(),
            }
        };
        Self {
            tests: tests.iter().map(test).collect(),
            scenarios: vec!["ping".to_owned()],
            interop: "rows = [\"inspector\"]".to_owned(),
        }
    }
}

/// The tests of one file; `below` is its path in the package.
fn tests_in(package: &str, below: &Path, text: &str) -> Vec<Test> {
    let folders = below.with_extension("");
    let mut modules: Vec<String> = folders.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    modules.extend(text.lines().filter_map(|line| named_after(line, "mod")));
    let mut tests = Vec::new();
    let mut marked = false;
    for line in text.lines() {
        let line = line.trim();
        if is_test_attribute(line) {
            marked = true;
        } else if let Some(name) = named_after(line, "fn").filter(|_| marked) {
            tests.push(Test { package: package.to_owned(), name, modules: modules.clone() });
            marked = false;
        }
    }
    tests
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(…)]`.
fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.strip_prefix("#[") else { return false };
    let path = attribute.split(['(', ']']).next().unwrap_or_default();
    path == "test" || path.ends_with("::test")
}

/// The name in an item line: `pub async fn name(…)`, `mod name {`.
fn named_after(line: &str, keyword: &str) -> Option<String> {
    let is_prefix = |word: &&str| word.starts_with("pub") || matches!(*word, "async" | "unsafe" | "const");
    let mut tokens = line.split_whitespace().skip_while(is_prefix);
    let name = tokens.next().filter(|word| *word == keyword).and_then(|_| tokens.next())?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
    Some(name[..end].to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_with_their_modules() {
        let text = "//! File.\nmod inner {\n    #[tokio::test(start_paused = true)]\n    async fn waits() {}\n    #[test]\n    #[cfg(unix)]\n    \
                    fn holds<T>() {}\n    fn helper() {}\n}\n";
        let found = tests_in("a_b", Path::new("tests/topic.rs"), text);
        let names: Vec<&str> = found.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["waits", "holds"]);
        assert_eq!(found[0].modules, ["tests", "topic", "inner"]);
    }

    #[test]
    fn finds_tests_scenarios_and_rows_by_name() {
        let evidence = Evidence::of(&["a_b::topic::holds"]);
        for (name, found) in [
            ("a_b::topic::holds", true),
            ("a-b::topic::holds", true),
            ("a_b::holds", true),
            ("a_b::other::holds", false),
            ("a_b::topic::gone", false),
            ("c::topic::holds", false),
            ("holds", false),
            ("conformance:ping", true),
            ("conformance:pong", false),
            ("interop:inspector", true),
            ("interop:nobody", false),
        ] {
            assert_eq!(evidence.find(name).is_ok(), found, "{name}");
        }
    }
}
