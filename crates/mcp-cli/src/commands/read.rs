//! Reads resources, and writes binary contents to files.

use std::path::Path;

use mcp_protocol::{ResourceBody, ResourceContents};

use super::{Session, names::resource_failure};
use crate::{failure::Failure, output, progress::Progress, requests::RequestError, text::line};

pub(crate) async fn read(session: &Session, uri: &str, to: Option<&Path>) -> Result<(), Failure> {
    let progress = Progress::new(uri);
    let result = session.requests.read_resource(uri).await;
    progress.finish().await;
    let result = match result {
        Ok(result) => result,
        Err(RequestError::Client(error)) => return Err(resource_failure(session, uri, error).await),
        Err(RequestError::Host(failure)) => return Err(failure),
    };
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
            ResourceBody::Text(text) => session.out.content(text)?,
            body @ ResourceBody::Blob(_) => {
                let kind = contents.mime_type.as_deref().unwrap_or("bytes");
                let length = bytes(body)?.len();
                session.out.text(&format!(
                    "[{}: {}, {length} bytes: save it with --output FILE]",
                    line(&contents.uri),
                    line(kind)
                ))?;
            }
        }
    }
    Ok(())
}

/// Writes an embedded resource into a directory. The file name is the last segment of its URI.
pub(super) fn write_contents(
    session: &Session,
    contents: &ResourceContents,
    directory: &Path,
    index: usize,
) -> Result<(), Failure> {
    let last = contents.uri.rsplit('/').next().unwrap_or_default();
    let file = directory.join(format!("{index}-{}", file_name(last)));
    save(&file, &bytes(&contents.body)?)?;
    session.out.text(&file.display().to_string())
}

/// Writes an image or an audio clip into a directory.
pub(super) fn write_bytes(
    session: &Session,
    bytes: &[u8],
    mime_type: &str,
    directory: &Path,
    index: usize,
) -> Result<(), Failure> {
    let extension = mime_type.rsplit('/').next().unwrap_or("bin");
    let file = directory.join(format!("{index}.{}", file_name(extension)));
    save(&file, bytes)?;
    session.out.text(&file.display().to_string())
}

/// Converts a name that a server chose to a file name without directories.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().map(|c| if keep(c) { c } else { '_' }).take(80).collect();
    if name.trim_matches('.').is_empty() { "contents".to_owned() } else { name }
}

fn save(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::local(format!("cannot write {}: {error}", file.display()));
    if let Some(directory) = file.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    std::fs::write(file, bytes).map_err(failed)
}

fn bytes(body: &ResourceBody) -> Result<Vec<u8>, Failure> {
    body.bytes().map_err(|error| Failure::unusable(format!("the server sent {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_their_directory() {
        for (name, expected) in
            [("a b.png", "a_b.png"), ("..", "contents"), ("../x", ".._x"), ("", "contents"), ("C:\\x", "C__x")]
        {
            assert_eq!(file_name(name), expected, "{name}");
        }
    }
}
