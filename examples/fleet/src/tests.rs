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

#[test]
fn an_error_of_the_command_line_contains_no_secret() {
    let parse = |line: &str| cli::parse(lexopt::Parser::from_args(line.split_whitespace()));
    let secrets = [
        ("--state-key 5e5e", "a state key has 64 hexadecimal digits"),
        (&format!("--state-key {}", "5z".repeat(32)), "a state key has 64 hexadecimal digits"),
        ("--state-key", "missing argument for option '--state-key'"),
        ("--token", "missing argument for option '--token'"),
    ];
    for (line, expected) in secrets {
        let Err(error) = parse(line) else { panic!("{line} is accepted") };
        assert_eq!(error.to_string(), expected, "{line}");
        assert!(!format!("{error:?}").contains("5e5e"), "{error:?}");
    }
    let line = format!("--state-key {} --token t", "5e".repeat(32));
    let Ok(Command::Run(options)) = parse(&line) else { panic!("{line} is rejected") };
    assert_eq!((options.state_key, options.token.as_deref()), (Some([0x5e; 32]), Some("t")));
}

#[cfg(unix)]
#[test]
fn a_secret_that_is_not_unicode_is_not_shown() {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

    for option in ["--state-key", "--token"] {
        let value = OsString::from_vec(b"5e5e\xff".to_vec());
        let Err(error) = cli::parse(lexopt::Parser::from_args([option.into(), value])) else {
            panic!("{option} is accepted")
        };
        assert_eq!(error.to_string(), "a secret is not valid Unicode");
    }
}
