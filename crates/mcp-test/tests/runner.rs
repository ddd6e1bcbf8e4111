//! The runner: accepted messages, reported differences, and rewritten transcripts.

use mcp_server_core::{Context, Server, tool};
use mcp_test::transcript::{Transcript, TransportKind};

fn server() -> Server {
    Server::builder("small", "1.0")
        .tool(tool("hello", async || "Hello!"))
        .tool(tool("wait", async |context: Context| {
            context.cancelled().await;
            "never"
        }))
        .build()
}

/// Returns a transcript with a handshake, followed by these lines from line 5 on.
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
    let transcript = Transcript::parse("t.txt", &session(lines)).expect("a valid transcript");
    for transport in TransportKind::ALL {
        match (transcript.replay(&server(), *transport).await, expected) {
            (Ok(_), Ok(())) => {}
            (Err(failure), Err(parts)) => {
                let text = failure.to_string();
                assert!(text.contains(&format!("over {transport}: ")), "{text}");
                assert!(parts.iter().all(|part| text.contains(part)), "{lines}\n{text}");
                assert_eq!(format!("{failure:?}"), text);
            }
            (got, expected) => panic!("{transport}: {lines}\n{got:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reports_a_difference_with_its_line() {
    let lines = |lines: &[&str]| lines.join("\n");
    check(&lines(&[CALL, ANSWER]), Ok(())).await;
    let other = ANSWER.replace("Hello!", "Bye!");
    let parts = ["t.txt:6 ", r#"/result/content/0/text: expected "Bye!", got "Hello!""#, r#"< {"jsonrpc""#, "UPDATE=1"];
    check(&lines(&[CALL, &other]), Err(&parts)).await;
    check(&lines(&[CALL]), Err(&["t.txt over ", "the server sent a message that is not in the transcript", "Hello!"]))
        .await;
    let timeout = ["t.txt:7 ", "the server sent nothing for 10 s, expected:"];
    check(&lines(&[CALL, ANSWER, ANSWER]), Err(&timeout)).await;
    check(r#"> {"cursor": "<unknown>"}"#, Err(&["t.txt:5 ", "`<unknown>` has no value yet"])).await;
    check(r#"> {"cursor": "<any>"}"#, Err(&["t.txt:5 ", "no value to send"])).await;
}

#[tokio::test(start_paused = true)]
async fn accepts_only_free_messages_in_another_order() {
    let pong = r#"{"jsonrpc": "2.0", "id": 2, "result": {}}"#;
    let free = format!("~{}", ANSWER.trim_start_matches('<'));
    check(&format!("{CALL}\n{PING}\n~ {pong}\n{free}"), Ok(())).await;
    check(&format!("{CALL}\n{PING}\n{free}\n~ {pong}"), Ok(())).await;
    check(&format!("{CALL}\n{ANSWER}\n< {pong}\n{PING}"), Err(&["t.txt:7 "])).await;
}

#[cfg(feature = "http")]
#[tokio::test]
async fn compares_statuses_over_http() {
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
    let text = Transcript::parse("t", &unknown("")).unwrap().replay(&server(), TransportKind::Http).await.unwrap_err();
    assert!(text.to_string().contains("the HTTP status: expected 200, got 404"), "{text}");
    Transcript::parse("t", &unknown("")).unwrap().replay(&server(), TransportKind::Memory).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn recording_adds_messages_and_keeps_matching_placeholders() {
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
    for transport in TransportKind::ALL {
        let recorded = Transcript::parse("t", &session).unwrap().record(&server(), *transport).await.unwrap();
        assert_eq!(recorded, expected, "{transport}");
        let again = Transcript::parse("t", &recorded).unwrap().record(&server(), *transport).await.unwrap();
        assert_eq!(again, recorded, "{transport}");
    }
}
