//! The tools of a node: a quick call, a long call with progress, a long task, and a side effect after a question.

use std::{sync::Arc, time::Duration};

use mcp_server::{ServerBuilder, prelude::*, store::Store};

/// The log of all orders, which each node appends to.
const ORDERS: &str = "shop/orders";

/// The state of the handlers.
#[derive(Clone)]
pub(crate) struct Shop(pub(crate) Arc<dyn Store>);

/// Registers the tools.
pub(crate) fn register(builder: ServerBuilder<Shop>) -> ServerBuilder<Shop> {
    builder
        .tool(tool("add", add).read_only())
        .tool(tool("count", count).read_only())
        .tool(tool("report", report).long_running().read_only())
        .tool(tool("order", order))
        .tool(
            tool("orders", orders)
                .description("List the ordered items, and those that were ordered repeatedly.")
                .read_only(),
        )
}

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(Args(Add { a, b }): Args<Add>) -> Result<String, ToolError> {
    a.checked_add(b).map(|sum| sum.to_string()).ok_or_else(|| ToolError::new("the sum does not fit into 64 bits"))
}

/// Count, and report each number as progress.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The last number.
    #[schemars(range(max = 100_000))]
    to: u32,
    /// The pause between two numbers, in milliseconds.
    #[schemars(range(max = 60_000))]
    pause_ms: u64,
}

async fn count(progress: Progress, Args(Count { to, pause_ms }): Args<Count>) -> String {
    for number in 1..=to {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        progress.report(number, to, "counting").await;
    }
    format!("counted to {to}")
}

/// Write a report. The client can run it as a task.
#[derive(Deserialize, JsonSchema)]
struct Report {
    /// The duration in seconds.
    #[schemars(range(max = 3600))]
    seconds: u64,
}

async fn report(Args(Report { seconds }): Args<Report>) -> String {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    format!("the report took {seconds} s")
}

/// Order an item, after the user has confirmed it. Each order is placed once, on whichever node its rounds arrive.
#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The item.
    item: String,
    /// The time that the order takes, in milliseconds.
    #[serde(default)]
    takes_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Whether the user confirms the order.
    confirm: bool,
}

async fn order(
    State(Shop(store)): State<Shop>,
    inputs: Inputs,
    Args(Order { item, takes_ms }): Args<Order>,
) -> Result<String, ToolError> {
    let Confirm { confirm } = inputs.elicit("confirm", format!("Order {item}?")).await?;
    if !confirm {
        return Ok("not ordered".to_owned());
    }
    let number = inputs
        .once("place", async || {
            let placed = store.append(ORDERS, Arc::from(item.as_bytes()), None).await;
            tokio::time::sleep(Duration::from_millis(takes_ms)).await;
            // The client receives a reference number. The log has the error, which can contain the address of Redis.
            placed
        })
        .await?;
    Ok(format!("order {number}"))
}

/// The orders.
#[derive(Serialize, JsonSchema)]
struct Orders {
    /// The number of all orders.
    placed: usize,
    /// The ordered items.
    items: Vec<String>,
    /// The items that were ordered more than once.
    repeated: Vec<String>,
}

async fn orders(State(Shop(store)): State<Shop>) -> Result<Json<Orders>, ToolError> {
    let mut items = Vec::new();
    let mut after = 0;
    loop {
        let page = store.read_after(ORDERS, after, 1_000).await?;
        after = page.records.last().map_or(after, |record| record.sequence);
        items.extend(page.records.iter().map(|record| String::from_utf8_lossy(&record.data).into_owned()));
        if !page.more {
            break;
        }
    }
    let placed = items.len();
    items.sort_unstable();
    let mut repeated: Vec<String> =
        items.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
    repeated.dedup();
    items.dedup();
    Ok(Json(Orders { placed, items, repeated }))
}
