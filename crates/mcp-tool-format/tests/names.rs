//! Names of tools: valid, distinct, reversible, and independent of all other names.

mod common;

use std::collections::HashMap;

use mcp_tool_format::{qualified_name, safe_name};

use self::common::hostile::Random;

const GOLDEN: &str = include_str!("names.golden");

fn is_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=64).contains(&bytes.len())
        && (bytes[0].is_ascii_alphabetic() || bytes[0] == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Pairs that a naive join of server and tool confuses.
fn adversarial() -> Vec<(String, String)> {
    let parts = [
        "a",
        "b",
        "a_",
        "_a",
        "__",
        "_",
        "",
        "a__b",
        "a_b",
        "a-b",
        "A",
        "a.b",
        "a:b",
        "a/b",
        "a b",
        "é",
        "e\u{301}",
        "0",
        "9a",
        "x",
        "s9a",
        "mcp",
        "a_0abcdefghij",
        "a__b_0abcdefghij",
        "a\0b",
        "\0",
        "日本語",
        "a\n",
        "a_0",
    ];
    let long = ["x".repeat(20), "x".repeat(21), "x".repeat(61), "x".repeat(64), "x".repeat(65), "y".repeat(300)];
    let all: Vec<String> = parts.iter().map(|part| (*part).to_owned()).chain(long).collect();
    all.iter().flat_map(|server| all.iter().map(move |tool| (server.clone(), tool.clone()))).collect()
}

fn random(count: usize) -> Vec<(String, String)> {
    const ALPHABET: &[char] = &['a', 'b', 'Z', '0', '2', '_', '-', '.', ':', ' ', 'ü', '\0'];
    let mut random = Random::new(7);
    let mut word = || -> String {
        let length = 1 + random.below(40);
        (0..length).map(|_| ALPHABET[random.below(ALPHABET.len())]).collect()
    };
    (0..count).map(|_| (word(), word())).collect()
}

#[test]
fn names_are_valid_and_distinct() {
    let adversarial = adversarial();
    assert!(adversarial.len() >= 1_000, "{}", adversarial.len());
    let mut known: HashMap<String, (String, String)> = HashMap::new();
    for pair in adversarial.into_iter().chain(random(10_000)) {
        let name = qualified_name(&pair.0, &pair.1);
        assert!(is_valid(&name), "{pair:?}: {name}");
        assert_eq!(safe_name(&name), name);
        // The map from names to pairs is the way back, so two pairs must not share a name.
        let other = known.entry(name.clone()).or_insert_with(|| pair.clone());
        assert_eq!(*other, pair, "{name}");
    }
}

#[test]
fn plain_names_split_at_the_first_separator() {
    for (server, tool) in [("github", "get_issue"), ("a-b", "c__d"), ("a_b", "-x"), ("A1", "0")] {
        let name = qualified_name(server, tool);
        assert_eq!(name.split_once("__"), Some((server, tool)));
    }
}

#[test]
fn names_are_those_of_the_golden_file() {
    let mut lines = 0;
    for line in GOLDEN.lines() {
        let pair: (String, String, String) = serde_json::from_str(line).unwrap();
        assert_eq!(
            qualified_name(&pair.0, &pair.1),
            pair.2,
            "names are frozen: stored histories and approvals contain them"
        );
        lines += 1;
    }
    assert_eq!(lines, 200);
}
