//! The cost of a host: tools in the formats of the providers, the search for tools, and the checks before a call.

use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use mcp_agent::{
    Host, ServerState,
    pins::{PinRules, Pins},
    policy::{AuditEvent, Effect, Policy, Rule},
    search::ToolIndex,
};
use mcp_client::protocol::{JsonObject, Tool};
use mcp_server::{Server, tool};
use mcp_tool_format::{Options, Provider, qualified_name, render};
use serde_json::{Map, Value, json};

use crate::{error::Error, gateway::report, report::median_time};

const BRIDGED: usize = 500;
const SEARCHED: usize = 5_000;
/// The levels of the deep schema.
const DEPTH: usize = 10_000;
/// The rounds of each figure. The best round of the bridge and the index counts, because other load only adds time.
const ROUNDS: usize = 15;
/// The calls of one round, with and without the checks.
const CALLS: usize = 2_000;
const RULES: usize = 20;
const MANIFEST_SERVERS: usize = 8;
const MANIFEST_TOOLS: usize = 50;

/// Measures the costs, and prints each beside its aim.
pub(crate) fn run() -> Result<(), Error> {
    let tools = recorded()?;
    println!("{:<46} {:>12} {:>12}", "host", "measured", "aim");
    bridge(&tools);
    costly();
    search(&tools);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(checks())?;
    runtime.block_on(manifest())?;
    report::verdict()
}

fn row(name: &str, measured: Duration, aim: Duration) {
    report::count(measured <= aim);
    let mark = if measured > aim { " !" } else { "" };
    println!("{name:<46} {:>12} {:>12}{mark}", format!("{measured:.1?}"), format!("{aim:.1?}"));
}

/// Returns the tools of the recorded servers, with provider names.
fn recorded() -> Result<Vec<(String, Tool)>, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/mcp-tool-format/tests/recorded");
    let mut files: Vec<_> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, Error>>()?;
    files.sort();
    let mut tools = Vec::new();
    for file in files {
        let server = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut list: Value = serde_json::from_slice(&fs::read(&file)?)?;
        expand(&mut list);
        for tool in list["tools"].as_array().into_iter().flatten() {
            let tool: Tool = serde_json::from_value(tool.clone())?;
            tools.push((qualified_name(&server, &tool.name), tool));
        }
    }
    if tools.len() < BRIDGED {
        return Err(Error::new(format!("{} has {} tools, not {BRIDGED}", folder.display(), tools.len())));
    }
    Ok(tools)
}

/// Replaces each description that is a number by a text of that length.
fn expand(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(expand),
        Value::Object(members) => {
            for (key, member) in members {
                match member.as_u64().filter(|_| key == "description") {
                    Some(length) => *member = "word ".chars().cycle().take(length as usize).collect::<String>().into(),
                    None => expand(member),
                }
            }
        }
        _ => {}
    }
}

