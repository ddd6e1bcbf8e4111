//! Text of a server, made safe to print at a terminal.

/// Replaces characters that control a terminal. Keeps line breaks and tabs.
pub(crate) fn printable(text: &str) -> String {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !controls_terminal(c);
    text.chars().map(|c| if is_kept(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Makes a text printable in one line, with a symbol for each line break.
pub(crate) fn line(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' | '\u{2028}' | '\u{2029}' => '\u{23ce}',
        '\t' => ' ',
        c if controls_terminal(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.replace("\r\n", "\n").chars().map(replace).collect()
}

/// Returns whether a terminal interprets the character, or shows the following characters in another order.
fn controls_terminal(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders
}

/// Returns a description as one line, with spaces for its line breaks.
pub(crate) fn one_line(text: Option<&str>) -> String {
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first line of a description.
pub(crate) fn first_line(text: Option<&str>) -> String {
    text.unwrap_or_default().trim().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_terminal_control_characters() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\tc\u{7}\u{202e}\u{2066}"),
            "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(line("a\r\nb\nc\td\u{1b}[2J\u{2028}\u{202e}"), "a\u{23ce}b\u{23ce}c d\u{fffd}[2J\u{23ce}\u{fffd}");
        assert_eq!(first_line(Some("\n  one\ntwo")), "one");
        assert_eq!(first_line(None), "");
    }
}
