//! Regular expressions that the validators of providers compile.

use std::{iter::Peekable, str::Chars};

/// The greatest count of a repetition, and of repetitions inside of each other (RE2).
const MAX_REPEAT: u32 = 1_000;
/// The greatest depth of groups.
const MAX_GROUPS: usize = 100;

/// Whether the groups and the classes of a pattern are complete. The pattern may use the features of any engine.
pub(crate) fn is_complete(pattern: &str) -> bool {
    let (mut class, mut groups) = (false, 0usize);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            ']' => class = false,
            '[' => class = true,
            '(' if !class => groups += 1,
            ')' if !class => match groups.checked_sub(1) {
                Some(open) => groups = open,
                None => return false,
            },
            _ => {}
        }
    }
    !class && groups == 0
}

/// Whether Python's `re`, RE2 and ECMAScript accept a pattern and read it alike.
///
/// The check refuses lookaround, back references, `\p`, named groups, flags, and each other form that one of the engines
/// refuses. It can refuse a pattern that every engine accepts: the pattern is then a text in the description.
pub(crate) fn is_portable(pattern: &str) -> bool {
    Parser { chars: pattern.chars().peekable(), groups: vec![1], atom: None }.parse().is_some()
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    /// The largest count of a repetition in each open group. The first entry is the pattern itself.
    groups: Vec<u32>,
    /// The count of repetitions in the last atom. `None`: a repetition cannot follow.
    atom: Option<u32>,
}

/// An item of a class.
#[derive(Clone, Copy, PartialEq)]
enum Item {
    Char(char),
    Set,
}

