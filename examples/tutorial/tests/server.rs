//! Tests of the server in memory, without a port.

use mcp_client::{
    Client,
    protocol::{CompletionReference, ElicitResult, ProtocolVersion},
};
use serde_json::json;
use tutorial::notes::Notes;

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::test]
async fn a_stored_note_is_found() -> TestResult {
    let server = tutorial::server(Notes::default());
    server.call_tool("add_note", json!({ "title": "milk", "text": "Buy milk." })).await?;
    let found = server.call_tool("search_notes", json!({ "part": "Buy" })).await?;
    let note = json!({ "title": "milk", "text": "Buy milk.", "author": null });
    assert_eq!(found.structured_content, Some(json!({ "notes": [note] })));
    assert_eq!(server.read_resource("notes://all").await?.contents[0].as_text(), Some("- milk\n"));
    Ok(())
}

#[tokio::test]
async fn wrong_arguments_are_an_error_for_the_model() -> TestResult {
    let server = tutorial::server(Notes::default());
    let failed = server.call_tool("add_note", json!({ "title": "milk" })).await?;
    assert!(failed.is_error);
    assert!(failed.content[0].as_text().is_some_and(|text| text.contains("\"text\"")), "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn clients_complete_titles_and_receive_progress() -> TestResult {
    let client = Client::connect(&tutorial::server(Notes::default())).await?;
    let notes = json!([{ "title": "milk", "text": "Buy milk." }, { "title": "mint", "text": "Plant mint." }]);
    let (sender, reports) = std::sync::mpsc::channel();
    let import = client.call_tool("import_notes", json!({ "notes": notes }));
    import.on_progress(move |report| sender.send(report.progress).unwrap()).await?.ok()?;
    assert_eq!(reports.iter().collect::<Vec<_>>(), [1.0, 2.0]);

    let template = CompletionReference::resource_template("notes://note/{title}");
    let completed = client.complete(template, "title", "mi").await?;
    assert_eq!(completed.completion.values, ["milk", "mint"]);
    let prompt = client.get_prompt("summarize", [("title", "mint")]).await?;
    assert!(prompt.messages[0].content.as_text().is_some_and(|text| text.ends_with("Plant mint.")));
    Ok(())
}

#[tokio::test]
async fn a_note_is_deleted_only_if_the_user_agrees() -> TestResult {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for (agrees, reply) in [(false, "Kept `milk`."), (true, "Deleted `milk`.")] {
            let server = tutorial::server(Notes::default());
            let client = Client::builder("test", "1.0")
                .versions([version])
                .on_elicit(move |_| async move {
                    if agrees { ElicitResult::accept_json(json!({})) } else { Ok(ElicitResult::decline()) }
                })
                .connect(&server)
                .await?;
            client.call_tool("add_note", json!({ "title": "milk", "text": "Buy milk." })).await?.ok()?;
            let deleted = client.call_tool("delete_note", json!({ "title": "milk" })).await?;
            assert_eq!(deleted.text(), reply, "{version}");
        }
    }
    Ok(())
}
