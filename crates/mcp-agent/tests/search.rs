//! The search for tools: its recall over lists of real servers, and its costs.
//!
//! A release build compares the times with the limits: `cargo test --release -p mcp-agent --test search`. A debug build
//! prints them only.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use mcp_agent::search::ToolIndex;
use mcp_protocol::{JsonObject, Tool};
use serde_json::{Value, json};

const QUERIES: &str = include_str!("data/queries.txt");
/// The least share of queries whose tool is among the first five hits.
const RECALL: f64 = 0.80;
/// The limit of the time of a query over 5,000 tools, for 99 of 100 queries.
const QUERY: Duration = Duration::from_millis(2);
/// The limit of the time to index 5,000 tools.
const INDEX: Duration = Duration::from_millis(50);

/// Returns the tools of real servers with their names `server:tool`.
fn catalog() -> Vec<(String, Tool)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let server = path.file_stem().unwrap().to_str().unwrap();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let tools: Vec<Tool> = serde_json::from_value(file["tools"].clone()).unwrap();
        all.extend(tools.into_iter().map(|tool| (format!("{server}:{}", tool.name), tool)));
    }
    all
}

fn index(catalog: &[(String, Tool)]) -> ToolIndex {
    ToolIndex::new(catalog.iter().map(|(name, tool)| (name.as_str(), tool)))
}

fn queries() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = QUERIES.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(" => ").unwrap())
        .map(|(query, tools)| (query, tools.split(", ").collect()))
        .collect()
}

#[test]
fn four_of_five_queries_find_their_tool_among_the_first_five_hits() {
    let catalog = catalog();
    let index = index(&catalog);
    assert_eq!(index.len(), catalog.len());
    let queries = queries();
    assert!(queries.len() >= 60, "{}", queries.len());
    let mut found = 0;
    for (query, tools) in &queries {
        for tool in tools {
            assert!(catalog.iter().any(|(name, _)| name == tool), "{tool} is not in the catalog");
        }
        let hits = index.search(query, 5);
        let rank = hits.iter().position(|hit| tools.contains(&hit.name.as_str()));
        found += usize::from(rank.is_some());
        if rank.is_none() {
            println!("missed: {query}: {:?}", hits.iter().map(|hit| hit.name.as_str()).collect::<Vec<_>>());
        }
    }
    let recall = found as f64 / queries.len() as f64;
    println!("recall@5 over {} tools: {found} of {} queries, {recall:.2}", catalog.len(), queries.len());
    assert!(recall >= RECALL, "{recall}");
}

#[test]
fn names_and_arguments_are_found_in_any_notation() {
    let schema = json!({ "type": "object", "properties": {
        "filter": { "type": "object", "properties": { "maxResults": { "description": "Upper bound" } } },
        "sort_order": { "enum": ["ascending", "descending"] }
    }});
    let rows = Tool::new("listRows", JsonObject::from_value(schema).unwrap_or_default());
    let other = Tool::new("ping", JsonObject::new());
    let index = ToolIndex::new([("db__list-rows", &rows), ("net:ping", &other)]);
    for query in
        ["list rows", "LIST_ROWS", "row", "db", "max results", "sortOrder", "descending", "upper bound", "desc"]
    {
        let hits = index.search(query, 5);
        assert_eq!(hits.len(), 1, "{query}");
        assert_eq!((hits[0].position, hits[0].name.as_str()), (0, "db__list-rows"), "{query}");
    }
    for query in ["", "the of a", "nothing", "li"] {
        assert!(index.search(query, 5).is_empty(), "{query}");
    }
    assert!(index.search("ping", 0).is_empty());
}

#[test]
fn any_word_of_a_query_suffices_and_more_words_rank_higher() {
    let tools =
        ["create issue", "create branch", "delete issue", "list"].map(|name| Tool::new(name, JsonObject::new()));
    let index = ToolIndex::new(tools.iter().map(|tool| (tool.name.as_str(), tool)));
    let names = |query: &str| -> Vec<String> { index.search(query, 9).into_iter().map(|hit| hit.name).collect() };
    assert_eq!(names("please create the issue for me"), ["create issue", "create branch", "delete issue"]);
    assert_eq!(names("issue banana"), ["create issue", "delete issue"]);
}

#[test]
fn hostile_texts_have_bounded_costs() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "properties": { "a": inner } }));
    let wide: Value = json!({ "anyOf": vec![json!({ "properties": { "b": {} } }); 50_000] });
    let schema = json!({ "type": "object", "properties": { "wide": wide } });
    let mut nested = Tool::new("deep", JsonObject::new());
    nested.input_schema.insert("properties".to_owned(), json!({ "x": deep }));
    let long =
        Tool::new("long", JsonObject::from_value(schema).unwrap_or_default()).with_description("é".repeat(1 << 20));
    let index = ToolIndex::new([("deep", &nested), ("long", &long)]);
    assert_eq!(index.search(&"wide ".repeat(1 << 20), 5)[0].name, "long");
}

#[test]
fn five_thousand_tools_are_indexed_and_searched_within_the_limits() {
    // Copies of real tools, so that the vocabulary and the lengths are those of real servers.
    let real = catalog();
    let tools: Vec<(String, Tool)> = (0..5_000)
        .map(|n| {
            let (name, tool) = &real[n % real.len()];
            (format!("{name}_{}", n / real.len()), tool.clone())
        })
        .collect();
    let runs = if cfg!(debug_assertions) { 1 } else { 20 };
    let time = (0..runs)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(index(&tools).len(), 5_000);
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    println!("index of 5,000 tools: {:.1} ms (limit {} ms)", time.as_secs_f64() * 1e3, INDEX.as_millis());
    assert!(cfg!(debug_assertions) || time <= INDEX, "{time:?}");

    let index = index(&tools);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..if cfg!(debug_assertions) { 1 } else { 20 } {
        for (query, _) in queries() {
            let start = Instant::now();
            assert_eq!(index.search(query, 5).len(), 5);
            times.push(start.elapsed());
        }
    }
    times.sort();
    let time = times[times.len() * 99 / 100];
    println!("query of 5,000 tools, 99 of 100: {:.2} ms (limit {} ms)", time.as_secs_f64() * 1e3, QUERY.as_millis());
    assert!(cfg!(debug_assertions) || time <= QUERY, "{time:?}");
}
