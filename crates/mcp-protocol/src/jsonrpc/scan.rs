//! A scanner that checks JSON text and finds the members of objects, in one pass and without building values.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer,
    de::{
        self,
        value::{BorrowedStrDeserializer, MapDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::value::RawValue;

/// The scanner rejects the text. The slower `serde_json` then finds the reason, or accepts the text.
#[derive(Debug)]
pub(crate) struct Rejected;

/// A position in a JSON text.
///
/// It accepts the same texts as `serde_json` does for raw values, except that containers deeper than 128 below one
/// [`Scanner::value`] are rejected.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The number of containers that are open at the position.
    depth: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        Self { text, at: 0, depth: 0, max_depth }
    }

    /// Reads an object. `member` gets each name and must read the value with [`Scanner::value`] or [`Scanner::object`].
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Rejected>,
    ) -> Result<(), Rejected> {
        self.expect(b'{')?;
        self.depth += 1;
        if self.depth > self.max_depth {
            return Err(Rejected);
        }
        if self.next_token()? == b'}' {
            self.at += 1;
        } else {
            loop {
                let name = self.name()?;
                self.colon()?;
                member(self, &name)?;
                match self.next_token()? {
                    b',' => self.at += 1,
                    b'}' => break self.at += 1,
                    _ => return Err(Rejected),
                }
                self.skip_space();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a value of any kind and returns its text.
    pub(crate) fn value(&mut self) -> Result<&'a RawValue, Rejected> {
        let start = self.at;
        self.skip_value()?;
        raw(&self.text[start..self.at])
    }

    /// Returns the position, for [`Scanner::value_since`].
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the text of the value that was read since `start`.
    pub(crate) fn value_since(&self, start: usize) -> Result<&'a RawValue, Rejected> {
        raw(&self.text[start..self.at])
    }

    /// Checks that only white space follows.
    pub(crate) fn end(&mut self) -> Result<(), Rejected> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(Rejected) }
    }

    /// Returns the next byte, without white space before it, and stays in front of it.
    pub(crate) fn next_token(&mut self) -> Result<u8, Rejected> {
        self.skip_space();
        self.peek().ok_or(Rejected)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Rejected> {
        if self.peek() != Some(byte) {
            return Err(Rejected);
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn colon(&mut self) -> Result<(), Rejected> {
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(())
    }

    fn name(&mut self) -> Result<Cow<'a, str>, Rejected> {
        let start = self.at;
        let has_escapes = self.string()?;
        if has_escapes {
            // Escapes that are not characters, such as half of a surrogate pair, are found here.
            return serde_json::from_str(&self.text[start..self.at]).map(Cow::Owned).map_err(|_| Rejected);
        }
        Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1]))
    }

    /// Skips a value without recursion.
    fn skip_value(&mut self) -> Result<(), Rejected> {
        // One bit per container that was opened here: whether it is an object.
        let mut objects: u128 = 0;
        let mut opened: u32 = 0;
        loop {
            // A value begins here.
            match self.peek().ok_or(Rejected)? {
                b'"' => _ = self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                open @ (b'{' | b'[') => {
                    let is_object = open == b'{';
                    self.at += 1;
                    self.depth += 1;
                    if self.depth > self.max_depth || opened == u128::BITS {
                        return Err(Rejected);
                    }
                    opened += 1;
                    objects = objects << 1 | u128::from(is_object);
                    match (self.next_token()?, is_object) {
                        // The container is empty, which the loop below closes.
                        (b'}', true) | (b']', false) => {}
                        (_, true) => {
                            self.string()?;
                            self.colon()?;
                            continue;
                        }
                        (_, false) => continue,
                    }
                }
                _ => return Err(Rejected),
            }
            // A value ended here. It may be the last one of containers.
            loop {
                if opened == 0 {
                    return Ok(());
                }
                let is_object = objects & 1 == 1;
                match (self.next_token()?, is_object) {
                    (b',', true) => {
                        self.at += 1;
                        self.skip_space();
                        self.string()?;
                        self.colon()?;
                        break;
                    }
                    (b',', false) => {
                        self.at += 1;
                        self.skip_space();
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        self.depth -= 1;
                        opened -= 1;
                        objects >>= 1;
                    }
                    _ => return Err(Rejected),
                }
            }
        }
    }

    /// Skips a string and returns whether it has escapes.
    fn string(&mut self) -> Result<bool, Rejected> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let mut has_escapes = false;
        loop {
            self.at += plain_length(&bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(has_escapes);
                }
                Some(b'\\') => {
                    has_escapes = true;
                    match bytes.get(self.at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                        Some(b'u') => {
                            let digits = bytes.get(self.at + 2..self.at + 6).ok_or(Rejected)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(Rejected);
                            }
                            self.at += 6;
                        }
                        _ => return Err(Rejected),
                    }
                }
                // A control character, or the end of the text.
                _ => return Err(Rejected),
            }
        }
    }

    fn number(&mut self) -> Result<(), Rejected> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            // A zero has no digits behind it.
            Some(b'0') => {
                self.at += 1;
                if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    return Err(Rejected);
                }
            }
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Rejected> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(Rejected) } else { Ok(()) }
    }

    fn literal(&mut self, word: &str) -> Result<(), Rejected> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Rejected);
        }
        self.at += word.len();
        Ok(())
    }
}

