//! Paged lists: complete, in order, and stable during changes.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use crate::common::{Connection, LEGACY, code, legacy, modern};
use mcp_server_core::{Server, ServerBuilder, prompt, resource, template, tool};
use serde_json::{Value, json};

async fn text() -> &'static str {
    "text"
}

fn name(number: usize) -> String {
    format!("n{number:04}")
}

/// The number of entries of each kind.
fn builder(count: usize) -> ServerBuilder {
    (0..count).fold(Server::builder("test", "1"), |builder, number| {
        let name = name(number);
        builder
            .resource(resource(format!("x://{name}"), text))
            .resource_template(template(format!("y://{name}/{{+path}}"), text))
            .prompt(prompt(name.clone(), text))
            .tool(tool(name, text))
    })
}

/// The four lists: method, member of the result, and the member that identifies an entry.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

fn names(response: &Value, member: &str, key: &str) -> Vec<String> {
    let entries = response["result"][member].as_array().unwrap_or_else(|| panic!("no list: {response}"));
    entries.iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

fn params(cursor: Option<&Value>) -> Value {
    cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }))
}

/// Reads the pages of a list as a client does.
async fn walk(connection: &mut Connection, (method, member, key): (&str, &str, &str)) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let response = connection.exchange(modern(1, method, params(cursor.as_ref()))).await;
        pages.push(names(&response, member, key));
        cursor = response["result"].get("nextCursor").cloned();
        match &cursor {
            None => return pages,
            Some(cursor) => assert!(!cursor.as_str().unwrap().is_empty()),
        }
        assert!(pages.len() <= 1000, "the walk does not end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_entries_fit_on_one_page() {
    let server = builder(1000).build();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    for (method, member, key) in LISTS {
        for request in [legacy(1, method, json!({})), modern(1, method, json!({}))] {
            let response = connection.exchange(request).await;
            assert_eq!(names(&response, member, key).len(), 1000, "{method}");
            assert!(response["result"].get("nextCursor").is_none(), "{method}");
        }
    }
    // One more entry needs a second page.
    server.tools().add(tool("last", text)).unwrap();
    assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
    let pages = walk(&mut connection, LISTS[0]).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1]);
    assert_eq!(pages[1], ["last"]);
}

