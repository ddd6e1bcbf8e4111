//! Reads resources, fills in prompts, and writes what is no text to files.

use std::path::Path;

use mcp_protocol::{ContentBlock, ResourceBody, ResourceContents, Role};

use super::Session;
use crate::{
    arguments,
    failure::Failure,
    output::{self, line},
    progress::Progress,
};

pub(crate) async fn read(session: &Session, uri: &str, to: Option<&Path>) -> Result<(), Failure> {
    let progress = Progress::new(uri);
    let read = session.client.read_resource(uri).await;
    progress.over().await;
    let result = read?;
    if let Some(file) = to {
        let mut all = Vec::new();
        for contents in &result.contents {
            all.extend(bytes(&contents.body)?);
        }
        if file == Path::new("-") {
            return output::bytes(&all);
        }
        return save(file, &all);
    }
    if session.out.json {
        return session.out.value(&result);
    }
    for contents in &result.contents {
        match &contents.body {
            ResourceBody::Text(text) => session.out.text(text)?,
            body @ ResourceBody::Blob(_) => {
                let kind = contents.mime_type.as_deref().unwrap_or("bytes");
                let length = bytes(body)?.len();
                session.out.text(&format!(
                    "[{}: {}, {length} bytes: save it by --output FILE]",
                    line(&contents.uri),
                    line(kind)
                ))?;
            }
        }
    }
    Ok(())
}

pub(crate) async fn prompt(session: &Session, words: &[String]) -> Result<(), Failure> {
    let Some((name, words)) = words.split_first() else {
        return Err(Failure::usage("the name of a prompt is missing"));
    };
    let arguments = arguments::texts(words, &session.input).await?;
    let progress = Progress::new(name);
    let filled = session.client.get_prompt(name, arguments).await;
    progress.over().await;
    let result = filled?;
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
            ContentBlock::Image(image) => picture(session, role, &image.mime_type, image.bytes())?,
            ContentBlock::Audio(audio) => picture(session, role, &audio.mime_type, audio.bytes())?,
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

/// What a person sees of an image or a sound in a prompt.
fn picture<E: std::fmt::Display>(
    session: &Session,
    role: &str,
    mime_type: &str,
    bytes: Result<Vec<u8>, E>,
) -> Result<(), Failure> {
    let bytes = bytes.map_err(|error| Failure::other(format!("the server sent {error}")))?;
    session.out.text(&format!("{role}: [{}, {} bytes: --json shows it]", line(mime_type), bytes.len()))
}

/// Writes embedded contents into a directory, under the last part of their URI.
pub(super) fn write_contents(
    session: &Session,
    contents: &ResourceContents,
    directory: &Path,
    index: usize,
) -> Result<(), Failure> {
    let last = contents.uri.rsplit('/').next().unwrap_or_default();
    let file = directory.join(format!("{index}-{}", safe(last)));
    save(&file, &bytes(&contents.body)?)?;
    session.out.text(&file.display().to_string())
}

/// Writes an image or a sound into a directory.
pub(super) fn write_bytes(
    session: &Session,
    bytes: &[u8],
    mime_type: &str,
    directory: &Path,
    index: usize,
) -> Result<(), Failure> {
    let extension = mime_type.rsplit('/').next().unwrap_or("bin");
    let file = directory.join(format!("{index}.{}", safe(extension)));
    save(&file, bytes)?;
    session.out.text(&file.display().to_string())
}

/// A name that a server chose, as one that stays in its directory.
fn safe(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().map(|c| if keep(c) { c } else { '_' }).take(80).collect();
    if name.trim_matches('.').is_empty() { "contents".to_owned() } else { name }
}

fn save(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::other(format!("cannot write {}: {error}", file.display()));
    if let Some(directory) = file.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(file, bytes).map_err(failed)
}

fn bytes(body: &ResourceBody) -> Result<Vec<u8>, Failure> {
    body.bytes().map_err(|error| Failure::other(format!("the server sent {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        for (name, expected) in
            [("a b.png", "a_b.png"), ("..", "contents"), ("../x", ".._x"), ("", "contents"), ("C:\\x", "C__x")]
        {
            assert_eq!(safe(name), expected, "{name}");
        }
    }
}