/// The bytes of a string that are compared word by word. Most strings are not longer.
const SHORT: usize = 64;

/// Returns the number of bytes before the next quote, backslash or control character, or before the end.
fn plain_length(bytes: &[u8]) -> usize {
    let short = plain_words(&bytes[..bytes.len().min(SHORT)]);
    if short < SHORT {
        return short;
    }
    // The compiler compares the bytes of a block at once.
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | is_special(*byte));
    let blocks = bytes[SHORT..].chunks_exact(SHORT).take_while(is_plain).count();
    let at = SHORT + blocks * SHORT;
    at + plain_words(&bytes[at..bytes.len().min(at + SHORT)])
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f)
}

/// Returns the same number as [`plain_length`]. It compares eight bytes at once.
fn plain_words(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    /// Sets the high bit of the lowest byte that is less than `n` (at most 128), and perhaps of bytes above it.
    const fn less(word: u64, n: u8) -> u64 {
        word.wrapping_sub(ONES * n as u64) & !word
    }
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        let quote = less(word ^ (ONES * b'"' as u64), 1);
        let backslash = less(word ^ (ONES * b'\\' as u64), 1);
        let found = (quote | backslash | less(word, 0x20)) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| !is_special(**byte)).count()
}

/// Makes a raw value of a text that the scanner has checked, without another scan.
fn raw(text: &str) -> Result<&RawValue, Rejected> {
    <&RawValue>::deserialize(Checked(text)).map_err(|_| Rejected)
}

/// Hands a text to `RawValue` as the deserializer of `serde_json` does: as a map with one entry.
struct Checked<'a>(&'a str);