#[tokio::test(start_paused = true)]
async fn pages_have_the_configured_size_in_registration_order() {
    for (count, size, lengths) in [(1000, 50, vec![50; 20]), (7, 3, vec![3, 3, 1]), (6, 3, vec![3, 3]), (1, 1, vec![1])]
    {
        let mut connection = Connection::connect(&builder(count).page_size(size).build());
        for list in LISTS {
            let pages = walk(&mut connection, list).await;
            assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), lengths, "{list:?}");
            let all = pages.concat();
            assert!(all.iter().enumerate().all(|(at, found)| found.contains(&name(at))), "{list:?}: {all:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_is_bounded_in_bytes_too() {
    let tools = |builder: ServerBuilder, size: usize| {
        (0..6).fold(builder, |builder, at| builder.tool(tool(name(at), text).description("d".repeat(size))))
    };
    let builder = || Server::builder("test", "1");
    // 400 KiB each: two fit in the megabyte of a page.
    let mut connection = Connection::connect(&tools(builder(), 400 << 10).build());
    assert_eq!(walk(&mut connection, LISTS[0]).await.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
    // One entry fits always.
    let mut connection = Connection::connect(&tools(builder().limits(|limits| limits.page_bytes = 10), 100).build());
    assert_eq!(walk(&mut connection, LISTS[0]).await.iter().map(Vec::len).collect::<Vec<_>>(), [1; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_keeps_its_position_while_the_list_changes() {
    for version in LEGACY {
        let server = builder(10).page_size(4).build();
        let mut connection = Connection::connect(&server);
        connection.exchange(common::initialize(version)).await;
        let mut cursors: Vec<Value> = Vec::new();
        let mut seen = Vec::new();
        loop {
            let response = connection.exchange(legacy(1, "tools/list", params(cursors.last()))).await;
            seen.extend(names(&response, "tools", "name"));
            // Between the pages, the test removes an entry that was listed, one that was not, and the one at the
            // cursor. It also adds entries.
            match cursors.len() {
                0 => {
                    for gone in [0, 3, 5] {
                        assert!(server.tools().remove(&name(gone)));
                    }
                    server.tools().extend([tool("new1", text), tool("new2", text)]).unwrap();
                }
                1 => {
                    server.tools().add(tool(name(0), text)).unwrap();
                }
                _ => {}
            }
            match response["result"].get("nextCursor") {
                Some(cursor) => cursors.push(cursor.clone()),
                None => break,
            }
        }
        let expected: Vec<String> = [0, 1, 2, 3, 4, 6, 7, 8, 9].into_iter().map(name).collect();
        assert_eq!(seen[..9], expected, "{version}");
        assert_eq!(seen[9..], ["new1".to_owned(), "new2".to_owned(), name(0)], "{version}");
        // Old cursors keep their positions.
        let response = connection.exchange(legacy(1, "tools/list", params(cursors.first()))).await;
        assert_eq!(names(&response, "tools", "name"), [4, 6, 7, 8].map(name));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_past_the_end_of_a_shrunken_list_is_an_empty_page() {
    let server = builder(5).page_size(4).build();
    let mut connection = Connection::connect(&server);
    let response = connection.exchange(modern(1, "tools/list", json!({}))).await;
    let cursor = response["result"]["nextCursor"].clone();
    assert!(server.tools().remove(&name(4)));
    let response = connection.exchange(modern(1, "tools/list", params(Some(&cursor)))).await;
    assert!(names(&response, "tools", "name").is_empty());
    assert!(response["result"].get("nextCursor").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cursor_works_on_another_connection_and_in_another_revision() {
    let server = builder(6).page_size(4).build();
    let mut one = Connection::connect(&server);
    let cursor = one.exchange(modern(1, "tools/list", json!({}))).await["result"]["nextCursor"].clone();
    drop(one);
    let mut two = Connection::connect(&server);
    two.open("2024-11-05").await;
    for request in [legacy(1, "tools/list", params(Some(&cursor))), modern(1, "tools/list", params(Some(&cursor)))] {
        assert_eq!(names(&two.exchange(request).await, "tools", "name"), [4, 5].map(name));
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_foreign_cursors() {
    let mut connection = Connection::connect(&builder(5).page_size(2).build());
    connection.open("2025-11-25").await;
    let mut own = Vec::new();
    for (method, ..) in LISTS {
        own.push(connection.exchange(modern(1, method, json!({}))).await["result"]["nextCursor"].clone());
    }
    for (at, (method, ..)) in LISTS.into_iter().enumerate() {
        let mut bad =
            vec![json!(""), json!("x"), json!("%%%"), json!("n0001"), json!("bjAwMDE"), json!("A".repeat(2000))];
        // One letter of a cursor changed.
        let letters = own[at].as_str().unwrap();
        bad.push(json!(format!("{}{}", &letters[..letters.len() - 1], if letters.ends_with('A') { 'E' } else { 'A' })));
        bad.push(json!(format!("{letters}A")));
        bad.extend(own.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, cursor)| cursor.clone()));
        for cursor in bad {
            for request in [legacy as fn(i64, &str, Value) -> Value, modern] {
                let response = connection.exchange(request(1, method, params(Some(&cursor)))).await;
                assert_eq!(code(&response), Some(-32602), "{method} {cursor}: {response}");
            }
        }
        for cursor in [json!(7), json!([]), json!({})] {
            assert_eq!(
                code(&connection.exchange(legacy(1, method, params(Some(&cursor)))).await),
                Some(-32602),
                "{cursor}"
            );
        }
        let response = connection.exchange(legacy(1, method, params(Some(&own[at])))).await;
        assert!(response.get("result").is_some(), "its own cursor works: {response}");
    }
}
