//! The time of a rendering: 500 real tools, and schemas that are built to be costly.
//!
//! A release build compares the times with the limits: `cargo test --release -p mcp-tool-format --test cost`. A debug build
//! prints them only.

#![expect(clippy::print_stdout, reason = "the figures are the purpose of a release run")]

mod common;

use std::time::{Duration, Instant};

use mcp_protocol::Tool;
use mcp_tool_format::{Options, Provider, qualified_name, render};
use serde_json::{Map, Value, json};

use self::common::{recorded, tool};

/// The limit for 500 tools and all providers.
const ALL_PROVIDERS: Duration = Duration::from_millis(100);
/// The limit for one costly schema and one provider.
const ONE_SCHEMA: Duration = Duration::from_millis(10);
/// The best of some runs: other load on the machine varies.
const RUNS: usize = if cfg!(debug_assertions) { 1 } else { 25 };

fn best(mut work: impl FnMut()) -> Duration {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..RUNS).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn compare(name: &str, time: Duration, limit: Duration) {
    println!("{name}: {:.2} ms (limit {} ms)", time.as_secs_f64() * 1e3, limit.as_millis());
    assert!(cfg!(debug_assertions) || time <= limit, "{name}: {time:?}");
}

#[test]
fn five_hundred_tools_are_rendered_for_each_provider_in_a_tenth_of_a_second() {
    let tools: Vec<(String, Tool)> = recorded()
        .into_iter()
        .flat_map(|(server, tools)| tools.into_iter().map(move |tool| (qualified_name(&server, &tool.name), tool)))
        .take(500)
        .collect();
    assert_eq!(tools.len(), 500);
    let mut sum = Duration::ZERO;
    for provider in Provider::ALL {
        let options = Options::new(provider);
        // Each tool is rendered: a part of the list fits into the limit of each provider. The parts are short, so that other
        // load on the machine does not interrupt the best run of each.
        let time: Duration = tools
            .chunks(25)
            .map(|part| {
                best(|| {
                    let rendered = render(part.iter().map(|(name, tool)| (name.as_str(), tool)), &options);
                    assert_eq!(rendered.names().count(), part.len());
                })
            })
            .sum();
        println!("{provider}: {:.2} ms", time.as_secs_f64() * 1e3);
        sum += time;
    }
    compare("500 tools, 7 providers", sum, ALL_PROVIDERS);
}

#[test]
fn a_costly_schema_is_rendered_in_ten_milliseconds() {
    let mut bomb = Map::new();
    for level in 0..40 {
        let next = format!("#/$defs/d{}", level + 1);
        let pair = json!({"type": "object", "properties": {"a": {"$ref": next}, "b": {"$ref": next}}});
        bomb.insert(format!("d{level}"), pair);
    }
    let deep = (0..10_000).fold(json!({"type": "string"}), |inner, _| {
        let mut outer = json!({"type": "array"});
        outer["items"] = inner;
        outer
    });
    // The first list is as long as a schema may be, the second is longer.
    let properties = |count: usize, text: usize| {
        let list: Map<String, Value> =
            (0..count).map(|n| (format!("p{n}"), json!({"type": "string", "description": "x".repeat(text)}))).collect();
        let schema = json!({"type": "object", "properties": list});
        assert!(schema.to_string().len() >= 1 << 20);
        tool("t", schema)
    };
    let one = json!({"type": "object", "properties": {"a": {"type": "string", "description": "x".repeat(1 << 20)}}});
    let bomb = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb});
    let unions: Vec<Value> = (0..500).map(|n| json!({"type": "array", "items": {"const": n}})).collect();
    let values: Vec<usize> = (0..3_000).collect();
    let product = json!({"type": "object", "properties": {"a": {"allOf": vec![json!({"anyOf": unions}); 12]}}});
    let beside = json!({"anyOf": unions, "type": "array", "items": {"enum": values}});
    let beside = json!({"type": "object", "properties": {"a": beside}});
    let mut nested = tool("t", json!({"type": "object", "properties": {"a": null}}));
    nested.input_schema.0["properties"]["a"] = deep;
    for (name, tool) in [
        ("a bomb of references", &tool("t", bomb)),
        ("a product of unions", &tool("t", product)),
        ("values beside a union", &tool("t", beside)),
        ("a depth of 10,000", &nested),
        ("1 MiB of 5,050 properties", &properties(5_050, 180)),
        ("1 MiB of 2,450 properties", &properties(2_450, 400)),
        ("1 MiB of 9,000 properties", &properties(9_000, 80)),
        ("1 MiB of description", &tool("t", one)),
    ] {
        for provider in Provider::ALL {
            let time = best(|| drop(render([("t", tool)], &Options::new(provider))));
            compare(&format!("{provider}, {name}"), time, ONE_SCHEMA);
        }
    }
    // The drop of a deep value is recursive, so the test takes it apart.
    let mut rest = nested.input_schema.0["properties"]["a"].take();
    while let Some(inner) = rest.get_mut("items").map(Value::take) {
        rest = inner;
    }
}
