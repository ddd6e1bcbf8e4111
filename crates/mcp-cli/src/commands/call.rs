//! Calls a tool and shows its result.

use std::path::Path;

use mcp_protocol::{ContentBlock, JsonObject, ResourceBody, Tool};
use serde_json::{Map, Value};

use super::{
    Session,
    names::find_tool,
    read::{write_bytes, write_contents},
};
use crate::{
    args::Format,
    arguments::{self, with_signature},
    failure::Failure,
    progress::Progress,
    requests::RequestError,
    screen::{note, warn},
    text::{line, printable},
};

pub(crate) async fn call(
    session: &Session,
    words: &[String],
    output: Option<&Path>,
    format: Option<Format>,
) -> Result<(), Failure> {
    let Some((name, words)) = words.split_first() else {
        return Err(Failure::usage("the name of a tool is required"));
    };
    let (name, arguments, unlisted) = match format {
        Some(format) => {
            let (tool, arguments) = super::format::parse(session, name, words, format.provider()).await?;
            check(&tool, &arguments)?;
            (tool.name, arguments.into_inner(), None)
        }
        None => match find_tool(session, name).await? {
            Ok(tool) => {
                let arguments = arguments::tool_arguments(words, &tool.input_schema, &session.input)
                    .await
                    .map_err(|failure| with_signature(&tool, failure))?;
                check(&tool, &arguments)?;
                (tool.name, arguments, None)
            }
            // A list shows the tools that the caller may use. The answer to the call names the reason.
            Err(unlisted) => {
                let arguments = arguments::tool_arguments(words, &JsonObject::default(), &session.input).await?;
                (name.clone(), arguments, Some(unlisted))
            }
        },
    };
    let progress = Progress::new(&name);
    session.check_allowed(&name)?;
    let result = session.requests.call_tool(&name, arguments.into(), &progress).await;
    progress.finish().await;
    let result = match (result, &unlisted) {
        (Ok(result), None) => result,
        (Ok(result), Some(unlisted)) => {
            warn(&if result.is_error { unlisted.text() } else { unlisted.statement() });
            result
        }
        (Err(error), None) => return Err(error.into()),
        (Err(RequestError::Client(error)), Some(unlisted)) => return Err(unlisted.failure(error)),
        (Err(RequestError::Host(failure)), Some(_)) => return Err(failure),
    };
    if session.out.json {
        session.out.value(&result)?;
    } else {
        for (index, block) in result.content.iter().enumerate() {
            show(session, block, index, output, result.is_error)?;
        }
        // If the result has no content, its structured data is the result.
        if let Some(data) = result.structured_content.as_ref().filter(|_| result.content.is_empty()) {
            session.out.data(data)?;
        }
    }
    if result.is_error { Err(Failure::reported()) } else { Ok(()) }
}

/// Warns about arguments that the tool does not declare.
fn check(tool: &Tool, arguments: &Map<String, Value>) -> Result<(), Failure> {
    let checked = arguments::check_names(arguments, &tool.input_schema);
    checked.map_err(|failure| with_signature(tool, failure))?.iter().for_each(|warning| warn(warning));
    Ok(())
}

/// Shows one content block. The text of a failed tool goes to stderr.
fn show(
    session: &Session,
    block: &ContentBlock,
    index: usize,
    output: Option<&Path>,
    is_error: bool,
) -> Result<(), Failure> {
    let (bytes, mime_type) = match block {
        ContentBlock::Text(text) if is_error => {
            note(printable(&text.text));
            return Ok(());
        }
        ContentBlock::Text(text) => return session.out.content(&text.text),
        ContentBlock::Image(image) => (image.bytes(), &image.mime_type),
        ContentBlock::Audio(audio) => (audio.bytes(), &audio.mime_type),
        ContentBlock::ResourceLink(resource) => {
            return session.out.text(&format!("[resource {}: {}]", line(&resource.uri), line(&resource.name)));
        }
        ContentBlock::Resource(embedded) => {
            let contents = &embedded.resource;
            return match (&contents.body, output) {
                (ResourceBody::Text(text), None) => session.out.content(text),
                (_, Some(directory)) => write_contents(session, contents, directory, index),
                (_, None) => {
                    session.out.text(&format!("[resource {}: save it with --output DIR]", line(&contents.uri)))
                }
            };
        }
        ContentBlock::Unknown(block) => return session.out.value(block),
        _ => return session.out.value(block),
    };
    let bytes = bytes.map_err(|error| Failure::unusable(format!("the server sent {error}")))?;
    match output {
        Some(directory) => write_bytes(session, &bytes, mime_type, directory, index),
        None => session.out.text(&format!("[{}, {} bytes: save it with --output DIR]", line(mime_type), bytes.len())),
    }
}
