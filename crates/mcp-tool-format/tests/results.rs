//! Results, prompts and resources as messages of every provider.

mod common;

use std::collections::HashSet;

use mcp_protocol::{
    CallToolResult, ContentBlock, GetPromptResult, JsonObject, PromptMessage, ReadResourceResult, Resource,
    ResourceContents,
};
use mcp_tool_format::{
    Call, ContentOptions, DiagnosticKind, MediaRules, Messages, Options, Provider, Rendered, qualified_name, render,
};
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0123456789";
const GIF: &[u8] = b"GIF89a0123456789";

fn rendered(provider: Provider) -> Rendered {
    render([], &Options::new(provider))
}

fn call(provider: Provider) -> Call {
    let id = if provider == Provider::Mistral { "abcDEF123" } else { "call_1" };
    Call::new(id, "read", JsonObject::new())
}

fn messages(provider: Provider, result: &CallToolResult, options: &ContentOptions) -> Messages {
    rendered(provider).result_messages([(&call(provider), result)], options)
}

/// Returns the texts that a model reads as text: every string of the messages outside of media and type
/// names.
fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(members) => {
            for (key, member) in members {
                let other = ["type", "source", "image_url", "inlineData", "images", "file", "file_data"]
                    .contains(&key.as_str());
                if !other {
                    texts(member, out);
                }
            }
        }
        _ => {}
    }
}

fn all_text(messages: &Messages) -> String {
    let mut out = Vec::new();
    texts(&messages.messages.clone().into(), &mut out);
    out.join("\n")
}