fn best(mut work: impl FnMut()) -> Duration {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn bridge(tools: &[(String, Tool)]) {
    let mut sum = Duration::ZERO;
    for provider in Provider::ALL {
        let options = Options::new(provider);
        // Each tool is rendered: a part of the list fits into the limit of each provider.
        sum += tools[..BRIDGED]
            .chunks(100)
            .map(|part| {
                best(|| drop(black_box(render(part.iter().map(|(name, tool)| (name.as_str(), tool)), &options))))
            })
            .sum::<Duration>();
    }
    row("500 tools in the formats of 7 providers", sum, Duration::from_millis(100));
}

/// Renders schemas that are built to be costly. The slowest provider counts.
fn costly() {
    let bomb: Map<String, Value> = (0..40)
        .map(|level| {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            (format!("d{level}"), json!({ "type": "object", "properties": { "a": next, "b": next } }))
        })
        .collect();
    let bomb = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": bomb });
    let text = "x".repeat(180);
    let wide: Map<String, Value> =
        (0..5_050).map(|n| (format!("p{n}"), json!({ "type": "string", "description": text }))).collect();
    let wide = json!({ "type": "object", "properties": wide });
    let mut deep = Value::Null;
    for _ in 0..DEPTH {
        let mut outer = json!({ "type": "array" });
        outer["items"] = deep;
        deep = outer;
    }
    let mut nested = json!({ "type": "object", "properties": { "a": null } });
    nested["properties"]["a"] = deep;
    for (name, schema) in
        [("a bomb of references", bomb), ("a schema of 10,000 levels", nested), ("a schema of 1 MiB", wide)]
    {
        let mut tool = Tool::new("t", JsonObject::from_value(schema).unwrap_or_default());
        let slowest = Provider::ALL
            .map(|provider| best(|| drop(black_box(render([("t", &tool)], &Options::new(provider))))))
            .into_iter()
            .max();
        row(&format!("{name}, slowest provider"), slowest.unwrap_or_default(), Duration::from_millis(10));
        // The drop of a deep value is recursive, so each level is removed first.
        let mut rest = tool.input_schema["properties"]["a"].take();
        while let Some(inner) = rest.get_mut("items").map(Value::take) {
            rest = inner;
        }
    }
}

fn search(tools: &[(String, Tool)]) {
    let names: Vec<(String, &Tool)> = tools
        .iter()
        .cycle()
        .take(SEARCHED)
        .enumerate()
        .map(|(n, (name, tool))| (format!("{name}_{n}"), tool))
        .collect();
    let build = || ToolIndex::new(names.iter().map(|(name, tool)| (name.as_str(), *tool)));
    row("index of 5,000 tools", best(|| drop(black_box(build()))), Duration::from_millis(50));
    let index = build();
    let mut times: Vec<Duration> = tools
        .iter()
        .filter_map(|(_, tool)| tool.description.as_deref())
        .map(|text| {
            let query: String = text.split_inclusive(' ').take(8).collect();
            let start = Instant::now();
            black_box(index.search(&query, 10));
            start.elapsed()
        })
        .collect();
    times.sort();
    row("search in 5,000 tools, 99th percentile", times[times.len() * 99 / 100], Duration::from_millis(2));
}

/// Compares calls of a host with a policy, an audit sink and pins with calls of a host without them.
async fn checks() -> Result<(), Error> {
    let server = Server::builder("echo", "1").tool(tool("echo", async || "text")).build();
    let builder = || Host::builder("bench", "1").server("echo", &server);
    let plain = builder().start().await?;
    let mut policy = Policy::new();
    for number in 0..RULES {
        policy = policy.rule(Rule::new(Effect::Deny).tool(format!("delete_{number}*").parse()?));
    }
    let policy = policy.rule(Rule::new(Effect::Allow).tool("e*".parse()?));
    let checked = builder()
        .policy(policy)
        .audit(|event: &AuditEvent| _ = black_box(event.outcome))
        .pins(Pins::new(), PinRules::new())
        .start()
        .await?;
    let mut added = Vec::new();
    for _ in 0..ROUNDS {
        let (without, with) = (median(&plain).await?, median(&checked).await?);
        added.push(with.saturating_sub(without));
    }
    let added = median_time(&mut added).unwrap_or_default();
    row("policy of 21 rules, audit and pins, per call", added, Duration::from_micros(5));
    plain.shutdown().await;
    checked.shutdown().await;
    Ok(())
}

/// Starts a host from a manifest: its catalog is complete, and no server has started.
async fn manifest() -> Result<(), Error> {
    let mut server = Server::builder("many", "1");
    for number in 0..MANIFEST_TOOLS {
        server = server.tool(tool(format!("tool_{number}"), async || "text"));
    }
    let server = server.build();
    let folder = std::env::temp_dir().join(format!("bench-manifest-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let builder = || {
        let empty = Host::builder("bench", "1").manifest(folder.join("manifest.json"));
        (0..MANIFEST_SERVERS).fold(empty, |builder, number| builder.server(format!("s{number}"), &server))
    };
    builder().start().await?.shutdown().await;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let host = builder().start().await?;
        let tools = host.catalog().tools().len();
        times.push(start.elapsed());
        let started = host.statuses().iter().filter(|status| status.state != ServerState::Configured).count();
        host.shutdown().await;
        if (tools, started) != (MANIFEST_SERVERS * MANIFEST_TOOLS, 0) {
            return Err(Error::new(format!("the manifest gave {tools} tools, and {started} servers started")));
        }
    }
    fs::remove_dir_all(&folder)?;
    let time = median_time(&mut times).unwrap_or_default();
    row("start from a manifest of 8 servers", time, Duration::from_millis(10));
    Ok(())
}

async fn median(host: &Host) -> Result<Duration, Error> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        host.call("echo:echo", json!({})).await?;
        times.push(start.elapsed());
    }
    median_time(&mut times).ok_or_else(|| Error::new("no call ended"))
}