impl<'de> Deserializer<'de> for Checked<'de> {
    type Error = de::value::Error;

    fn deserialize_newtype_struct<V: de::Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let entry = (StrDeserializer::new(name), BorrowedStrDeserializer::new(self.0));
        visitor.visit_map(MapDeserializer::new(std::iter::once(entry)))
    }

    fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only a raw value can be read"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<&str, Rejected> {
        let mut scanner = Scanner::new(text, usize::MAX);
        scanner.next_token()?;
        let value = scanner.value()?;
        scanner.end()?;
        Ok(value.get())
    }

    /// Compares the scanner with `serde_json` on one text.
    fn compare(text: &str) {
        let expected = serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get);
        assert_eq!(value(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn scanner_and_serde_json_accept_the_same_texts() {
        for text in [
            "",
            " ",
            "null",
            "nul",
            "nullx",
            "true",
            "false",
            "0",
            "-0",
            "-",
            "01",
            "1.",
            "1.5",
            ".5",
            "1e",
            "1e5",
            "1E+5",
            "1e-",
            "-1.25e-3",
            "1 2",
            "\"",
            "\"a\"",
            "\"\\\"",
            "\"\\n\\u00e9\"",
            "\"\\ud800\"",
            "\"\\u12g4\"",
            "\"\\x\"",
            "\"a\u{1f}\"",
            "\"a\u{7f}é😀\"",
            "\"12345678\\\"90\"",
            "[",
            "[]",
            "[ ]",
            "[1,]",
            "[,]",
            "[1 2]",
            "[1,[2,{\"a\":[]}]]",
            "[}",
            "{",
            "{}",
            "{ }",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1,\"b\":{\"c\":[true,null]}}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1]",
            "{\"a\" : 1 , \"b\"\t:\r\n2}",
            "\u{feff}1",
            "\u{a0}1",
        ] {
            compare(text);
        }
    }

    #[test]
    fn mutated_texts_are_parsed_as_serde_json_parses_them() {
        const TEXT: &str =
            r#"{"jsonrpc":"2.0","id":-12.5e+3,"a":[{"ü\n\u00e9":"long enough for a word\\"},[],{},true,null],"b":0}"#;
        const BYTES: &[u8] = br#"{}[]",:\ntfu0-+.eE9 /"#;
        for at in 0..=TEXT.len() {
            for byte in BYTES {
                let mut replaced = TEXT.as_bytes().to_vec();
                if let Some(place) = replaced.get_mut(at) {
                    *place = *byte;
                }
                let mut inserted = TEXT.as_bytes().to_vec();
                inserted.insert(at, *byte);
                let removed = [&TEXT.as_bytes()[..at], TEXT.as_bytes().get(at + 1..).unwrap_or_default()].concat();
                for bytes in [replaced, inserted, removed, TEXT.as_bytes()[..at].to_vec()] {
                    if let Ok(text) = std::str::from_utf8(&bytes) {
                        compare(text);
                    }
                }
            }
        }
    }

    #[test]
    fn control_characters_and_quotes_are_found_at_each_offset() {
        for length in [20, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT - 1, 3 * SHORT, 3 * SHORT + 20] {
            for at in 0..length {
                for byte in (0..0x80).chain([0xe9]) {
                    let c = char::from(byte);
                    let text: String = (0..length).map(|index| if index == at { c } else { 'x' }).collect();
                    let expected = if matches!(c, '"' | '\\' | '\0'..='\x1f') { at } else { text.len() };
                    assert_eq!(plain_length(text.as_bytes()), expected, "{text:?}");
                }
                let text = format!("{}\"\"{}", "x".repeat(at), "x".repeat(length - at));
                assert_eq!(plain_length(text.as_bytes()), at, "{text:?}");
            }
        }
    }

    #[test]
    fn an_object_yields_its_members_with_their_values() {
        let text = r#" {"a":1,"b\u0063":{"c":[2]},"d":"e"} "#;
        let mut found = Vec::new();
        let mut scanner = Scanner::new(text, 3);
        scanner.next_token().unwrap();
        scanner
            .object(|scanner, name| {
                found.push(format!("{name}={}", scanner.value()?.get()));
                Ok(())
            })
            .unwrap();
        scanner.end().unwrap();
        assert_eq!(found, ["a=1", r#"bc={"c":[2]}"#, r#"d="e""#]);
        for (depth, is_ok) in [(2, false), (3, true)] {
            let mut scanner = Scanner::new(text.trim(), depth);
            assert_eq!(scanner.object(|scanner, _| scanner.value().map(drop)).is_ok(), is_ok, "{depth}");
        }
    }

    #[test]
    fn raw_values_are_made_without_a_second_scan() {
        // The text is not JSON, so a second scan would reject it.
        assert_eq!(raw("{").unwrap().get(), "{");
    }
}
