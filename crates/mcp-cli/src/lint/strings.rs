//! Characters that a person cannot see and a model reads.

use std::collections::BTreeSet;

use serde_json::Value;

/// The number of different characters that a finding names at most.
const MAX_SHOWN: usize = 5;

/// Returns the invisible characters in all texts of a definition, for example `U+202E, U+200B`; `None` without any.
pub(super) fn invisible(definition: &Value) -> Option<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![definition];
    while let Some(value) = next.pop() {
        match value {
            Value::String(text) => found.extend(text.chars().filter(|c| is_invisible(*c))),
            Value::Array(items) => next.extend(items),
            Value::Object(members) => {
                for (name, value) in members {
                    found.extend(name.chars().filter(|c| is_invisible(*c)));
                    next.push(value);
                }
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return None;
    }
    let shown: Vec<String> = found.iter().take(MAX_SHOWN).map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    let more = if found.len() > MAX_SHOWN { ", …" } else { "" };
    Some(format!("{}{more}", shown.join(", ")))
}

/// Returns whether a character has no glyph, or changes the order of the text. Line breaks, tabs and the joiners of scripts
/// and emoji are usual in text.
fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\r' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => true,
        // Embeddings, overrides, isolates and invisible operators.
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Interlinear annotations, tags, and the variation selectors that can carry hidden bytes.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => true,
        c => c.is_control(),
    }
}