#[test]
fn a_text_is_the_content_of_each_provider() {
    for (provider, expected) in [
        (
            Provider::Anthropic,
            json!([{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "a"}]}
            ]}]),
        ),
        (Provider::OpenAiChat, json!([{"role": "tool", "tool_call_id": "call_1", "content": "a"}])),
        (Provider::OpenAiResponses, json!([{"type": "function_call_output", "call_id": "call_1", "output": "a"}])),
        (
            Provider::Gemini,
            json!([{"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "a"}}}]}]),
        ),
        (
            Provider::Bedrock,
            json!([{"role": "user", "content": [
                {"toolResult": {"toolUseId": "call_1", "content": [{"text": "a"}], "status": "success"}}
            ]}]),
        ),
        (Provider::Mistral, json!([{"role": "tool", "tool_call_id": "abcDEF123", "name": "read", "content": "a"}])),
        (Provider::Ollama, json!([{"role": "tool", "tool_name": "read", "content": "a"}])),
    ] {
        let found = messages(provider, &CallToolResult::text("a"), &ContentOptions::new());
        assert_eq!(Value::from(found.messages), expected, "{provider}");
        assert_eq!((found.diagnostics, found.rest), (vec![], vec![]));
    }
}

#[test]
fn an_error_has_the_flag_of_the_provider_or_a_mark() {
    for (provider, pointer, expected) in [
        (Provider::Anthropic, "/0/content/0/is_error", json!(true)),
        (Provider::OpenAiChat, "/0/content", json!("Error: no")),
        (Provider::OpenAiResponses, "/0/output", json!("Error: no")),
        (Provider::Gemini, "/0/parts/0/functionResponse/response", json!({"error": "no"})),
        (Provider::Bedrock, "/0/content/0/toolResult/status", json!("error")),
        (Provider::Mistral, "/0/content", json!("Error: no")),
        (Provider::Ollama, "/0/content", json!("Error: no")),
    ] {
        let found = messages(provider, &CallToolResult::error("no"), &ContentOptions::new());
        assert_eq!(Value::from(found.messages).pointer(pointer), Some(&expected), "{provider}");
    }
}

#[test]
fn an_image_is_a_part_of_the_result_or_of_a_message_after_all_results() {
    let result = CallToolResult::new(vec![ContentBlock::text("before"), ContentBlock::image(PNG, "image/png")]);
    let data = mcp_protocol::ImageContent::from_bytes(PNG, "image/png").data;
    let url = format!("data:image/png;base64,{data}");
    for (provider, pointer, expected) in [
        (
            Provider::Anthropic,
            "/0/content/0/content/1",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        ),
        (Provider::OpenAiChat, "/2/content/1", json!({"type": "image_url", "image_url": {"url": url}})),
        (Provider::OpenAiResponses, "/0/output/1", json!({"type": "input_image", "image_url": url})),
        (Provider::Gemini, "/1/parts/1", json!({"inlineData": {"mimeType": "image/png", "data": data}})),
        (
            Provider::Bedrock,
            "/0/content/0/toolResult/content/1",
            json!({"image": {"format": "png", "source": {"bytes": data}}}),
        ),
        (Provider::Mistral, "/3/content/1", json!({"type": "image_url", "image_url": {"url": url}})),
        (Provider::Ollama, "/2/images/0", json!(data)),
    ] {
        let rendered = rendered(provider);
        let calls = [call(provider), Call::new("call_2", "now", JsonObject::new())];
        let second = CallToolResult::text("b");
        let found = rendered.result_messages([(&calls[0], &result), (&calls[1], &second)], &ContentOptions::new());
        assert_eq!(found.diagnostics, [], "{provider}");
        let text = all_text(&found);
        assert!(!text.contains(&data), "{provider}: base64 is text");
        let value = Value::from(found.messages);
        assert_eq!(value.pointer(pointer), Some(&expected), "{provider}: {value}");
        let in_results = MediaRules::of(provider).in_results;
        assert_eq!(text.contains("The image 1 of this result is in the next message"), !in_results, "{provider}");
    }
}

#[test]
fn gemini_results_are_as_many_as_the_calls() {
    let result = CallToolResult::new(vec![ContentBlock::image(PNG, "image/png"), ContentBlock::text("a")]);
    let calls = [call(Provider::Gemini), Call::new("call_2", "now", JsonObject::new())];
    let rendered = rendered(Provider::Gemini);
    let pairs = || calls.iter().map(|call| (call, &result));
    let apart = rendered.result_messages(pairs(), &ContentOptions::new());
    let nested = rendered.result_messages(pairs(), &ContentOptions::new().media_in_results());
    for (found, contents) in [(&apart, 2), (&nested, 1)] {
        assert_eq!(found.messages.len(), contents);
        let parts = found.messages[0]["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().all(|part| part.get("functionResponse").is_some()));
    }
    let response = &nested.messages[0]["parts"][0]["functionResponse"];
    assert_eq!(response["parts"][0]["inlineData"]["mimeType"], "image/png");
    assert_eq!(response["response"], json!({"output": "a"}));
}

#[test]
fn a_message_of_the_model_is_between_results_and_media_for_mistral() {
    let result = CallToolResult::new(vec![ContentBlock::image(PNG, "image/png")]);
    let found = messages(Provider::Mistral, &result, &ContentOptions::new());
    let roles: Vec<&str> = found.messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["tool", "assistant", "user"]);
}

#[test]
fn media_are_never_text_and_each_loss_is_a_diagnostic() {
    let pdf = ResourceContents::blob("file:///a.pdf", b"%PDF-1.7 0123456789").with_mime_type("application/pdf");
    let zip = ResourceContents::blob("file:///a.zip", b"PK\x03\x040123456789").with_mime_type("application/zip");
    let large: Vec<u8> = PNG.iter().copied().chain(std::iter::repeat_n(7, 15_100_000)).collect();
    let unknown: ContentBlock =
        serde_json::from_value(json!({"type": "hologram", "data": "AAAABBBBCCCCDDDD"})).unwrap();
    let everywhere: &[Provider] = &Provider::ALL;
    use Provider::{Anthropic, Bedrock, Gemini, Mistral, Ollama, OpenAiChat, OpenAiResponses};
    for (name, block, refused) in [
        ("png", ContentBlock::image(PNG, "image/png"), &[][..]),
        ("a wrong type", ContentBlock::image(PNG, "image/jpg; q=1"), &[]),
        ("gif", ContentBlock::image(GIF, "image/gif"), &[Gemini, Ollama]),
        ("tiff", ContentBlock::image(b"II*\x000123456789", "image/tiff"), everywhere),
        ("no image", ContentBlock::image(b"0123456789abcdef", "image/png"), everywhere),
        ("empty", ContentBlock::image(b"", "image/png"), everywhere),
        ("no base64", mcp_protocol::ImageContent::new("not base64 at all!", "image/png").into(), everywhere),
        (
            "large",
            ContentBlock::image(&large, "image/png"),
            &[Anthropic, OpenAiChat, OpenAiResponses, Gemini, Bedrock, Mistral],
        ),
        (
            "wav",
            ContentBlock::audio(b"RIFF0123456789", "audio/x-wav"),
            &[Anthropic, OpenAiChat, OpenAiResponses, Bedrock, Mistral, Ollama],
        ),
        ("pdf", ContentBlock::resource(pdf), &[Mistral, Ollama]),
        ("zip", ContentBlock::resource(zip), everywhere),
        ("unknown", unknown, everywhere),
    ] {
        let data = serde_json::to_value(&block).unwrap();
        let data = ["/data", "/resource/blob"].iter().find_map(|at| data.pointer(at)).and_then(Value::as_str).unwrap();
        for provider in Provider::ALL {
            let mut all = vec![ContentOptions::new()];
            if provider == Gemini {
                all.push(ContentOptions::new().media_in_results());
            }
            for options in all {
                let found = messages(provider, &CallToolResult::new(vec![block.clone()]), &options);
                let text = all_text(&found);
                assert!(data.is_empty() || !text.contains(data), "{provider} {name}: {text}");
                assert_eq!(found.diagnostics.len(), usize::from(refused.contains(&provider)), "{provider} {name}");
                let whole = Value::from(found.messages.clone()).to_string();
                assert_eq!(whole.contains(data) && !data.is_empty(), !refused.contains(&provider), "{provider} {name}");
                if let Some(loss) = found.diagnostics.first() {
                    let kind =
                        if name == "unknown" { DiagnosticKind::ContentOmitted } else { DiagnosticKind::MediaOmitted };
                    assert_eq!((loss.kind, loss.tool.as_str(), loss.pointer.as_str()), (kind, "read", "/content/0"));
                    assert!(text.contains("was left out"), "{provider} {name}: {text}");
                }
                let notes = messages(provider, &CallToolResult::new(vec![block.clone()]), &options.without_media());
                let whole = Value::from(notes.messages).to_string();
                assert!(data.is_empty() || !whole.contains(data), "{provider} {name}");
                assert_eq!(notes.diagnostics.len(), 1, "{provider} {name}");
            }
        }
    }
}

#[test]
fn resources_are_texts_with_their_uris() {
    let link = Resource::new("file:///big.csv", "big").with_mime_type("text/csv").with_description("All\nrows.");
    let result = CallToolResult::new(vec![
        ContentBlock::resource(ResourceContents::text("file:///a.txt", "hello")),
        ContentBlock::resource(ResourceContents::blob("file:///b.txt", "world").with_mime_type("text/plain")),
        ContentBlock::resource_link(link),
    ]);
    for provider in Provider::ALL {
        let found = messages(provider, &result, &ContentOptions::new());
        assert_eq!(found.diagnostics, [], "{provider}");
        let text = all_text(&found);
        for expected in [
            "Resource file:///a.txt:\nhello",
            "Resource file:///b.txt:\nworld",
            "Resource file:///big.csv: big (text/csv). All rows.",
        ] {
            assert!(text.contains(expected), "{provider}: {text}");
        }
    }
}

#[test]
fn structured_content_is_written_if_the_content_renders_nothing() {
    let data = json!({"rows": [1, 2]});
    let only = |content: Vec<ContentBlock>| {
        let mut result = CallToolResult::new(content);
        result.structured_content = Some(data.clone());
        result
    };
    let zip = ResourceContents::blob("a:zip", b"PK").with_mime_type("application/zip");
    let image = ContentBlock::image(b"II*\x00", "image/tiff");
    for provider in Provider::ALL {
        let has_data = |result: &CallToolResult, options: &ContentOptions| {
            let found = messages(provider, result, options);
            let whole = Value::from(found.messages).to_string();
            whole.contains(r#""rows":[1,2]"#) || whole.contains(r#"\"rows\":[1,2]"#)
        };
        let usual = ContentOptions::new();
        assert!(has_data(&only(vec![]), &usual), "{provider}");
        assert!(has_data(&only(vec![ContentBlock::text(" \n")]), &usual), "{provider}");
        assert!(has_data(&only(vec![image.clone()]), &usual), "{provider}: a note is not content");
        assert!(!has_data(&only(vec![ContentBlock::text("1, 2")]), &usual), "{provider}");
        assert!(has_data(&only(vec![ContentBlock::text("1, 2")]), &usual.clone().always_structured()), "{provider}");
        assert!(
            !has_data(&only(vec![ContentBlock::image(PNG, "image/png")]), &usual),
            "{provider}: an image is content"
        );
        assert!(!has_data(&only(vec![ContentBlock::resource(zip.clone())]), &usual), "{provider}: its URI is content");
    }
    let found = messages(Provider::Bedrock, &only(vec![]), &ContentOptions::new());
    assert_eq!(found.messages[0]["content"][0]["toolResult"]["content"], json!([{"json": data}]));
    let found = messages(Provider::Gemini, &only(vec![]), &ContentOptions::new());
    assert_eq!(found.messages[0]["parts"][0]["functionResponse"]["response"], json!({"output": data}));
    let mut list = only(vec![]);
    list.structured_content = Some(json!([1]));
    let found = messages(Provider::Bedrock, &list, &ContentOptions::new());
    assert_eq!(found.messages[0]["content"][0]["toolResult"]["content"], json!([{"text": "[1]"}]));
}

#[test]
fn an_empty_result_is_a_sentence() {
    for provider in Provider::ALL {
        for (result, expected) in [
            (CallToolResult::new(vec![]), "The result is empty."),
            (CallToolResult::text(" "), "The result is empty."),
            (CallToolResult::error(""), "the tool failed without a message"),
        ] {
            let text = all_text(&messages(provider, &result, &ContentOptions::new()));
            assert!(text.contains(expected), "{provider}: {text}");
        }
    }
    for provider in Provider::ALL {
        assert_eq!(rendered(provider).result_messages([], &ContentOptions::new()), Messages::default());
    }
}

#[test]
fn the_text_of_a_result_has_a_limit_and_the_rest_is_a_resource() {
    let line = "Ünïcode line of some length.\n";
    let long = line.repeat(9_000);
    let mut structured = CallToolResult::new(vec![]);
    structured.structured_content = Some(json!({"rows": vec!["x".repeat(50); 5_000]}));
    let many =
        CallToolResult::new((0..3_000).map(|n| ContentBlock::text(format!("{n}: {}", "y".repeat(90)))).collect());
    let failed = CallToolResult::error(long.clone());
    let mixed = CallToolResult::new(vec![
        ContentBlock::text("short"),
        ContentBlock::text(long.clone()),
        ContentBlock::image(PNG, "image/png"),
        ContentBlock::text("last"),
    ]);
    for provider in Provider::ALL {
        for (name, result) in [
            ("text", &CallToolResult::text(long.clone())),
            ("structured", &structured),
            ("many", &many),
            ("failed", &failed),
            ("mixed", &mixed),
        ] {
            let found = messages(provider, result, &ContentOptions::new());
            let text = all_text(&found);
            // The text of the message after the results and the names of the shape are not part of the limit.
            assert!(text.len() <= 100_300, "{provider} {name}: {}", text.len());
            assert!(text.len() > 98_000, "{provider} {name}: {}", text.len());
            assert_eq!(found.rest.len(), 1);
            let rest = &found.rest[0];
            assert!(rest.uri.starts_with("mcp-rest:///") && text.contains(&format!("resource {}]", rest.uri)));
            assert_eq!(found.diagnostics[0].kind, DiagnosticKind::TextCut);
            if name == "text" {
                let kept = long.strip_suffix(rest.text.as_str()).unwrap();
                assert!(kept.ends_with('\n') && Value::from(found.messages.clone()).to_string().contains("length.\\n"));
                if provider == Provider::OpenAiChat {
                    let content = found.messages[0]["content"].as_str().unwrap();
                    assert_eq!(content.split_once("\n[").unwrap().0, kept);
                }
            }
            if name == "mixed" {
                assert!(rest.text.ends_with("\nlast"));
                assert!(Value::from(found.messages).to_string().contains("iVBORw0KGgo"), "the image stays");
            }
        }
        let options = ContentOptions::new().max_text(2_000).rest_uri("host:///r/");
        let found = messages(provider, &failed, &options);
        assert!(all_text(&found).len() <= 2_300 && found.rest[0].uri.starts_with("host:///r/"));
        let found = messages(provider, &failed, &options.without_rest());
        assert!(found.rest.is_empty() && all_text(&found).contains("bytes of text were left out.]"));
        let exact = CallToolResult::text("z".repeat(99_500));
        assert_eq!(messages(provider, &exact, &ContentOptions::new()).rest, []);
    }
}

#[test]
fn results_have_the_names_and_ids_of_their_calls() {
    let name = qualified_name("files.local", "read file");
    for provider in Provider::ALL {
        let rendered = rendered(provider);
        let calls =
            [Call::new("bad id/1", &*name, JsonObject::new()), Call::new("bad id/1", &*name, JsonObject::new())];
        let result = CallToolResult::text("a");
        let sent = Value::from(rendered.call_messages(&calls)).to_string();
        let found = rendered.result_messages(calls.iter().map(|call| (call, &result)), &ContentOptions::new());
        let answered = Value::from(found.messages).to_string();
        let ids = |text: &str| -> Vec<String> {
            let parts: Vec<&str> = text.split('"').collect();
            let keys = ["id", "tool_use_id", "tool_call_id", "call_id", "toolUseId"];
            parts.windows(3).filter(|part| keys.contains(&part[0])).map(|part| part[2].to_owned()).collect()
        };
        let (sent, answered) = (ids(&sent), ids(&answered));
        assert_eq!(sent, answered, "{provider}");
        let without = matches!(provider, Provider::Gemini | Provider::Ollama);
        assert_eq!(sent.iter().collect::<HashSet<_>>().len(), if without { 0 } else { 2 }, "{provider}");
    }
}

#[test]
fn document_names_of_a_request_differ() {
    let pdf = ResourceContents::blob("file:///a.pdf", b"%PDF-1.7").with_mime_type("application/pdf");
    let result = CallToolResult::new(vec![ContentBlock::resource(pdf.clone()), ContentBlock::resource(pdf)]);
    let calls = [Call::new("a", "read", JsonObject::new()), Call::new("b", "read", JsonObject::new())];
    let pairs = calls.iter().map(|call| (call, &result));
    let found = rendered(Provider::Bedrock).result_messages(pairs, &ContentOptions::new());
    let mut names = HashSet::new();
    for result in found.messages[0]["content"].as_array().unwrap() {
        for block in result["toolResult"]["content"].as_array().unwrap() {
            if let Some(name) = block.pointer("/document/name").and_then(Value::as_str) {
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' '), "{name}");
                names.insert(name.to_owned());
            }
        }
    }
    assert_eq!(names.len(), 4);
}

