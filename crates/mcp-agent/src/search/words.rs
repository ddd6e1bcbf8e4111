//! The words of a text in their search form.

/// A lower-case letter or a digit.
const PLAIN: u8 = 1;
/// A capital letter.
const CAPITAL: u8 = 2;
/// A byte of a character beyond ASCII.
const BEYOND_ASCII: u8 = 4;

/// The class of each byte. Bytes that separate words have the class 0.
const CLASSES: [u8; 256] = {
    let mut classes = [BEYOND_ASCII; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' => PLAIN,
            b'A'..=b'Z' => CAPITAL,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// A reader of words, with a buffer that it uses again.
#[derive(Debug, Default)]
pub(super) struct Words {
    word: String,
}

/// The group of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    /// Another letter, or a digit.
    Other,
    /// A letter of a script that writes no spaces between words.
    Dense,
    Separator,
}

impl Words {
    /// Calls `found` with each word of a text, except for stop words.
    ///
    /// A word ends at each character that is not a letter or a digit, and before a capital letter in `camelCase` and
    /// `HTTPServer`. Words are in lower case and in the singular. Two adjacent letters of a dense script are one word.
    pub(super) fn each(&mut self, text: &str, mut found: impl FnMut(&str)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            let mut classes = 0;
            while let Some(class) = bytes.get(at).map(|byte| CLASSES[usize::from(*byte)]).filter(|class| *class != 0) {
                classes |= class;
                at += 1;
            }
            let part = &text[start..at];
            at += 1;
            match classes {
                0 => {}
                // Most words need no change.
                PLAIN => self.end(part, &mut found),
                _ if classes & BEYOND_ASCII == 0 => self.each_of_ascii(part, &mut found),
                _ => self.each_of_any(part, &mut found),
            }
        }
    }

    fn each_of_ascii(&mut self, part: &str, found: &mut impl FnMut(&str)) {
        let bytes = part.as_bytes();
        let mut start = 0;
        for at in 1..=bytes.len() {
            let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            let ends = bytes
                .get(at)
                .is_none_or(|byte| byte.is_ascii_uppercase() && (!bytes[at - 1].is_ascii_uppercase() || next_is_lower));
            if ends {
                let word = part[start..at].to_ascii_lowercase();
                self.end(&word, found);
                start = at;
            }
        }
    }

    fn each_of_any(&mut self, part: &str, found: &mut impl FnMut(&str)) {
        let mut word = String::new();
        let mut previous = Kind::Separator;
        let mut dense = None;
        let mut chars = part.chars().peekable();
        while let Some(c) = chars.next() {
            let kind = Kind::of(c);
            let next = chars.peek().map_or(Kind::Separator, |next| Kind::of(*next));
            let begins = match kind {
                Kind::Upper => previous != Kind::Upper || next == Kind::Other,
                Kind::Other => matches!(previous, Kind::Dense | Kind::Separator),
                Kind::Dense | Kind::Separator => true,
            };
            if begins {
                self.end(&word, found);
                word.clear();
            }
            match kind {
                Kind::Separator => {}
                Kind::Dense => {
                    if let Some(before) = dense {
                        word.extend([before, c]);
                    } else if next != Kind::Dense {
                        word.push(c);
                    }
                    self.end(&word, found);
                    word.clear();
                }
                Kind::Upper | Kind::Other => word.extend(c.to_lowercase()),
            }
            dense = (kind == Kind::Dense).then_some(c);
            previous = kind;
        }
        self.end(&word, found);
    }

    fn end(&mut self, word: &str, found: &mut impl FnMut(&str)) {
        if word.is_empty() || is_stop_word(word) {
            return;
        }
        match singular(word) {
            Singular::Start(length) => found(&word[..length]),
            Singular::Y(length) => {
                self.word.clear();
                self.word.push_str(&word[..length]);
                self.word.push('y');
                found(&self.word);
            }
        }
    }
}

/// Whether a word occurs in most texts, so that it distinguishes no tool.
fn is_stop_word(word: &str) -> bool {
    matches!(
        word,
        "a" | "an"
            | "and"
            | "are"
            | "as"
            | "at"
            | "be"
            | "by"
            | "for"
            | "from"
            | "if"
            | "in"
            | "is"
            | "it"
            | "my"
            | "of"
            | "on"
            | "or"
            | "s"
            | "that"
            | "the"
            | "this"
            | "to"
            | "with"
    )
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | '0'..='9' => Self::Other,
            'A'..='Z' => Self::Upper,
            '\0'..='\u{7f}' => Self::Separator,
            // Japanese, Chinese, Thai, Lao, Khmer and Myanmar scripts.
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
            | '\u{0e00}'..='\u{0eff}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1000}'..='\u{109f}' => Self::Dense,
            _ if c.is_uppercase() => Self::Upper,
            _ if c.is_alphanumeric() => Self::Other,
            _ => Self::Separator,
        }
    }
}

/// The singular of a word.
enum Singular {
    /// The start of the word, up to this length.
    Start(usize),
    /// The same, and the letter `y`.
    Y(usize),
}

/// Removes the ending of an English plural. A word that is not English at most loses its last letter, in texts and
/// queries alike.
fn singular(word: &str) -> Singular {
    let whole = Singular::Start(word.len());
    let Some(stem) = word.strip_suffix('s').filter(|stem| stem.len() >= 3) else { return whole };
    if stem.ends_with(['s', 'u', 'i']) {
        return whole;
    }
    if let Some(start) = stem.strip_suffix("ie") {
        if start.ends_with(['a', 'e']) { whole } else { Singular::Y(start.len()) }
    } else if ["xe", "che", "she", "sse", "zze"].iter().any(|ending| stem.ends_with(ending)) {
        Singular::Start(stem.len() - 1)
    } else {
        Singular::Start(stem.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        Words::default().each(text, |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn texts_split_at_case_and_punctuation() {
        for (text, expected) in [
            ("get_issue", &["get", "issue"] as &[&str]),
            ("github__get-issue", &["github", "get", "issue"]),
            ("listPullRequests", &["list", "pull", "request"]),
            ("HTTPServer", &["http", "server"]),
            ("parseJSON", &["parse", "json"]),
            ("API-get-user", &["api", "get", "user"]),
            ("s3:listObjectsV2", &["s3", "list", "object", "v2"]),
            ("The list of the repositories.", &["list", "repository"]),
            ("boxes, branches, classes", &["box", "branch", "class"]),
            ("status", &["status"]),
            ("analysis", &["analysis"]),
            ("user's", &["user"]),
            ("ÜBER straße", &["über", "straße"]),
            ("請求書 x", &["請求", "求書", "x"]),
            ("a 書", &["書"]),
            ("--", &[]),
            ("", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
