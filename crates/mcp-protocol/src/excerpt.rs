//! Text of a peer, shortened and escaped for error messages and logs.

use std::fmt::{self, Write as _};

/// Returns the start of a text with at most `max` bytes, without a part of a character.
///
/// ```
/// assert_eq!(mcp_protocol::start_of("größer", 4), "grö");
/// assert_eq!(mcp_protocol::start_of("größer", 3), "gr");
/// ```
#[doc(hidden)]
#[must_use]
pub fn start_of(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

/// A text of a peer that is safe to show: at most 128 characters, without control characters.
///
/// `Display` writes the text without quotes, `Debug` writes it in double quotes. Both end with `…` when characters
/// were left out. Control characters, line breaks and characters that change the direction of the text are written as
/// escapes, so that a peer cannot forge lines of a log.
///
/// ```
/// use mcp_protocol::Excerpt;
///
/// let name = Excerpt::new("add\nINFO: all is well");
/// assert_eq!(format!("unknown tool {name:?}"), r#"unknown tool "add\nINFO: all is well""#);
/// assert_eq!(format!("unknown tool `{name}`"), r"unknown tool `add\nINFO: all is well`");
/// assert_eq!(Excerpt::new("a long name").with_limit(6).to_string(), "a long…");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Excerpt<'a> {
    start: &'a str,
    is_cut: bool,
}

impl<'a> Excerpt<'a> {
    /// The number of characters of the text that are shown, unless [`Excerpt::with_limit`] sets another number.
    pub const LIMIT: usize = 128;

    /// Returns an excerpt of at most [`Excerpt::LIMIT`] characters.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { start: text, is_cut: false }.with_limit(Self::LIMIT)
    }

    /// Returns an excerpt of at most `limit` characters. A limit above the current one has no effect.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        match self.start.char_indices().nth(limit) {
            None => self,
            Some((end, _)) => Self { start: &self.start[..end], is_cut: true },
        }
    }

    /// Returns the characters that are shown, unescaped and without the ellipsis.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.start
    }

    /// Writes the characters, escaped except for `plain`, and the ellipsis after `end`.
    fn write(self, f: &mut fmt::Formatter<'_>, plain: &[char], end: &str) -> fmt::Result {
        for part in self.start.split_inclusive(plain) {
            let text = part.strip_suffix(plain).unwrap_or(part);
            write!(f, "{}{}", text.escape_debug(), &part[text.len()..])?;
        }
        f.write_str(end)?;
        if self.is_cut { f.write_char('…') } else { Ok(()) }
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &['"', '\'', '\\'], "")
    }
}

impl fmt::Debug for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.write(f, &['\''], "\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_printable() {
        for (text, display, debug) in [
            ("", "", r#""""#),
            ("add", "add", r#""add""#),
            ("a\"b'c\\d", "a\"b'c\\d", r#""a\"b'c\\d""#),
            ("a\r\nb\u{1b}[0m", r"a\r\nb\u{1b}[0m", r#""a\r\nb\u{1b}[0m""#),
            ("a\u{202e}b\u{2028}", r"a\u{202e}b\u{2028}", r#""a\u{202e}b\u{2028}""#),
            ("größe e\u{301}", "größe e\u{301}", "\"größe e\u{301}\""),
        ] {
            let excerpt = Excerpt::new(text);
            assert_eq!(excerpt.to_string(), display);
            assert_eq!(format!("{excerpt:?}"), debug);
        }
        let long = "é".repeat(129);
        assert_eq!(Excerpt::new(&long).to_string(), format!("{}…", "é".repeat(128)));
        assert_eq!(Excerpt::new(&long[2..]).to_string(), "é".repeat(128));
        assert_eq!(format!("{:?}", Excerpt::new(&long).with_limit(2)), "\"éé\"…");
        assert_eq!(Excerpt::new(&long).with_limit(500).as_str().chars().count(), 128);
    }
}
