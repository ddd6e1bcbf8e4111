//! Lists entries from a damaged cursor.
//!
//! The first byte selects the list, and the rest is the damage of the cursor of its first page (see `fuzz::damaged`). An accepted
//! cursor leads to the end of the list, without a repeated entry.

#![no_main]

use std::collections::HashSet;

use fuzz::{ENTRIES, block_on, damaged, fuzz_target, send, service, stateless};
use mcp_protocol::JsonObject;
use mcp_server_http::McpService;
use serde_json::{Value, json};

const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

async fn page(service: &McpService, method: &str, cursor: Option<&Value>) -> Value {
    let mut params = JsonObject::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.clone());
    }
    send(service, stateless(method, params)).await.json()
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, data)) = data.split_first() else { return };
    let (method, member, key) = LISTS[usize::from(*selected) % LISTS.len()];
    block_on(async {
        let service = service();
        let first = page(&service, method, None).await;
        let valid = first["result"]["nextCursor"].as_str().expect("the list has several pages");
        let Some((text, _)) = damaged(valid, data) else { return };
        let mut cursor = Some(json!(text));
        let mut names = HashSet::new();
        for number in 0.. {
            let Some(sent) = &cursor else { break };
            let answer = page(&service, method, Some(sent)).await;
            if number == 0 && answer["error"]["code"] == -32602 {
                return assert_ne!(text, valid);
            }
            for entry in answer["result"][member].as_array().unwrap_or_else(|| panic!("no list: {answer}")) {
                assert!(names.insert(entry[key].as_str().unwrap().to_owned()), "repeated: {entry}");
            }
            cursor = answer["result"].get("nextCursor").cloned();
            assert!(number <= ENTRIES, "the list has no end");
        }
        assert!(text != valid || names.len() == ENTRIES - 2, "{names:?}");
    });
});
