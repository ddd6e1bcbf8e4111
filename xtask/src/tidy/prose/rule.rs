//! Splits text into sentences, and finds the words and lengths that make a sentence hard to read.

/// Sentences with more words are too long.
const WORDS: usize = 30;

/// Words without an actor, and everyday verbs for technical acts.
const PHRASES: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "whatever",
    "no one",
    "no one's",
    "unasked",
    "sign of life",
    "signs of life",
    "is told",
    "are told",
    "was told",
    "were told",
    "be told",
    "stand in",
    "stands in",
    "stands at",
    "stands there",
    "stands for",
    "goes on",
    "go on",
    "by itself",
    "by themselves",
    "is none",
    "are none",
    "is no error",
    "brought forth",
    "comes by",
    "farewell",
    "is gone",
    "so many",
    "in so many words",
    "lies in",
    "mends",
    "the other side",
];

/// A sentence that begins with one of these has no subject, unless it is a question.
const HEADS: &[&str] = &["what", "who", "whoever", "whatever", "where", "whose", "which"];

/// Splits a block of text. Code becomes `X`, links become their texts, and fragments under three words are dropped.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut current = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(['-', '*', '#', '|', '>']) {
            sentences.push(std::mem::take(&mut current));
        }
        current.push_str(line);
        current.push(' ');
        if trimmed.starts_with('#') {
            sentences.push(std::mem::take(&mut current));
        }
    }
    sentences.push(current);
    let sentences = sentences.iter().flat_map(|part| split(&plain(part)));
    sentences.filter(|sentence| sentence.split_whitespace().count() >= 3).collect()
}

/// Why the sentence breaks the rule, if it does.
pub(super) fn breach(sentence: &str) -> Option<String> {
    let words: Vec<String> = sentence.split_whitespace().map(normal).filter(|word| !word.is_empty()).collect();
    let line = format!(" {} ", words.join(" "));
    if let Some(phrase) = PHRASES.iter().find(|phrase| line.contains(&format!(" {phrase} "))) {
        return Some(format!("\"{phrase}\""));
    }
    let is_question = sentence.trim_end().ends_with('?');
    if let Some(head) = words.first().filter(|first| HEADS.contains(&first.as_str()) && !is_question) {
        return Some(format!("begins with \"{head}\""));
    }
    (words.len() > WORDS).then(|| format!("{} words", words.len()))
}

/// The word in lower case, without punctuation around it.
fn normal(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

/// Replaces code by `X` and links by their texts.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (n, part) in text.split('`').enumerate() {
        plain.push_str(if n % 2 == 0 { part } else { "X" });
    }
    let mut rest = plain.as_str();
    let mut unlinked = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        unlinked.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    unlinked.push_str(rest);
    unlinked.replace('[', "")
}

/// Splits at cells of tables and at the ends of sentences: punctuation, a space and an upper-case letter.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut ended = false;
    let mut spaced = false;
    for c in text.chars() {
        if c == '|' || (ended && spaced && (c.is_uppercase() || matches!(c, '*' | '['))) {
            parts.push(String::new());
        }
        if c.is_whitespace() {
            spaced = true;
        } else {
            ended = matches!(c, '.' | '!' | '?' | ':' | ';');
            spaced = false;
        }
        if let Some(part) = parts.last_mut()
            && c != '|'
        {
            part.push(c);
        }
    }
    let clean = |part: &String| {
        let part = part.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '#' | '-'));
        part.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    parts.iter().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_splits_into_sentences() {
        let text = "# The head of it\nOne [link here](x.md) to see. Two `a. B` words\nhere: Three more words. e.g. this\n\
                    - an item of a list\n| a cell | the second cell here |\nno";
        assert_eq!(
            sentences(text),
            [
                "The head of it",
                "One link here to see.",
                "Two X words here:",
                "Three more words. e.g. this",
                "an item of a list",
                "the second cell here",
            ]
        );
    }

    #[test]
    fn hard_sentences_are_found() {
        let long = "word ".repeat(WORDS + 1);
        for (sentence, breaks) in [
            ("The client sends a request.", false),
            ("What does the client send?", false),
            ("What the client sends, is a request.", true),
            ("The client is told, once.", true),
            ("Somebody's request is sent by a task.", false),
            ("A queue that nobody reads.", true),
            (long.as_str(), true),
        ] {
            assert_eq!(breach(sentence).is_some(), breaks, "{sentence}");
        }
    }
}
