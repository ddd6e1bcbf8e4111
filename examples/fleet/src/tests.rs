//! Two nodes over one store in memory.

use mcp_client::{Client, Error, protocol::ElicitResult};
use serde_json::json;

use super::*;

/// Two nodes with one store and one key.
fn nodes() -> [Server; 2] {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = Options { state_key: Some([7; 32]), ..Options::default() };
    [server(&options, store.clone()), server(&options, store)]
}

async fn client(server: &Server) -> Result<Client, Error> {
    Client::builder("test", "1.0")
        .on_elicit(async |_| ElicitResult::accept_json(json!({ "confirm": true })))
        .connect(server)
        .await
}

#[tokio::test]
async fn orders_of_both_nodes_are_in_one_log() -> Result<(), Error> {
    let [first, second] = nodes();
    let (first, second) = (client(&first).await?, client(&second).await?);
    assert_eq!(first.call_tool("order", json!({ "item": "tea" })).await?.text(), "order 1");
    assert_eq!(second.call_tool("order", json!({ "item": "milk" })).await?.text(), "order 2");
    assert_eq!(second.call_tool("order", json!({ "item": "tea" })).await?.text(), "order 3");
    let orders = first.call_tool("orders", ()).await?;
    assert_eq!(orders.structured_content, Some(json!({ "placed": 3, "items": ["milk", "tea"], "repeated": ["tea"] })));
    Ok(())
}

#[tokio::test]
async fn count_reports_each_number_and_add_rejects_an_overflow() -> Result<(), Error> {
    let [node, _] = nodes();
    let client = client(&node).await?;
    assert_eq!(client.call_tool("count", json!({ "to": 3, "pause_ms": 0 })).await?.text(), "counted to 3");
    assert_eq!(client.call_tool("add", json!({ "a": 2, "b": 3 })).await?.text(), "5");
    assert!(client.call_tool("add", json!({ "a": i64::MAX, "b": 1 })).await?.is_error());
    Ok(())
}

#[test]
fn a_key_has_64_hexadecimal_digits() {
    assert_eq!(cli::key(&"0f".repeat(32)), Ok([0x0f; 32]));
    for wrong in ["", "0f", &"0g".repeat(32), &"ä".repeat(32), &"0f".repeat(33)] {
        assert!(cli::key(wrong).is_err(), "{wrong}");
    }
}
