//! The measures that may only fall: `xtask/ceilings.toml`, which `cargo xtask tidy --update` lowers.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use super::Findings;
use anyhow::{Context, Error};

const FILE: &str = "xtask/ceilings.toml";
const HEAD: &str = "\
# Measures of this workspace that may only fall. `cargo xtask tidy` fails above a ceiling, and
# `cargo xtask tidy --update` lowers each ceiling to the measured value. `cargo xtask bench instructions` compares the table
# `instructions` instead: it fails at 3 % above the ceiling of a case, and at 5 % or 10 % above that of a difference of two cases. Its
# option `--update` lowers these ceilings.

";
/// The ceiling of a crate that the file does not name.
const ROOM_CYCLE: usize = 2;

/// The content of the file, and the values that this run measured.
#[derive(Debug, Default)]
pub(super) struct Ceilings {
    set: Values,
    measured: Values,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Values {
    /// Rooms in the largest import cycle, by crate.
    room_cycle: BTreeMap<String, usize>,
    /// Rooms, by crate.
    room_count: BTreeMap<String, usize>,
    /// Sentences in a hundred that break the language rule, by kind of text.
    language: BTreeMap<String, f64>,
    /// Instructions of one iteration, by hot path. `cargo xtask bench instructions` measures them.
    #[serde(default)]
    instructions: BTreeMap<String, u64>,
}

/// The ceilings of the instructions.
pub(crate) fn instructions(root: &Path) -> Result<BTreeMap<String, u64>, Error> {
    Ok(read(root)?.instructions)
}

/// Replaces the ceilings of the instructions.
pub(crate) fn set_instructions(root: &Path, instructions: BTreeMap<String, u64>) -> Result<(), Error> {
    write(root, &Values { instructions, ..read(root)? })
}

fn read(root: &Path) -> Result<Values, Error> {
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    toml::from_str(&text).context(FILE)
}

fn write(root: &Path, values: &Values) -> Result<(), Error> {
    std::fs::write(root.join(FILE), HEAD.to_owned() + &toml::to_string(values)?).context(FILE)
}

impl Ceilings {
    pub(super) fn load(root: &Path) -> Result<Self, Error> {
        Ok(Self { set: read(root)?, measured: Values::default() })
    }

    /// Writes the file with each ceiling lowered to the measured value. Entries of removed crates go.
    pub(super) fn lower(&self, root: &Path) -> Result<(), Error> {
        let mut lowered = Values {
            room_cycle: least(&self.set.room_cycle, &self.measured.room_cycle),
            room_count: least(&self.set.room_count, &self.measured.room_count),
            language: least(&self.set.language, &self.measured.language),
            instructions: self.set.instructions.clone(),
        };
        lowered.room_cycle.retain(|_, ceiling| *ceiling > ROOM_CYCLE);
        write(root, &lowered)
    }

    /// Compares the largest room cycle of a crate and returns whether it is above its ceiling.
    pub(super) fn room_cycle(&mut self, name: &str, measured: usize, found: &mut Findings) -> bool {
        let ceiling = *self.set.room_cycle.get(name).unwrap_or(&ROOM_CYCLE);
        // A cycle of up to `ROOM_CYCLE` rooms needs no entry.
        self.measured.room_cycle.insert(name.to_owned(), measured.max(ROOM_CYCLE));
        compare(format_args!("{name}: rooms in the largest import cycle"), measured.max(ROOM_CYCLE), ceiling, found)
    }

    /// Compares the number of rooms of a crate, if the file limits it.
    pub(super) fn room_count(&mut self, name: &str, measured: usize, found: &mut Findings) {
        if let Some(ceiling) = self.set.room_count.get(name) {
            self.measured.room_count.insert(name.to_owned(), measured);
            compare(format_args!("{name}: rooms"), measured, *ceiling, found);
        }
    }

    /// Compares the share of sentences of one kind that break the language rule, in per cent.
    pub(super) fn language(&mut self, kind: &str, measured: f64, found: &mut Findings) -> bool {
        let measured = (measured * 10.0).ceil() / 10.0;
        self.measured.language.insert(kind.to_owned(), measured);
        let ceiling = self.set.language.get(kind).copied().unwrap_or_default();
        compare(format_args!("{kind}: per cent of hard sentences"), measured, ceiling, found)
    }
}

fn compare<T: Copy + PartialOrd + std::fmt::Display>(
    what: std::fmt::Arguments<'_>,
    measured: T,
    ceiling: T,
    found: &mut Findings,
) -> bool {
    if measured > ceiling {
        found.error(what, format_args!("{measured}, and {FILE} allows {ceiling}"));
    } else if measured < ceiling {
        found.warning(what, format_args!("{measured}, and {FILE} allows {ceiling}: run `cargo xtask tidy --update`"));
    }
    measured > ceiling
}

fn least<T: Copy + PartialOrd>(set: &BTreeMap<String, T>, measured: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    let lower = |(name, ceiling): (&String, &T)| {
        let measured = *measured.get(name)?;
        Some((name.clone(), if measured < *ceiling { measured } else { *ceiling }))
    };
    set.iter().filter_map(lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_holds_and_only_falls() {
        let mut ceilings = Ceilings::default();
        ceilings.set.room_cycle = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 5), ("gone".to_owned(), 5)]);
        let mut found = Findings::default();
        assert!(!ceilings.room_cycle("a", 3, &mut found));
        assert!(ceilings.room_cycle("b", 7, &mut found));
        assert!(!ceilings.room_cycle("new", 2, &mut found));
        assert!(ceilings.room_cycle("new", 3, &mut found));
        assert_eq!((found.errors.len(), found.warnings.len()), (2, 1), "{found:?}");
        let lowered = least(&ceilings.set.room_cycle, &ceilings.measured.room_cycle);
        assert_eq!(lowered, BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 5)]));
    }

    #[test]
    fn shares_are_compared_to_a_tenth() {
        let mut ceilings = Ceilings::default();
        ceilings.set.language.insert("guides".to_owned(), 3.1);
        let mut found = Findings::default();
        assert!(!ceilings.language("guides", 3.04, &mut found));
        assert!(ceilings.language("guides", 3.12, &mut found));
    }
}
