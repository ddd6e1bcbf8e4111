//! Properties of the search for tools: a query with a word of a tool finds the tool.

use mcp_agent::search::ToolIndex;
use mcp_protocol::{JsonObject, Tool};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};
use serde_json::{Map, json};

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
fn check<S: Strategy>(values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}

/// A word of any script and case. The words that the search ignores have no `q`.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "q[a-z]{0,6}",
        "q[a-z]{1,3}(s|es|ies|sses|xes|ches)",
        "Q[A-Z]{0,3}[a-z]{1,4}[A-Z][a-z0-9]{0,4}",
        "q[0-9]{1,3}[A-Z]{0,2}",
        "qé[A-ZÄa-zß]{0,4}",
        "[請求書検索のタ]{1,4}q?",
        "[ก-ฮ]{1,3}q",
        "q[Ǆǅǆİıſﬁ]{1,2}",
    ]
}

/// The texts of a tool: its name, its title, its description, and the names of its arguments.
#[derive(Debug, Clone)]
struct Texts([Vec<String>; 4]);

fn texts() -> impl Strategy<Value = Texts> {
    let words = |count| vec(word(), count);
    (words(1..3), words(0..3), words(0..6), words(0..3))
        .prop_map(|(name, title, description, arguments)| Texts([name, title, description, arguments]))
}

impl Texts {
    fn tool(&self) -> (String, Tool) {
        let Self([name, title, description, arguments]) = self;
        let properties = arguments.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect::<Map<_, _>>();
        let schema = json!({"type": "object", "properties": properties});
        let schema: JsonObject = serde_json::from_value(schema).unwrap_or_default();
        let name = name.join("_");
        let tool = Tool::new(name.clone(), schema).with_title(title.join(" ")).with_description(description.join(", "));
        (name, tool)
    }
}

fn search(tools: &[Texts], query: &str) -> Vec<usize> {
    let tools: Vec<(String, Tool)> = tools.iter().map(Texts::tool).collect();
    let index = ToolIndex::new(tools.iter().map(|(name, tool)| (name.as_str(), tool)));
    let hits = index.search(query, tools.len());
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score) && hits.iter().all(|hit| hit.score > 0.0));
    hits.into_iter().map(|hit| hit.position).collect()
}

#[test]
fn a_query_with_a_word_of_a_tool_finds_the_tool() {
    let before = select(vec!["", "the ", "--", "zzzz of "]);
    let after = select(vec!["", "?", " zzzz", ", with a zzzz"]);
    check(&(vec(texts(), 1..6), any::<Index>(), any::<Index>(), before, after), |(tools, at, word, before, after)| {
        let position = at.index(tools.len());
        let words: Vec<&String> = tools[position].0.iter().flatten().collect();
        let word = words[word.index(words.len())];
        let query = format!("{before}{word}{after}");
        prop_assert!(search(&tools, &query).contains(&position), "{} of {:?}", query, tools[position]);
        Ok(())
    });
}

#[test]
fn the_beginning_of_a_word_finds_a_tool() {
    // The index has the singular of each word, so a beginning does not end in a plural.
    let word = || "q[abcd]{3,8}";
    let tool = || (word(), word()).prop_map(|(a, b)| Texts([vec![a], Vec::new(), vec![b], Vec::new()]));
    check(&(vec(tool(), 1..20), any::<Index>(), 3..5_usize), |(tools, at, length)| {
        let start = &tools[at.index(tools.len())].0[2][0][..length];
        prop_assert!(!search(&tools, start).is_empty(), "{}", start);
        prop_assert!(!search(&tools, &start.to_uppercase()).is_empty(), "{}", start);
        Ok(())
    });
}