#[test]
fn prompts_are_messages_with_alternating_roles() {
    let prompt = GetPromptResult::new(vec![
        PromptMessage::user("one"),
        PromptMessage::user(ContentBlock::image(PNG, "image/png")),
        PromptMessage::assistant("two"),
        PromptMessage::assistant(ContentBlock::image(PNG, "image/png")),
        PromptMessage::user("three"),
    ]);
    for provider in Provider::ALL {
        let found = Messages::from_prompt(provider, &prompt, &ContentOptions::new());
        assert_eq!(found.diagnostics, [], "{provider}");
        let roles: Vec<&str> = found.messages.iter().filter_map(|message| message["role"].as_str()).collect();
        let model = if provider == Provider::Gemini { "model" } else { "assistant" };
        assert_eq!(roles, ["user", model, "user"], "{provider}");
        let model = found.messages[1].to_string();
        assert!(!model.contains("iVBORw0KGgo") && model.contains("in the next message of the user"), "{provider}");
        assert!(found.messages[2].to_string().contains("iVBORw0KGgo"), "{provider}");
        assert!(!all_text(&found).contains("iVBORw0KGgo"), "{provider}");
    }
    let found = Messages::from_prompt(Provider::OpenAiResponses, &prompt, &ContentOptions::new());
    assert_eq!(found.messages[0]["content"][0], json!({"type": "input_text", "text": "one"}));
    assert_eq!(found.messages[1]["content"], "two\n[The image is in the next message of the user.]");
    let long = GetPromptResult::new(vec![PromptMessage::user("a\n".repeat(100_000))]);
    assert_eq!(Messages::from_prompt(Provider::Mistral, &long, &ContentOptions::new()).rest.len(), 1);
}

