//! The little YAML that the scenario lists are written in: keys at the margin, each with a list of words or of flat maps.

use crate::error::Error;

/// One key at the margin and its list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) key: String,
    pub(super) items: Vec<Item>,
}

/// One entry of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    /// The word, for `- word`; empty for a map.
    pub(super) word: String,
    /// The members, for `- key: value` and the lines below it.
    pub(super) members: Vec<(String, String)>,
    /// What stands behind `#` in the entry's first line.
    pub(super) comment: String,
}

impl Item {
    /// A member of a map entry.
    pub(super) fn member(&self, key: &str) -> Option<&str> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Reads a document; anything beyond this little subset is an error that names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, Error> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let refuse = |why: &str| Error::new(format!("line {number}: {why}: {line}"));
        let (content, comment) = split_comment(line);
        if content.trim().is_empty() {
            continue;
        }
        if !content.starts_with(' ') {
            // The suites want an empty list to be written as one.
            let content = content.trim_end();
            let key = content.strip_suffix(':').or_else(|| content.strip_suffix(": []"));
            let key = key.ok_or_else(|| refuse("not a key"))?;
            sections.push(Section { key: key.to_owned(), items: Vec::new() });
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| refuse("an entry before any key"))?;
        let content = content.trim();
        match content.strip_prefix("- ") {
            Some(entry) => {
                let mut item = Item { comment: comment.to_owned(), ..Item::default() };
                match split_member(entry) {
                    Some(member) => item.members.push(member),
                    None => item.word = unquoted(entry).to_owned(),
                }
                section.items.push(item);
            }
            None => {
                let item = section.items.last_mut().filter(|item| item.word.is_empty());
                let item = item.ok_or_else(|| refuse("a member outside a map"))?;
                item.members.push(split_member(content).ok_or_else(|| refuse("not `key: value`"))?);
            }
        }
    }
    Ok(sections)
}

fn split_comment(line: &str) -> (&str, &str) {
    if let Some(comment) = line.trim_start().strip_prefix('#') {
        return ("", comment.trim());
    }
    line.split_once(" #").map_or((line, ""), |(content, comment)| (content, comment.trim()))
}

fn split_member(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once(": ")?;
    Some((key.to_owned(), unquoted(value.trim()).to_owned()))
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_words_maps_and_comments() {
        let text = "# head\n\nserver:\n  - one # 2/5\n  - two\nmore:\n  - scenario: three\n    why: \"a: b\"\n";
        let sections = parse(text).unwrap();
        assert_eq!(sections.len(), 2);
        let word = |word: &str, comment: &str| Item { word: word.into(), comment: comment.into(), ..Item::default() };
        assert_eq!(sections[0], Section { key: "server".into(), items: vec![word("one", "2/5"), word("two", "")] });
        let [item] = sections[1].items.as_slice() else { panic!("{sections:?}") };
        assert_eq!(parse("server: []\n").unwrap(), [Section { key: "server".into(), items: Vec::new() }]);
        assert_eq!((item.member("scenario"), item.member("why")), (Some("three"), Some("a: b")));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in ["server", "  - early", "a:\n  - word\n    key: value", "a:\n  - k: v\n    folded"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
