//! The account as it is written: numbers, entries, and which numbers each part of the work covers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use toml::{Table, Value};

use crate::error::{Context, Error};

/// A requirement of the protocol (`R1` to `R328`) or a feature of other libraries (`L1` to `L466`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    kind: char,
    number: u16,
}

impl Number {
    fn parse(text: &str) -> Result<Self, Error> {
        let unknown = || Error::new(format!("`{text}` is no number of the account (R1..R328, L1..L466)"));
        let kind = text.chars().next().ok_or_else(unknown)?;
        let last = match kind {
            'R' => 328,
            'L' => 466,
            _ => return Err(unknown()),
        };
        let digits = &text[1..];
        let number: u16 = digits.parse().map_err(|_| unknown())?;
        // Only one way to write a number: no `R01`, no `R+1`.
        if !(1..=last).contains(&number) || digits != number.to_string() {
            return Err(unknown());
        }
        Ok(Self { kind, number })
    }

    /// Reads `R7` or `R7-R9`.
    fn parse_range(text: &str) -> Result<impl Iterator<Item = Self>, Error> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (Self::parse(first)?, Self::parse(last)?);
        if first.kind != last.kind || first > last {
            return Err(Error::new(format!("`{text}` is no range")));
        }
        Ok((first.number..=last.number).map(move |number| Self { kind: first.kind, number }))
    }

    /// Writes sorted numbers as `R7-R9 R12`.
    pub(super) fn ranges(numbers: &[Self]) -> String {
        let follows = |a: &Self, b: &Self| a.kind == b.kind && a.number + 1 == b.number;
        let ranges = numbers.chunk_by(follows).filter_map(|run| match run {
            [] => None,
            [single] => Some(single.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        });
        ranges.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.number)
    }
}

/// How a promise stands.
#[derive(Debug)]
pub(super) enum Status {
    /// Kept, by these tests.
    Met(Vec<String>),
    /// Kept and more, by these tests.
    Better(Vec<String>),
    /// Not wanted; the entry says why.
    Declined,
    /// The part of the work that will keep it.
    Later(String),
}

impl Status {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Met(_) => "met",
            Self::Better(_) => "better",
            Self::Declined => "declined",
            Self::Later(_) => "later",
        }
    }
}

/// One promise.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) status: Status,
}

/// The whole file.
#[derive(Debug)]
pub(super) struct Account {
    /// The parts of the work that are done: nothing may be left to them.
    pub(super) resolved: BTreeSet<String>,
    /// The parts whose numbers need an entry now.
    pub(super) covering: BTreeSet<String>,
    /// The numbers of each part.
    pub(super) covers: BTreeMap<String, BTreeSet<Number>>,
    pub(super) entries: BTreeMap<Number, Entry>,
}

impl Account {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut file: Table = toml::from_str(text)?;
        let issues = table(file.remove("issues"), "issues")?;
        let mut covers = BTreeMap::new();
        for (part, ranges) in table(file.remove("covers"), "covers")? {
            let mut numbers = BTreeSet::new();
            for range in strings(&ranges).context(format_args!("[covers] {part:?}"))? {
                numbers.extend(Number::parse_range(&range)?);
            }
            covers.insert(part, numbers);
        }
        let parts = |key: &str| issues.get(key).map_or(Ok(Vec::new()), strings).context(format_args!("[issues] {key}"));
        let mut entries = BTreeMap::new();
        for (key, value) in file {
            let number = Number::parse(&key)?;
            entries.insert(number, entry(value).context(number)?);
        }
        Ok(Self {
            resolved: parts("resolved")?.into_iter().collect(),
            covering: parts("covers")?.into_iter().collect(),
            covers,
            entries,
        })
    }
}

fn entry(value: Value) -> Result<Entry, Error> {
    let mut members = table(Some(value), "the entry")?;
    let mut word = |key: &str| match members.remove(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        _ => Err(Error::new(format!("`{key}` is missing or no text"))),
    };
    word("line")?;
    let status = word("status")?;
    let status = match status.as_str() {
        "declined" => word("why").map(|_| Status::Declined)?,
        "later" => Status::Later(word("issue")?),
        "met" => Status::Met(tests(&mut members)?),
        "better" => Status::Better(tests(&mut members)?),
        _ => return Err(Error::new(format!("`{status}` is none of met, better, declined, later"))),
    };
    // A remark may stand with any status.
    members.remove("note");
    match members.keys().next() {
        None => Ok(Entry { status }),
        Some(key) => Err(Error::new(format!("`{key}` does not belong to an entry that is {}", status.name()))),
    }
}

fn tests(members: &mut Table) -> Result<Vec<String>, Error> {
    let named = members.remove("tests").or_else(|| members.remove("test"));
    let named = named.as_ref().map_or(Ok(Vec::new()), strings).context("tests")?;
    if named.is_empty() { Err(Error::new("no `tests` that show it")) } else { Ok(named) }
}

fn table(value: Option<Value>, what: &str) -> Result<Table, Error> {
    match value {
        Some(Value::Table(table)) => Ok(table),
        _ => Err(Error::new(format!("{what} is missing or no table"))),
    }
}

/// One text or a list of them.
fn strings(value: &Value) -> Result<Vec<String>, Error> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| Error::new("not a text"));
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        single => Ok(vec![text(single)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form_and_a_last() {
        for text in ["R1", "R328", "L1", "L466"] {
            assert_eq!(Number::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "R", "R0", "R01", "R+1", "R329", "L467", "X1", "é1"] {
            assert!(Number::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_inclusive() {
        let numbers: Vec<String> = Number::parse_range("R9-R11").unwrap().map(|number| number.to_string()).collect();
        assert_eq!(numbers, ["R9", "R10", "R11"]);
        let numbers = ["L5", "L6", "L7", "R1", "R8", "R9"].map(|text| Number::parse(text).unwrap());
        assert_eq!(Number::ranges(&numbers), "L5-L7 R1 R8-R9");
        assert!(Number::parse_range("R9-L11").is_err());
        assert!(Number::parse_range("R9-R8").is_err());
    }

    #[test]
    fn an_entry_has_what_its_status_needs_and_no_more() {
        let head = "[issues]\n[covers]\n[R1]\n";
        for (entry, good) in [
            ("line = \"a\"\nstatus = \"met\"\ntests = [\"t\"]", true),
            ("line = \"a\"\nstatus = \"met\"\ntest = \"t\"\nnote = \"n\"", true),
            ("line = \"a\"\nstatus = \"met\"", false),
            ("line = \"a\"\nstatus = \"met\"\ntests = []", false),
            ("line = \"a\"\nstatus = \"declined\"\nwhy = \"w\"", true),
            ("line = \"a\"\nstatus = \"declined\"", false),
            ("line = \"a\"\nstatus = \"later\"\nissue = \"2/5\"", true),
            ("line = \"a\"\nstatus = \"later\"\nissue = \"2/5\"\ntests = [\"t\"]", false),
            ("status = \"later\"\nissue = \"2/5\"", false),
            ("line = \"a\"\nstatus = \"done\"", false),
        ] {
            assert_eq!(Account::parse(&format!("{head}{entry}")).is_ok(), good, "{entry}");
        }
    }
}