impl Parser<'_> {
    /// Reads the whole pattern. `None`: an engine refuses it.
    fn parse(&mut self) -> Option<()> {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' if self.chars.next_if(|c| matches!(c, 'b' | 'B')).is_some() => self.atom = None,
                '\\' => {
                    self.escape()?;
                    self.atom = Some(1);
                }
                '[' => {
                    self.class()?;
                    self.atom = Some(1);
                }
                '(' => {
                    if self.chars.next_if_eq(&'?').is_some() {
                        self.chars.next_if_eq(&':')?;
                    }
                    self.groups.push(1);
                    self.atom = None;
                    if self.groups.len() > MAX_GROUPS {
                        return None;
                    }
                }
                ')' if self.groups.len() > 1 => self.atom = self.groups.pop(),
                '*' | '+' | '?' => self.repeat(1)?,
                '{' => {
                    let count = self.count()?;
                    self.repeat(count)?;
                }
                '^' | '$' | '|' => self.atom = None,
                ')' | ']' | '}' => return None,
                _ => self.atom = Some(1),
            }
            // The atom can be the last one of its group.
            let (count, group) = (self.atom.unwrap_or(1), self.groups.last_mut()?);
            *group = (*group).max(count);
        }
        (self.groups.len() == 1).then_some(())
    }

    /// Reads the end of a repetition of the last atom.
    fn repeat(&mut self, count: u32) -> Option<()> {
        let all = self.atom.take()?.saturating_mul(count);
        let group = self.groups.last_mut()?;
        *group = (*group).max(all);
        self.chars.next_if_eq(&'?');
        (all <= MAX_REPEAT).then_some(())
    }

    /// Reads `n}`, `n,}` or `n,m}`. Returns the largest count.
    fn count(&mut self) -> Option<u32> {
        let least = self.number()?;
        let mut most = least;
        if self.chars.next_if_eq(&',').is_some() && self.chars.peek() != Some(&'}') {
            most = self.number()?;
        }
        self.chars.next_if_eq(&'}')?;
        (least <= most).then_some(most.max(1))
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = None;
        while let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(10)) {
            self.chars.next();
            number = Some(number.unwrap_or(0u32).saturating_mul(10).saturating_add(digit)).filter(|n| *n <= MAX_REPEAT);
            number?;
        }
        number
    }

    /// Reads the rest of an escape, after the backslash.
    fn escape(&mut self) -> Option<Item> {
        Some(match self.chars.next()? {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Item::Set,
            'n' => Item::Char('\n'),
            'r' => Item::Char('\r'),
            't' => Item::Char('\t'),
            'f' => Item::Char('\u{c}'),
            'v' => Item::Char('\u{b}'),
            'x' => {
                let (high, low) = (self.chars.next()?.to_digit(16)?, self.chars.next()?.to_digit(16)?);
                Item::Char(char::from_u32(high * 16 + low)?)
            }
            c if c.is_ascii_punctuation() || c == ' ' => Item::Char(c),
            _ => return None,
        })
    }

    /// Reads the rest of a class, after the first bracket.
    fn class(&mut self) -> Option<()> {
        self.chars.next_if_eq(&'^');
        // A bracket at the first place is an ordinary character in some engines, and the end in others.
        if self.chars.peek() == Some(&']') {
            return None;
        }
        let mut before: Option<Item> = None;
        loop {
            let item = match self.chars.next()? {
                ']' => return Some(()),
                // Some engines read a class in a class.
                '[' => return None,
                '\\' => self.escape()?,
                '-' if before.is_some() && self.chars.peek() != Some(&']') => {
                    let end = match self.chars.next()? {
                        '\\' => self.escape()?,
                        '[' | '-' => return None,
                        c => Item::Char(c),
                    };
                    let (Some(Item::Char(start)), Item::Char(end)) = (before, end) else { return None };
                    if start > end {
                        return None;
                    }
                    before = None;
                    continue;
                }
                c => Item::Char(c),
            };
            before = Some(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_an_engine_refuses_are_found() {
        for (pattern, portable) in [
            ("", true),
            ("^[a-z]+$", true),
            (r"^\d{3}\.\w+$", true),
            (r"^#(?:[0-9a-fA-F]{3}){1,2}$", true),
            (r"^[\w.-]+@[\w-]+\.[a-z]{2,}$", true),
            ("^(a|b)*?$", true),
            (r"[(?=]", true),
            (r"\(?=", true),
            (r"[\]\[\\^-]", true),
            (r"[-a]", true),
            (r"[a-z-9]", true),
            (r"\x41[\x41-\x5a]", true),
            ("ä{2}", true),
            ("^(?!x)", false),
            ("(?=x)", false),
            ("(?<=x)", false),
            ("(?<!x)", false),
            ("(?i)a", false),
            ("(?<name>c)", false),
            ("(?P<name>c)", false),
            (r"(a)\1", false),
            (r"(?<n>a)\k<n>", false),
            (r"^\p{L}+$", false),
            (r"[\P{L}]", false),
            (r"\u0041", false),
            (r"\u{41}", false),
            (r"a\z", false),
            (r"\A", false),
            (r"\cA", false),
            (r"\0", false),
            (r"\x4", false),
            (r"\é", false),
            ("(a", false),
            ("a)", false),
            ("[a", false),
            ("a]", false),
            ("a\\", false),
            ("[]", false),
            ("[^]", false),
            ("[[a]]", false),
            ("[z-a]", false),
            (r"[\w-.]", false),
            (r"[+--]", false),
            (r"[a-\d]", false),
            (r"[\b]", false),
            ("*a", false),
            ("a|*", false),
            ("(+)", false),
            ("a**", false),
            ("a++", false),
            ("^*", false),
            ("a{2}{3}", false),
            ("a{2,1}", false),
            ("a{,2}", false),
            ("a{x}", false),
            ("{", false),
            ("}", false),
            ("a{1000}", true),
            ("a{1001}", false),
            ("a{1,99999999999999999999}", false),
            ("(a{10}){100}", true),
            ("(a{11}){100}", false),
            ("((a{11})b){100}", false),
            ("(a{11})b{100}", true),
        ] {
            assert_eq!(is_portable(pattern), portable, "{pattern}");
            assert!(!portable || is_complete(pattern), "{pattern}");
        }
        assert!(is_portable(&"a".repeat(1 << 20)));
        assert!(!is_portable(&"(".repeat(1 << 20)));
    }

    #[test]
    fn incomplete_patterns_are_found() {
        for (pattern, complete) in [
            (r"^(?!__.*__$)[^\p{Cc}]{1,200}$", true),
            (r"(?<n>a)\k<n>", true),
            (r"[(]\)", true),
            ("(a", false),
            ("a)", false),
            ("[a", false),
            ("a\\", false),
        ] {
            assert_eq!(is_complete(pattern), complete, "{pattern}");
        }
    }
}
