//! The runner itself: what it accepts, what it complains about and where, and how it rewrites a transcript.

use mcp_server_core::{Context, Server, tool};
use mcp_test::transcript::{Over, Transcript};

fn server() -> Server {
    Server::builder("small", "1.0")
        .tool(tool("hello", async || "Hello!"))
        .tool(tool("wait", async |context: Context| {
            context.cancelled().await;
            "never"
        }))
        .build()
}

/// A session, then these lines, from line 5 on.
fn session(lines: &str) -> String {
    let opening = r#"> {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
  "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
< {"jsonrpc": "2.0", "id": 0, "result": "<any>"}
> {"jsonrpc": "2.0", "method": "notifications/initialized"}
"#;
    format!("{opening}{lines}")
}

const CALL: &str = r#"> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hello"}}"#;
const ANSWER: &str = r#"< {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "Hello!"}]}}"#;
const PING: &str = r#"> {"jsonrpc": "2.0", "id": 2, "method": "ping"}"#;

async fn check(lines: &str, expected: Result<(), &[&str]>) {
    let transcript = Transcript::parse("t.txt", &session(lines)).expect("it can be read");
    for over in Over::ALL {
        match (transcript.replay(&server(), *over).await, expected) {
            (Ok(_), Ok(())) => {}
            (Err(failure), Err(parts)) => {
                let text = failure.to_string();
                assert!(text.contains(&format!("over {over}: ")), "{text}");
                assert!(parts.iter().all(|part| text.contains(part)), "{lines}\n{text}");
                assert_eq!(format!("{failure:?}"), text);
            }
            (got, expected) => panic!("{over}: {lines}\n{got:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_differs_is_told_with_its_line() {
    let lines = |lines: &[&str]| lines.join("\n");
    check(&lines(&[CALL, ANSWER]), Ok(())).await;
    let other = ANSWER.replace("Hello!", "Bye!");
    let parts = ["t.txt:6 ", r#"/result/content/0/text: expected "Bye!", got "Hello!""#, r#"< {"jsonrpc""#, "UPDATE=1"];
    check(&lines(&[CALL, &other]), Err(&parts)).await;
    check(&lines(&[CALL]), Err(&["t.txt over ", "the server said more than the transcript", "Hello!"])).await;
    let silence = ["t.txt:7 ", "the server said nothing for 10 s, expected:"];
    check(&lines(&[CALL, ANSWER, ANSWER]), Err(&silence)).await;
    check(r#"> {"cursor": "<nobody>"}"#, Err(&["t.txt:5 ", "`<nobody>` has no value yet"])).await;
    check(r#"> {"cursor": "<any>"}"#, Err(&["t.txt:5 ", "no value that could be sent"])).await;
}

#[tokio::test(start_paused = true)]
async fn only_free_messages_may_come_in_another_order() {
    let pong = r#"{"jsonrpc": "2.0", "id": 2, "result": {}}"#;
    let free = format!("~{}", ANSWER.trim_start_matches('<'));
    check(&format!("{CALL}\n{PING}\n~ {pong}\n{free}"), Ok(())).await;
    check(&format!("{CALL}\n{PING}\n{free}\n~ {pong}"), Ok(())).await;
    check(&format!("{CALL}\n{ANSWER}\n< {pong}\n{PING}"), Err(&["t.txt:7 "])).await;
}

#[cfg(feature = "http")]
#[tokio::test]
async fn statuses_count_over_http() {
    let unknown = |status: &str| {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {}}"#;
        let error = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "<any>: none"}}"#;
        format!(
            "let meta = {meta}\n> {{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"none\", \
             \"params\": {{\"_meta\": \"<meta>\"}}}}\n<{status} {error}"
        )
    };
    check(&unknown("404"), Ok(())).await;
    let text = Transcript::parse("t", &unknown("")).unwrap().replay(&server(), Over::Http).await.unwrap_err();
    assert!(text.to_string().contains("the HTTP status: expected 200, got 404"), "{text}");
    Transcript::parse("t", &unknown("")).unwrap().replay(&server(), Over::Memory).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recording_fills_in_and_keeps_what_fits() {
    let lines = [
        "# A comment.",
        CALL,
        "",
        PING,
        r#"< {"id": 2, "jsonrpc": "2.0", "result": "<any>"}"#,
        "",
        r#"> {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "wait"}}"#,
        r#"> {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}"#,
        "",
        r#"> {"jsonrpc": "2.0", "id": 4, "method": "none"}"#,
        r#"< {"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "<any> none"}}"#,
        r#"< {"jsonrpc": "2.0", "method": "notifications/gone"}"#,
    ];
    let session = session(&lines.join("\n"));
    let expected = session
        .replace(CALL, &format!("{CALL}\n{ANSWER}"))
        .replace(r#""code": 1, "#, r#""code": -32601, "#)
        .replace("\n< {\"jsonrpc\": \"2.0\", \"method\": \"notifications/gone\"}", "\n");
    for over in Over::ALL {
        let recorded = Transcript::parse("t", &session).unwrap().record(&server(), *over).await.unwrap();
        assert_eq!(recorded, expected, "{over}");
        let again = Transcript::parse("t", &recorded).unwrap().record(&server(), *over).await.unwrap();
        assert_eq!(again, recorded, "{over}");
    }
}
