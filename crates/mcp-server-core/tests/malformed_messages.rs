//! Arbitrary bytes: the server sends at most one response each and keeps the connection.

use crate::common::{Connection, call, initialize, legacy, modern, notification};
use mcp_server_core::{Server, prompt, resource, template, tool};
use serde_json::{Value, json};

async fn text() -> &'static str {
    "text"
}

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("t", text))
        .resource(resource("x://r", text))
        .resource_template(template("y://{+path}", text).complete_from("path", ["a"]))
        .prompt(prompt("p", text))
        .build()
}

/// One message of every kind that a client may send.
fn messages() -> Vec<Value> {
    let reference = json!({ "type": "ref/resource", "uri": "y://{+path}" });
    let complete = json!({ "ref": reference, "argument": { "name": "path", "value": "" } });
    vec![
        initialize("2025-06-18"),
        legacy(1, "tools/call", call("t")),
        legacy("é\n", "resources/read", json!({ "uri": "y://a/b" })),
        legacy(2, "logging/setLevel", json!({ "level": "debug" })),
        modern(3, "tools/list", json!({ "cursor": "" })),
        modern(4, "completion/complete", complete),
        modern(5, "prompts/get", json!({ "name": "p", "arguments": { "a": "b" } })),
        modern(6, "server/discover", json!({ "_meta": { "progressToken": 1 } })),
        notification("notifications/cancelled", json!({ "requestId": 1 })),
        json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": 1, "message": "m", "data": [] } }),
    ]
}

/// Sends the bytes and a ping. At most one other response comes before the response to the ping.
async fn survives(connection: &mut Connection, bytes: &[u8]) {
    let shown = String::from_utf8_lossy(bytes);
    connection.bytes(bytes.to_vec()).await;
    connection.send(legacy("fence", "ping", json!({}))).await;
    let mut answers = Vec::new();
    let mut fenced = false;
    // The response to the call may come after that of the ping.
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    while !fenced || connection.has_more() {
        let message = connection.recv().await;
        if message["id"] == "fence" && message.get("result").is_some() {
            fenced = true;
        } else {
            answers.push(message);
        }
    }
    assert!(answers.len() <= 1, "{shown}: {answers:?}");
}

#[tokio::test(start_paused = true)]
async fn rejects_every_truncated_message_without_a_panic() {
    let mut connection = Connection::connect(&server());
    for message in messages() {
        let text = message.to_string().into_bytes();
        for end in 0..=text.len() {
            survives(&mut connection, &text[..end]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_every_damaged_byte_without_a_panic() {
    let mut connection = Connection::connect(&server());
    for message in messages() {
        let text = message.to_string().into_bytes();
        for at in 0..text.len() {
            for byte in [b'"', b'{', b'0', b'\\', 0xff] {
                let mut damaged = text.clone();
                damaged[at] = byte;
                survives(&mut connection, &damaged).await;
            }
        }
    }
}

/// Values of every JSON type in every place of a message.
#[tokio::test(start_paused = true)]
async fn rejects_every_member_of_another_type_without_a_panic() {
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    places(member, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    places(item, &format!("{at}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    let others = [json!(null), json!(true), json!(-1), json!(1e300), json!(""), json!([]), json!([{}]), json!({})];
    let mut connection = Connection::connect(&server());
    for message in messages() {
        let mut found = Vec::new();
        places(&message, "", &mut found);
        for place in found {
            for other in &others {
                let mut changed = message.clone();
                *changed.pointer_mut(&place).unwrap() = other.clone();
                survives(&mut connection, changed.to_string().as_bytes()).await;
            }
        }
    }
}
