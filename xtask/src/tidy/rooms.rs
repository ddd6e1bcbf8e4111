//! The order of the rooms inside each crate: the size of the largest import cycle, against a ceiling.
//!
//! A room is a top-level module of a crate. Rooms that import each other, directly or through others, form a cycle.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Error};

use super::{Findings, ceilings::Ceilings};
use crate::workspace::{self, Metadata};

mod graph;
mod source;

use self::graph::Imports;

/// Wire types may name each other.
const EXEMPT: &[&str] = &["mcp-protocol"];

/// The rooms of one crate and the imports between them.
#[derive(Debug, Default)]
struct Rooms(BTreeMap<String, BTreeSet<String>>);

/// Measures each crate under `crates/` and compares it with its ceilings.
pub(super) fn check(
    root: &Path,
    metadata: &Metadata,
    ceilings: &mut Ceilings,
    found: &mut Findings,
) -> Result<(), Error> {
    let crates = root.join("crates");
    for package in metadata.members().filter(|package| workspace::dir(package).starts_with(&crates)) {
        let name = package.name.as_str();
        if EXEMPT.contains(&name) {
            continue;
        }
        let modules = source::read(&workspace::dir(package).join("src")).with_context(|| name.to_owned())?;
        let rooms = Rooms::of(&Imports::new(&modules));
        let cycle = rooms.largest_cycle();
        if ceilings.room_cycle(name, cycle.len(), found) {
            found.error(name, format_args!("the cycle: {}", cycle.join(", ")));
            found.error(name, format_args!("rooms that import each other: {}", rooms.mutual().join(", ")));
        }
        ceilings.room_count(name, rooms.0.len(), found);
    }
    Ok(())
}

impl Rooms {
    fn of(imports: &Imports<'_>) -> Self {
        let mut rooms = Self::default();
        for room in imports.modules().filter_map(|module| module.first()) {
            rooms.0.entry(room.clone()).or_default();
        }
        for (from, to) in imports.edges() {
            if let (Some(from), Some(to)) = (from.first(), to.first())
                && from != to
            {
                rooms.0.entry(from.clone()).or_default().insert(to.clone());
            }
        }
        rooms
    }

    /// The largest set of rooms in which each room reaches each other room. Empty if there is no cycle.
    fn largest_cycle(&self) -> Vec<&str> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|room| (room.as_str(), self.reachable(room))).collect();
        let cycle_of = |room: &str| -> Vec<&str> {
            reached[room].iter().filter(|other| reached[**other].contains(room)).copied().collect()
        };
        self.0.keys().map(|room| cycle_of(room)).max_by_key(Vec::len).unwrap_or_default()
    }

    /// The rooms that `start` reaches over one import or more.
    fn reachable(&self, start: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(room) = open.pop() {
            for next in self.0.get(room).into_iter().flatten() {
                if reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    }

    fn mutual(&self) -> Vec<String> {
        let pairs = self.0.iter().flat_map(|(a, imports)| imports.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a < b && self.0[*b].contains(*a)).map(|(a, b)| format!("{a} and {b}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(files: &[(&str, &str)]) -> Rooms {
        let modules: Vec<_> = files.iter().map(|(path, text)| source::parse(path, text).unwrap()).collect();
        Rooms::of(&Imports::new(&modules))
    }

    #[test]
    fn a_cycle_has_each_room_that_reaches_the_others() {
        let rooms = rooms(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B(crate::c::C);"),
            ("c.rs", "pub struct C; fn f() { let _ = crate::A; }"),
            ("d.rs", "use super::a;\nfn f() { a::g(); }"),
        ]);
        assert_eq!(rooms.largest_cycle(), ["a", "b", "c"]);
        assert_eq!(rooms.mutual(), [""; 0]);
        assert_eq!(rooms.0.len(), 4);
    }

    #[test]
    fn imports_of_tests_and_within_a_room_do_not_count() {
        let rooms = rooms(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod inner; use self::inner::X; pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("a/inner.rs", "use super::A; pub struct X;"),
            ("b.rs", "use crate::{a::{self, A}}; pub struct B;"),
        ]);
        assert_eq!(rooms.largest_cycle(), [""; 0]);
        assert_eq!(rooms.0["b"], BTreeSet::from(["a".to_owned()]));
    }
}
