//! The format of a ledger file: its head, its numbers and its entries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Deserialize;
use toml::{Table, Value};

use anyhow::{Context, Error};

/// The number of an entry, for example `R12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    kind: char,
    number: u16,
}

impl Number {
    fn parse(text: &str) -> Result<Self, Error> {
        let invalid = || Error::msg(format!("`{text}` is not the number of an entry, such as `R12`"));
        let kind = text.chars().next().filter(char::is_ascii_uppercase).ok_or_else(invalid)?;
        let digits = &text[1..];
        let number: u16 = digits.parse().map_err(|_| invalid())?;
        // Each number has one spelling: `R01` and `R+1` are invalid.
        if number == 0 || digits != number.to_string() {
            return Err(invalid());
        }
        Ok(Self { kind, number })
    }

    /// Parses `R7` or `R7-R9`.
    fn parse_range(text: &str) -> Result<impl Iterator<Item = Self>, Error> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (Self::parse(first)?, Self::parse(last)?);
        if first.kind != last.kind || first > last {
            return Err(Error::msg(format!("`{text}` is not a range of numbers")));
        }
        Ok((first.number..=last.number).map(move |number| Self { kind: first.kind, number }))
    }

    /// Formats sorted numbers as `R7-R9 R12`.
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

/// The state of an entry.
#[derive(Debug)]
pub(super) enum Status {
    /// These tests show that the library does it.
    Met(Vec<String>),
    /// These tests show that the library does it and more.
    Better(Vec<String>),
    /// The library does not meet it. The entry gives the reason.
    Declined,
    /// The subject of the open issue that will do it.
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

/// One file of the ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The numbers that need an entry.
    pub(super) covers: BTreeSet<Number>,
    /// The subjects of the open issues.
    pub(super) open: BTreeSet<String>,
    pub(super) entries: BTreeMap<Number, Status>,
}

/// The table `[ledger]` at the head of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    covers: Vec<String>,
    #[serde(default)]
    open: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    line: String,
    status: String,
    #[serde(default)]
    tests: Vec<String>,
    why: Option<String>,
    issue: Option<String>,
    #[expect(dead_code, reason = "a remark for readers, allowed with each status")]
    note: Option<String>,
}

impl Ledger {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut file: Table = toml::from_str(text)?;
        let head: Head =
            file.remove("ledger").ok_or_else(|| Error::msg("the table `[ledger]` is missing"))?.try_into()?;
        let mut covers = BTreeSet::new();
        for range in &head.covers {
            covers.extend(Number::parse_range(range).context("`covers`")?);
        }
        let entries = file.into_iter().map(|(key, value)| {
            let number = Number::parse(&key)?;
            Ok((number, status(value).with_context(|| number.to_string())?))
        });
        Ok(Self { covers, open: head.open, entries: entries.collect::<Result<_, Error>>()? })
    }
}

/// Checks the members of an entry and returns its status.
fn status(value: Value) -> Result<Status, Error> {
    let RawEntry { line, status, tests, why, issue, note: _ } = value.try_into()?;
    if line.trim().is_empty() {
        return Err(Error::msg("`line` is empty"));
    }
    match (status.as_str(), tests.is_empty(), why, issue) {
        ("met", false, None, None) => Ok(Status::Met(tests)),
        ("better", false, None, None) => Ok(Status::Better(tests)),
        ("declined", true, Some(_), None) => Ok(Status::Declined),
        ("later", true, None, Some(issue)) => Ok(Status::Later(issue)),
        ("met" | "better", ..) => Err(Error::msg(format!("an entry that is {status} has `tests` alone"))),
        ("declined", ..) => Err(Error::msg("an entry that is declined has `why` alone")),
        ("later", ..) => Err(Error::msg("an entry that is later has `issue` alone")),
        _ => Err(Error::msg(format!("the status `{status}` is not met, better, declined or later"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        for text in ["R1", "R328", "L1", "L466"] {
            assert_eq!(Number::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "R", "R0", "R01", "R+1", "r1", "R70000", "é1"] {
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
    fn an_entry_has_exactly_the_members_of_its_status() {
        let head = "[ledger]\ncovers = []\n[R1]\n";
        for (entry, valid) in [
            ("line = \"a\"\nstatus = \"met\"\ntests = [\"t\"]", true),
            ("line = \"a\"\nstatus = \"met\"\ntests = [\"t\"]\nnote = \"n\"", true),
            ("line = \"a\"\nstatus = \"met\"", false),
            ("line = \"a\"\nstatus = \"met\"\ntests = []", false),
            ("line = \"a\"\nstatus = \"declined\"\nwhy = \"w\"", true),
            ("line = \"a\"\nstatus = \"declined\"", false),
            ("line = \"a\"\nstatus = \"later\"\nissue = \"Tasks\"", true),
            ("line = \"a\"\nstatus = \"later\"\nissue = \"Tasks\"\ntests = [\"t\"]", false),
            ("status = \"later\"\nissue = \"Tasks\"", false),
            ("line = \"a\"\nstatus = \"done\"", false),
            ("line = \"a\"\nstatus = \"met\"\ntests = [\"t\"]\nother = 1", false),
        ] {
            assert_eq!(Ledger::parse(&format!("{head}{entry}")).is_ok(), valid, "{entry}");
        }
    }
}
