//! The time of a rendering: 500 real tools, and schemas that are built to be costly.
//!
//! A release build compares the times with the limits: `cargo test --release -p mcp-tool-format --test cost`. A debug build
//! prints them, and compares them with a limit that only a cost without bounds exceeds.

#![expect(clippy::print_stdout, reason = "the figures are the purpose of a release run")]

mod common;

use std::time::{Duration, Instant};

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Call, Options, Provider, qualified_name, render};
use serde_json::{Map, Value, json};

use self::common::{costly, recorded, tool};

/// The limit for 500 tools and all providers.
const ALL_PROVIDERS: Duration = Duration::from_millis(100);
/// The limit for one costly schema and one provider.
const ONE_SCHEMA: Duration = Duration::from_millis(10);
/// The best of some runs: other load on the machine varies.
const RUNS: usize = if cfg!(debug_assertions) { 1 } else { 25 };
/// A debug build is slow, and other tests run at the same time. This limit finds a cost that grows with the square.
const DEBUG: Duration = Duration::from_secs(30);

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
    let limit = if cfg!(debug_assertions) { DEBUG } else { limit };
    assert!(time <= limit, "{name}: {time:?}");
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
    let mut tools = costly::tools();
    tools.push(("a depth of 10,000", costly::deep("items")));
    for (name, tool) in &tools {
        for provider in Provider::ALL {
            let time = best(|| drop(render([("t", tool)], &Options::new(provider))));
            compare(&format!("{provider}, {name}"), time, ONE_SCHEMA);
        }
    }
    let (_, deep) = tools.pop().unwrap();
    costly::take_apart(deep, "items");
}

#[test]
fn a_turn_of_many_calls_and_large_arguments_is_processed_in_ten_milliseconds() {
    let provider = Provider::Mistral;
    let empty = render([], &Options::new(provider));
    let calls = vec![Call::new("the same id", "t", JsonObject::new()); 2_000];
    let time = best(|| drop(empty.call_messages(&calls)));
    compare("2,000 calls with one id", time, ONE_SCHEMA);

    let properties: Map<String, Value> = (0..4_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    let rendered = render([("t", &tool("t", schema))], &Options::new(provider));
    let nulls: JsonObject = (0..4_000).map(|n| (format!("p{n}"), Value::Null)).collect::<Map<_, _>>().into();
    let time = best(|| assert!(rendered.restore_arguments("t", nulls.clone()).is_empty()));
    compare("4,000 properties that are null", time, ONE_SCHEMA);

    let branches: Vec<Value> =
        (0..2_000).map(|n| json!({"type": "object", "properties": {format!("k{n}"): {"type": "integer"}}})).collect();
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"anyOf": branches}}}});
    let rendered = render([("t", &tool("t", schema))], &Options::new(provider));
    let items: Vec<Value> = (0..20_000).map(|n| json!({format!("k{n}"): null})).collect();
    let arguments = JsonObject::new().with("list", items);
    let time = best(|| drop(rendered.restore_arguments("t", arguments.clone())));
    compare("20,000 items of 2,000 forms", time, 2 * ONE_SCHEMA);
}
