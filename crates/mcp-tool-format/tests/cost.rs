//! The time of a rendering: 500 real tools, and schemas that are built to be costly.
//!
//! A release build compares the times with the limits: `cargo test --release -p mcp-tool-format --test cost`. A debug build
//! prints them only.

#![expect(clippy::print_stdout, reason = "the figures are the purpose of a release run")]

mod common;

use std::time::{Duration, Instant};

use mcp_protocol::Tool;
use mcp_tool_format::{Options, Provider, Rules, qualified_name, render};
use serde_json::{Map, Value, json};

use self::common::{recorded, tool};

/// The limit for 500 tools and all providers.
const ALL_PROVIDERS: Duration = Duration::from_millis(100);
/// The limit for one costly schema and one provider.
const ONE_SCHEMA: Duration = Duration::from_millis(10);
/// The best of some runs: other load on the machine varies.
const RUNS: usize = if cfg!(debug_assertions) { 1 } else { 7 };

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
        // Each tool is rendered: a part of the list fits into the limit of the provider.
        let size = Rules::of(provider).max_tools.unwrap_or(500);
        let time = best(|| {
            for part in tools.chunks(size) {
                let rendered = render(part.iter().map(|(name, tool)| (name.as_str(), tool)), &options);
                assert_eq!(rendered.names().count(), part.len());
            }
        });
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
    let wide: Map<String, Value> =
        (0..9_000).map(|n| (format!("p{n}"), json!({"type": "string", "description": "x".repeat(80)}))).collect();
    let wide = json!({"type": "object", "properties": wide});
    assert!(wide.to_string().len() > 1 << 20);
    let one = json!({"type": "object", "properties": {"a": {"type": "string", "description": "x".repeat(1 << 20)}}});
    let bomb = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb});
    let mut nested = tool("t", json!({"type": "object", "properties": {"a": null}}));
    nested.input_schema.0["properties"]["a"] = deep;
    for (name, tool) in [
        ("a bomb of references", &tool("t", bomb)),
        ("a depth of 10,000", &nested),
        ("1 MiB of properties", &tool("t", wide)),
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
