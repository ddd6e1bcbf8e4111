//! A guard between what a URI names and the file system.

use std::{fmt, path::PathBuf};

use crate::text::quote_str;

/// Bytes of a path.
const MAX_PATH: usize = 4096;

/// A path that was refused.
///
/// ```
/// use mcp_schema::{PathErrorKind, safe_relative_path};
///
/// let error = safe_relative_path("../secret").unwrap_err();
/// assert_eq!(error.kind(), PathErrorKind::Parent);
/// assert_eq!(error.to_string(), "the path \"../secret\" leads upwards");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    kind: PathErrorKind,
    path: String,
}

/// Why a path was refused.
///
/// ```
/// use mcp_schema::{PathErrorKind, safe_relative_path};
///
/// for (path, kind) in [
///     ("./", PathErrorKind::Empty),
///     ("/etc/passwd", PathErrorKind::Absolute),
///     ("a/%2e%2e/b", PathErrorKind::Parent),
///     (r"a\b", PathErrorKind::Character),
///     (&*"a".repeat(5_000), PathErrorKind::TooLong),
/// ] {
///     assert_eq!(safe_relative_path(path).unwrap_err().kind(), kind);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// It names nothing (`""`, `"."`, `"./"`).
    Empty,
    /// It starts at a root: a slash, a drive letter or another scheme-like prefix.
    Absolute,
    /// It leads upwards (`..`), also when written percent-encoded.
    Parent,
    /// It contains a NUL or a backslash, or a slash, backslash or NUL that is still percent-encoded.
    Character,
    /// It is longer than 4,096 bytes.
    TooLong,
}

/// Checks a relative path from a peer, for example a value of a URI template.
///
/// The text must already be percent-decoded. A separator that is still encoded is rejected, because a second decoding
/// would bypass the check. Empty and `.` components are dropped.
///
/// The result is relative and has no `..`, so it stays below the directory that it is joined to. Symbolic links can
/// still lead out: open the path through a sandbox, or resolve and compare it.
///
/// ```
/// use mcp_schema::safe_relative_path;
///
/// assert_eq!(safe_relative_path("docs//./guide.md")?.as_path(), std::path::Path::new("docs/guide.md"));
/// assert!(safe_relative_path("docs/../../etc/passwd").is_err());
/// assert!(safe_relative_path("docs%2f..%2fx").is_err());
/// # Ok::<(), mcp_schema::PathError>(())
/// ```
///
/// # Errors
///
/// See [`PathErrorKind`].
pub fn safe_relative_path(path: &str) -> Result<PathBuf, PathError> {
    let refuse = |kind| Err(PathError { kind, path: path.to_owned() });
    if path.len() > MAX_PATH {
        return refuse(PathErrorKind::TooLong);
    }
    if path.contains(['\0', '\\']) || hides_separator(path) {
        return refuse(PathErrorKind::Character);
    }
    // `c:x` starts anew where there are drives, in the middle of a path as well, and `x:y` is an alternate stream
    // there.
    let mut components = path.split('/').take(if cfg!(windows) { usize::MAX } else { 1 });
    if path.starts_with('/') || components.any(|component| component.contains(':')) {
        return refuse(PathErrorKind::Absolute);
    }
    let mut safe = PathBuf::new();
    for component in path.split('/').filter(|component| !matches!(*component, "" | ".")) {
        // A trailing space or dot is ignored by some systems, so `.. ` can be `..` there.
        let bare = component.trim_end_matches([' ', '.']);
        let is_parent = bare.is_empty() || is_encoded_parent(component.trim_end_matches(' '));
        if is_parent {
            return refuse(PathErrorKind::Parent);
        }
        safe.push(component);
    }
    if safe.as_os_str().is_empty() {
        return refuse(PathErrorKind::Empty);
    }
    Ok(safe)
}

/// Whether a path is [safe](safe_relative_path) and in its canonical spelling: without empty components, `.` components
/// and control characters.
///
/// ```
/// use mcp_schema::is_canonical_relative_path;
///
/// assert!(is_canonical_relative_path("docs/guide.md"));
/// for path in ["docs//guide.md", "./guide.md", "docs/", "../guide.md", "docs/%2e%2e/guide.md"] {
///     assert!(!is_canonical_relative_path(path), "{path}");
/// }
/// ```
pub fn is_canonical_relative_path(path: &str) -> bool {
    !path.contains(char::is_control)
        && !path.split('/').any(|component| matches!(component, "" | "."))
        && safe_relative_path(path).is_ok()
}

