//! Media types by the ending of a file name, and file contents as text or bytes.

use mcp_protocol::ResourceContents;

/// Endings, media types, and whether the contents are bytes even if they are valid UTF-8.
const TYPES: &[(&str, &str, bool)] = &[
    ("aac", "audio/aac", true),
    ("avif", "image/avif", true),
    ("bash", "text/x-shellscript", false),
    ("bmp", "image/bmp", true),
    ("bz2", "application/x-bzip2", true),
    ("c", "text/x-c", false),
    ("cfg", "text/plain", false),
    ("conf", "text/plain", false),
    ("cpp", "text/x-c++", false),
    ("css", "text/css", false),
    ("csv", "text/csv", false),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", true),
    ("epub", "application/epub+zip", true),
    ("flac", "audio/flac", true),
    ("gif", "image/gif", true),
    ("go", "text/x-go", false),
    ("gz", "application/gzip", true),
    ("h", "text/x-c", false),
    ("htm", "text/html", false),
    ("html", "text/html", false),
    ("ico", "image/vnd.microsoft.icon", true),
    ("ics", "text/calendar", false),
    ("ini", "text/plain", false),
    ("java", "text/x-java", false),
    ("jpeg", "image/jpeg", true),
    ("jpg", "image/jpeg", true),
    ("js", "text/javascript", false),
    ("json", "application/json", false),
    ("jsonl", "application/jsonl", false),
    ("log", "text/plain", false),
    ("m4a", "audio/mp4", true),
    ("markdown", "text/markdown", false),
    ("md", "text/markdown", false),
    ("mjs", "text/javascript", false),
    ("mov", "video/quicktime", true),
    ("mp3", "audio/mpeg", true),
    ("mp4", "video/mp4", true),
    ("ogg", "audio/ogg", true),
    ("opus", "audio/opus", true),
    ("otf", "font/otf", true),
    ("pdf", "application/pdf", true),
    ("png", "image/png", true),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", true),
    ("py", "text/x-python", false),
    ("rb", "text/x-ruby", false),
    ("rs", "text/x-rust", false),
    ("rst", "text/x-rst", false),
    ("rtf", "application/rtf", false),
    ("sh", "text/x-shellscript", false),
    ("sql", "application/sql", false),
    ("svg", "image/svg+xml", false),
    ("tar", "application/x-tar", true),
    ("tex", "text/x-tex", false),
    ("tiff", "image/tiff", true),
    ("toml", "application/toml", false),
    ("ts", "text/x-typescript", false),
    ("tsv", "text/tab-separated-values", false),
    ("ttf", "font/ttf", true),
    ("txt", "text/plain", false),
    ("wasm", "application/wasm", true),
    ("wav", "audio/wav", true),
    ("webm", "video/webm", true),
    ("webp", "image/webp", true),
    ("woff2", "font/woff2", true),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", true),
    ("xml", "application/xml", false),
    ("yaml", "application/yaml", false),
    ("yml", "application/yaml", false),
    ("zip", "application/zip", true),
    ("zst", "application/zstd", true),
];

fn find(path: &str) -> Option<(&'static str, bool)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (_, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    let at = TYPES.binary_search_by(|(known, _, _)| (*known).cmp(ending.as_str())).ok()?;
    Some((TYPES[at].1, TYPES[at].2))
}

/// Returns the media type of a file, by the ending of its name.
pub(crate) fn of_name(path: &str) -> Option<&'static str> {
    find(path).map(|(mime_type, _)| mime_type)
}

/// Returns the contents of a file: text if it is UTF-8, unless its type is known to be bytes.
pub(crate) fn contents(path: &str, bytes: Vec<u8>) -> ResourceContents {
    let known = find(path);
    let bytes = match (known, bytes) {
        (Some((mime_type, true)), bytes) => return ResourceContents::blob("", bytes).with_mime_type(mime_type),
        (_, bytes) => bytes,
    };
    match String::from_utf8(bytes) {
        Ok(text) => {
            ResourceContents::text("", text).with_mime_type(known.map_or("text/plain", |(mime_type, _)| mime_type))
        }
        Err(error) => ResourceContents::blob("", error.as_bytes())
            .with_mime_type(known.map_or("application/octet-stream", |(mime_type, _)| mime_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn contents_have_the_media_type_of_the_name_and_the_form_of_the_bytes() {
        for (path, bytes, mime_type, is_text) in [
            ("a.md", &b"x"[..], "text/markdown", true),
            ("dir.d/A.MD", b"x", "text/markdown", true),
            ("a.md", b"\xff", "text/markdown", false),
            ("a.png", b"", "image/png", false),
            ("a.svg", b"<svg/>", "image/svg+xml", true),
            ("Makefile", b"all:", "text/plain", true),
            ("a.unknown", b"\x00\xff", "application/octet-stream", false),
            (".png/x", b"x", "text/plain", true),
        ] {
            let contents = contents(path, bytes.to_vec());
            assert_eq!(contents.mime_type.as_deref(), Some(mime_type), "{path}");
            assert_eq!(contents.as_text().is_some(), is_text, "{path}");
        }
        assert_eq!(of_name("a.unknown"), None);
    }
}
