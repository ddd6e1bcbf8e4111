//! Gets a prompt with its arguments filled in.

use mcp_protocol::{ContentBlock, ResourceBody, Role};

use super::{
    Session,
    names::{find_prompt, prompt_failure},
};
use crate::{arguments, failure::Failure, progress::Progress, requests::RequestError, screen::warn, text::line};

pub(crate) async fn prompt(session: &Session, words: &[String]) -> Result<(), Failure> {
    let Some((name, words)) = words.split_first() else {
        return Err(Failure::usage("the name of a prompt is required"));
    };
    let arguments = arguments::string_arguments(words, &session.input).await?;
    check_names(session, name, &arguments).await;
    let progress = Progress::new(name);
    let result = session.requests.get_prompt(name, arguments).await;
    progress.finish().await;
    let result = match result {
        Ok(result) => result,
        Err(RequestError::Client(error)) => return Err(prompt_failure(session, name, error).await),
        Err(RequestError::Host(failure)) => return Err(failure),
    };
    if session.out.json {
        return session.out.value(&result);
    }
    for message in &result.messages {
        let role = match message.role {
            Role::User => "user",
            _ => "assistant",
        };
        match &message.content {
            ContentBlock::Text(text) => session.out.text(&format!("{role}: {}", text.text))?,
            ContentBlock::Image(image) => media(session, role, &image.mime_type, image.bytes())?,
            ContentBlock::Audio(audio) => media(session, role, &audio.mime_type, audio.bytes())?,
            ContentBlock::ResourceLink(resource) => {
                session.out.text(&format!("{role}: [resource {}: {}]", line(&resource.uri), line(&resource.name)))?;
            }
            ContentBlock::Resource(embedded) => {
                let contents = &embedded.resource;
                match &contents.body {
                    ResourceBody::Text(text) => session.out.text(&format!("{role}: {text}"))?,
                    ResourceBody::Blob(_) => {
                        session.out.text(&format!("{role}: [resource {}: --json shows it]", line(&contents.uri)))?;
                    }
                }
            }
            block => {
                session.out.text(&format!("{role}:"))?;
                session.out.value(block)?;
            }
        }
    }
    Ok(())
}

/// Warns about unknown names. A prompt cannot forbid other names, and the server reports a missing prompt.
async fn check_names(session: &Session, name: &str, arguments: &[(String, String)]) {
    if arguments.is_empty() {
        return;
    }
    let Ok(Some(prompt)) = find_prompt(session, name).await else { return };
    let declared = || prompt.arguments.iter().map(|argument| argument.name.as_str());
    let is_given = |name: &str| arguments.iter().any(|(given, _)| given == name);
    for (name, _) in arguments.iter().filter(|(name, _)| declared().all(|other| other != name)) {
        let unknown = || format!("the prompt declares no argument `{}`", line(name));
        warn(&arguments::misspelt(name, declared(), is_given).unwrap_or_else(unknown));
    }
}

/// Shows an image or an audio clip by its type and size.
fn media<E: std::fmt::Display>(
    session: &Session,
    role: &str,
    mime_type: &str,
    bytes: Result<Vec<u8>, E>,
) -> Result<(), Failure> {
    let bytes = bytes.map_err(|error| Failure::unusable(format!("the server sent {error}")))?;
    session.out.text(&format!("{role}: [{}, {} bytes: --json shows it]", line(mime_type), bytes.len()))
}
