//! The differences between two definitions.

use std::fmt;

use serde_json::{Map, Value};

use crate::characters::Printable;

/// The largest number of changes.
const CHANGES: usize = 50;
/// The longest part of a value in a change, in characters.
const SHOWN: usize = 120;

/// A difference between a pinned definition and a new one.
///
/// ```
/// use std::time::SystemTime;
///
/// use mcp_agent::pins::{ChangeKind, PinRules, PinState, Pins};
/// use mcp_protocol::{JsonObject, Tool};
///
/// let mut pins = Pins::new();
/// let tool = Tool::new("read", JsonObject::new());
/// pins.accept("files", &tool, SystemTime::now());
/// let review = pins.review("files", [&tool.with_title("Read")], PinRules::new(), SystemTime::now());
/// let PinState::Changed(changes) = &review.tools[0].state else { panic!("the tool changed") };
/// assert_eq!(changes[0].kind, ChangeKind::Added);
/// assert_eq!(changes[0].to_string(), "`/title` is new: \"Read\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The JSON pointer of the member in the definition.
    pub pointer: String,
    /// The kind.
    pub kind: ChangeKind,
    /// The start of the pinned value as JSON; empty for a new member.
    pub before: String,
    /// The start of the new value as JSON; empty for a removed member.
    pub after: String,
}

/// The kind of a [`Change`].
///
/// ```
/// assert_ne!(mcp_agent::pins::ChangeKind::Added, mcp_agent::pins::ChangeKind::Removed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The member is new.
    Added,
    /// The member is missing now.
    Removed,
    /// The value is another one.
    Replaced,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = Printable::new(&self.pointer);
        let (before, after) = (Printable::new(&self.before), Printable::new(&self.after));
        match self.kind {
            ChangeKind::Added => write!(f, "`{pointer}` is new: {after}"),
            ChangeKind::Removed => write!(f, "`{pointer}` is missing now: {before}"),
            ChangeKind::Replaced => write!(f, "`{pointer}` was {before} and is {after}"),
        }
    }
}

/// Returns the differences, up to a limit.
pub(super) fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(before, after, "", &mut changes);
    changes
}

fn compare(before: &Value, after: &Value, pointer: &str, changes: &mut Vec<Change>) {
    if before == after || changes.len() >= CHANGES {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_members(before, after, pointer, changes),
        _ => changes.push(Change {
            pointer: pointer.to_owned(),
            kind: ChangeKind::Replaced,
            before: shown(before),
            after: shown(after),
        }),
    }
}

fn compare_members(before: &Map<String, Value>, after: &Map<String, Value>, pointer: &str, changes: &mut Vec<Change>) {
    let below = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, old) in before {
        match after.get(key) {
            Some(new) => compare(old, new, &below(key), changes),
            None if changes.len() < CHANGES => changes.push(Change {
                pointer: below(key),
                kind: ChangeKind::Removed,
                before: shown(old),
                after: String::new(),
            }),
            None => return,
        }
    }
    let added = after.iter().filter(|(key, _)| !before.contains_key(*key));
    let room = CHANGES.saturating_sub(changes.len());
    changes.extend(added.take(room).map(|(key, new)| Change {
        pointer: below(key),
        kind: ChangeKind::Added,
        before: String::new(),
        after: shown(new),
    }));
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