/// Whether a slash, backslash or NUL is written percent-encoded, once or several times.
fn hides_separator(path: &str) -> bool {
    let bytes = path.as_bytes();
    (0..bytes.len()).any(|at| {
        if bytes[at] != b'%' {
            return false;
        }
        // `%25` is an encoded `%`, which may hide the next layer.
        let mut rest = &bytes[at + 1..];
        while let Some(inner) = rest.strip_prefix(b"25") {
            rest = inner;
        }
        let separators: [&[u8]; 3] = [b"2f", b"5c", b"00"];
        rest.get(..2).is_some_and(|digits| separators.iter().any(|code| digits.eq_ignore_ascii_case(code)))
    })
}

fn is_encoded_parent(component: &str) -> bool {
    let mut text = component.to_ascii_lowercase();
    while text.contains("%25") {
        text = text.replace("%25", "%");
    }
    text.replace("%2e", ".") == ".."
}

impl PathError {
    /// Why it was refused.
    pub fn kind(&self) -> PathErrorKind {
        self.kind
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            PathErrorKind::Empty => "is empty",
            PathErrorKind::Absolute => "is not relative",
            PathErrorKind::Parent => "leads upwards",
            PathErrorKind::Character => "contains a character that is not allowed",
            PathErrorKind::TooLong => "is too long",
        };
        write!(f, "the path {} {why}", quote_str(&self.path))
    }
}

impl std::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use super::*;

    #[test]
    fn paths_are_normalized_or_rejected() {
        use PathErrorKind::*;
        for (path, expected) in [
            ("a", Ok("a")),
            ("etc/hosts", Ok("etc/hosts")),
            ("a//b/./c/", Ok("a/b/c")),
            ("a/..b/c", Ok("a/..b/c")),
            ("a b/é", Ok("a b/é")),
            ("100%", Ok("100%")),
            ("a%20b", Ok("a%20b")),
            ("dir/12:30.txt", Ok("dir/12:30.txt")),
            ("", Err(Empty)),
            (".", Err(Empty)),
            ("./", Err(Empty)),
            ("/etc/passwd", Err(Absolute)),
            ("//host/share", Err(Absolute)),
            ("c:/x", Err(Absolute)),
            ("C:x", Err(Absolute)),
            ("file:x", Err(Absolute)),
            ("..", Err(Parent)),
            ("a/../b", Err(Parent)),
            ("a/..", Err(Parent)),
            ("../a", Err(Parent)),
            (".. /a", Err(Parent)),
            ("%2e%2E/a", Err(Parent)),
            (".%2e", Err(Parent)),
            ("%252e%252e/a", Err(Parent)),
            ("a\\b", Err(Character)),
            ("..\\..\\x", Err(Character)),
            ("a\0b", Err(Character)),
            ("a%2fb", Err(Character)),
            ("..%2F..%2Fetc", Err(Character)),
            ("a%5cb", Err(Character)),
            ("a%5Cb", Err(Character)),
            ("a%00", Err(Character)),
            ("a%252fb", Err(Character)),
            ("a%25252fb", Err(Character)),
        ] {
            let found = safe_relative_path(path);
            let found = found.as_deref().map_err(PathError::kind);
            assert_eq!(found, expected.map(Path::new), "{path:?}");
        }
        assert!(safe_relative_path(&"a".repeat(4096)).is_ok());
        assert_eq!(safe_relative_path(&"a".repeat(4097)).unwrap_err().kind(), TooLong);
        assert_eq!(safe_relative_path("a/..").unwrap_err().to_string(), r#"the path "a/.." leads upwards"#);
    }

    #[test]
    fn a_canonical_path_has_one_spelling() {
        for (path, is_canonical) in [
            ("a", true),
            ("docs/guide.md", true),
            ("a b/..c/é", true),
            ("docs//guide.md", false),
            ("./guide.md", false),
            ("docs/.", false),
            ("docs/", false),
            ("/docs", false),
            ("docs/../guide.md", false),
            ("docs/%2e%2e/guide.md", false),
            ("docs/guide\n.md", false),
            ("", false),
        ] {
            assert_eq!(is_canonical_relative_path(path), is_canonical, "{path:?}");
        }
    }

    #[test]
    fn accepted_paths_stay_below_the_directory() {
        const PIECES: [&str; 12] = ["..", ".", "/", "a", "%2e", "%2f", "%25", "\\", ":", "\0", " ", "c"];
        let mut state = 1usize;
        let mut accepted = 0;
        for _ in 0..50_000 {
            let path: String = (0..5)
                .map(|_| {
                    state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
                    PIECES[(state >> 8) % PIECES.len()]
                })
                .collect();
            if let Ok(safe) = safe_relative_path(&path) {
                accepted += 1;
                assert!(safe.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            }
        }
        assert!(accepted > 1_000, "{accepted}");
    }
}