#[test]
fn a_resource_is_a_message_of_the_user() {
    let read = ReadResourceResult::new(vec![
        ResourceContents::text("file:///a", "text"),
        ResourceContents::blob("file:///a.png", PNG).with_mime_type("image/png"),
        ResourceContents::blob("file:///a.bin", [0, 1, 2]),
    ]);
    for provider in Provider::ALL {
        let found = Messages::from_resource(provider, &read, &ContentOptions::new());
        assert_eq!((found.messages.len(), found.diagnostics.len()), (1, 1), "{provider}");
        assert_eq!(found.messages[0]["role"], "user");
        assert_eq!(found.diagnostics[0].pointer, "/contents/2");
        assert!(found.messages[0].to_string().contains("iVBORw0KGgo"), "{provider}");
        assert!(!all_text(&found).contains("iVBORw0KGgo"), "{provider}");
        let empty = ReadResourceResult::new(vec![]);
        assert_eq!(Messages::from_resource(provider, &empty, &ContentOptions::new()), Messages::default());
    }
}

/// The limits hold for all results of a turn, for a prompt and for a resource.
#[test]
fn the_number_of_media_is_bounded() {
    let rendered = |provider| render([], &Options::new(provider));
    let pdf = || {
        ContentBlock::Resource(mcp_protocol::EmbeddedResource::new(
            ResourceContents::blob("file:///a.pdf", b"%PDF-1.7").with_mime_type("application/pdf"),
        ))
    };
    let count =
        |messages: &Messages, data: &str| Value::from(messages.messages.clone()).to_string().matches(data).count();
    let pdf_data = mcp_protocol::ImageContent::from_bytes(b"%PDF-1.7", "application/pdf").data;
    for (provider, images, documents) in [
        (Provider::Anthropic, 100, 100),
        (Provider::OpenAiChat, 500, 100),
        (Provider::OpenAiResponses, 500, 100),
        (Provider::Gemini, 3_000, 3_000),
        (Provider::Bedrock, 20, 5),
        (Provider::Mistral, 8, 0),
        (Provider::Ollama, 100, 0),
    ] {
        let calls = [Call::new("c1", "t", JsonObject::new()), Call::new("c2", "t", JsonObject::new())];
        let image = || ContentBlock::image(PNG, "image/png");
        let first = CallToolResult::new((0..images - 1).map(|_| image()).collect());
        let second = CallToolResult::new(vec![image(), image(), image()]);
        let turn = [(&calls[0], &first), (&calls[1], &second)];
        let found = rendered(provider).result_messages(turn, &ContentOptions::new());
        assert_eq!(count(&found, "iVBORw0KGgo"), images, "{provider}");
        let lost: Vec<&str> = found.diagnostics.iter().map(|lost| lost.pointer.as_str()).collect();
        assert_eq!(lost, ["/content/1", "/content/2"], "{provider}");
        assert!(found.diagnostics.iter().all(|lost| lost.kind == DiagnosticKind::MediaOmitted), "{provider}");
        assert!(all_text(&found).contains(&format!("accepts {images} of this kind in a message")), "{provider}");

        let content: Vec<ContentBlock> = (0..documents + 2).map(|_| pdf()).collect();
        let result = CallToolResult::new(content.clone());
        let found = rendered(provider).result_messages([(&calls[0], &result)], &ContentOptions::new());
        assert_eq!(count(&found, &pdf_data), documents, "{provider}");
        let prompt = GetPromptResult::new(content.into_iter().map(PromptMessage::user).collect());
        let found = Messages::from_prompt(provider, &prompt, &ContentOptions::new());
        assert_eq!(count(&found, &pdf_data), documents, "{provider}");
        let contents =
            (0..images + 2).map(|_| ResourceContents::blob("file:///a.png", PNG).with_mime_type("image/png"));
        let read = ReadResourceResult::new(contents.collect());
        let found = Messages::from_resource(provider, &read, &ContentOptions::new());
        assert_eq!(count(&found, "iVBORw0KGgo"), images, "{provider}");
    }
}
