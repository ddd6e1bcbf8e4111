//! Characters without a visible form, in the texts of tools: they can hide instructions from people.

use std::{borrow::Cow, fmt};

use mcp_protocol::Tool;
use serde_json::Value;

/// The deepest member of a schema that is read.
const DEPTH: usize = 64;
/// The keywords whose value is a map from names to schemas.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The class of a character without a visible form.
///
/// ```
/// use mcp_agent::characters::CharacterClass;
///
/// assert_eq!(CharacterClass::of('\u{200b}'), Some(CharacterClass::ZeroWidth));
/// assert_eq!(CharacterClass::of('\u{e0041}'), Some(CharacterClass::Tag));
/// assert_eq!(CharacterClass::of('\n'), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CharacterClass {
    /// Control characters (C0, C1 and U+007F), except for the line feed and the tab.
    Control,
    /// Characters without a width: U+200B to U+200D, U+2060 to U+2065, U+FEFF.
    ZeroWidth,
    /// Marks, embeddings, overrides and isolates of the writing direction: U+200E, U+200F, U+202A to U+202E, U+2066 to
    /// U+2069.
    Bidirectional,
    /// Hyphens, separators and fillers that fonts do not show: U+00AD, U+180E, U+115F, U+1160, U+3164, U+FFA0.
    Filler,
    /// Variation selectors: U+FE00 to U+FE0F, U+E0100 to U+E01EF. Emoji contain U+FE0F.
    VariationSelector,
    /// Tag characters, which repeat ASCII without a visible form: U+E0000 to U+E007F.
    Tag,
}

impl CharacterClass {
    /// Returns the class of a character, or `None` for characters with a visible form.
    #[must_use]
    pub fn of(c: char) -> Option<Self> {
        Some(match c {
            '\n' | '\t' | ' '..='~' => return None,
            '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{feff}' => Self::ZeroWidth,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Self::Bidirectional,
            '\u{ad}' | '\u{180e}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => Self::Filler,
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Self::VariationSelector,
            '\u{e0000}'..='\u{e007f}' => Self::Tag,
            _ if c.is_control() => Self::Control,
            _ => return None,
        })
    }
}

impl fmt::Display for CharacterClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control characters",
            Self::ZeroWidth => "zero-width characters",
            Self::Bidirectional => "bidirectional characters",
            Self::Filler => "invisible fillers",
            Self::VariationSelector => "variation selectors",
            Self::Tag => "tag characters",
        })
    }
}

/// Characters of one class in one text of a tool.
///
/// ```
/// use mcp_agent::characters::flags;
/// use mcp_protocol::{JsonObject, Tool};
///
/// let tool = Tool::new("read", JsonObject::new()).with_description("Reads.\u{e0069}\u{e0067}");
/// assert_eq!(flags(&tool)[0].to_string(), "`/description` has 2 tag characters");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CharacterFlag {
    /// The JSON pointer of the text in the tool. A pointer to an object stands for the keys of the object.
    pub pointer: String,
    /// The class.
    pub class: CharacterClass,
    /// The number of characters.
    pub count: usize,
}

impl fmt::Display for CharacterFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pointer contains keys, and so the flagged characters.
        write!(f, "`{}` has {} {}", self.pointer.escape_debug(), self.count, self.class)
    }
}

/// Returns the characters without a visible form in the name, the title, the description, the schemas and the title of the
/// annotations of a tool. A schema below 64 levels is not read.
#[must_use]
pub fn flags(tool: &Tool) -> Vec<CharacterFlag> {
    let mut flags = Vec::new();
    let annotated = tool.annotations.as_ref().and_then(|annotations| annotations.title.as_ref());
    for (pointer, text) in [
        ("/name", Some(&tool.name)),
        ("/title", tool.title.as_ref()),
        ("/description", tool.description.as_ref()),
        ("/annotations/title", annotated),
    ] {
        text.into_iter().for_each(|text| find(text, pointer, &mut flags));
    }
    for (key, value) in &*tool.input_schema {
        find(key, "/inputSchema", &mut flags);
        walk(value, &format!("/inputSchema/{}", escape(key)), 1, &mut flags);
    }
    if let Some(schema) = &tool.output_schema {
        walk(schema, "/outputSchema", 1, &mut flags);
    }
    flags
}

/// Removes the characters without a visible form from a text.
///
/// ```
/// assert_eq!(mcp_agent::characters::strip("a\u{200b}b\tc"), "ab\tc");
/// ```
#[must_use]
pub fn strip(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| CharacterClass::of(c).is_none()) {
        return text.into();
    }
    text.chars().filter(|c| CharacterClass::of(*c).is_none()).collect::<String>().into()
}

/// Removes the characters without a visible form from the texts of a tool for people and models: titles and descriptions, in
/// schemas too. Returns whether the tool changed.
///
/// Names, keys and values of schemas stay, because the server expects them in calls.
///
/// ```
/// use mcp_agent::characters::strip_tool;
/// use mcp_protocol::{JsonObject, Tool};
///
/// let mut tool = Tool::new("read", JsonObject::new()).with_description("Reads\u{202e}.");
/// assert!(strip_tool(&mut tool));
/// assert_eq!(tool.description.as_deref(), Some("Reads."));
/// assert!(!strip_tool(&mut tool));
/// ```
pub fn strip_tool(tool: &mut Tool) -> bool {
    let annotated = tool.annotations.as_mut().and_then(|annotations| annotations.title.as_mut());
    let mut changed = false;
    for text in [tool.title.as_mut(), tool.description.as_mut(), annotated].into_iter().flatten() {
        changed |= strip_in_place(text);
    }
    for (key, value) in tool.input_schema.iter_mut() {
        changed |= strip_member(key, value, 1, false);
    }
    if let Some(schema) = &mut tool.output_schema {
        changed |= strip_schema(schema, 1, false);
    }
    changed
}

fn strip_in_place(text: &mut String) -> bool {
    let Cow::Owned(stripped) = strip(text) else { return false };
    *text = stripped;
    true
}

/// Changes a member of a schema, or of a map from names to schemas.
fn strip_member(key: &str, value: &mut Value, depth: usize, is_map: bool) -> bool {
    match value {
        Value::String(text) if matches!(key, "title" | "description" | "$comment") => strip_in_place(text),
        // The values of these keywords are data of calls. In a map they are names of properties.
        _ if !is_map && matches!(key, "enum" | "const" | "default" | "examples") => false,
        _ => strip_schema(value, depth + 1, !is_map && MAPS.contains(&key)),
    }
}

fn strip_schema(value: &mut Value, depth: usize, is_map: bool) -> bool {
    if depth > DEPTH {
        return false;
    }
    let mut changed = false;
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                changed |= strip_member(key, member, depth, is_map);
            }
        }
        Value::Array(items) => {
            for item in items {
                changed |= strip_schema(item, depth + 1, false);
            }
        }
        _ => {}
    }
    changed
}

fn walk(value: &Value, pointer: &str, depth: usize, flags: &mut Vec<CharacterFlag>) {
    if depth > DEPTH {
        return;
    }
    match value {
        Value::String(text) => find(text, pointer, flags),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{pointer}/{index}"), depth + 1, flags);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                find(key, pointer, flags);
                walk(member, &format!("{pointer}/{}", escape(key)), depth + 1, flags);
            }
        }
        _ => {}
    }
}

fn find(text: &str, pointer: &str, flags: &mut Vec<CharacterFlag>) {
    let start = flags.len();
    for class in text.chars().filter_map(CharacterClass::of) {
        match flags[start..].iter_mut().find(|flag| flag.class == class) {
            Some(flag) => flag.count += 1,
            None => flags.push(CharacterFlag { pointer: pointer.to_owned(), class, count: 1 }),
        }
    }
}

/// Escapes a key for a JSON pointer (RFC 6901 §3).
fn escape(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1").into() } else { key.into() }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{JsonObject, ToolAnnotations};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_class_has_its_characters() {
        use CharacterClass as Class;
        for (class, characters) in [
            (Class::Control, "\0\u{1}\u{8}\u{b}\r\u{1b}\u{7f}\u{80}\u{9f}"),
            (Class::ZeroWidth, "\u{200b}\u{200c}\u{200d}\u{2060}\u{2064}\u{2065}\u{feff}"),
            (Class::Bidirectional, "\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}"),
            (Class::Filler, "\u{ad}\u{180e}\u{115f}\u{1160}\u{3164}\u{ffa0}"),
            (Class::VariationSelector, "\u{fe00}\u{fe0f}\u{e0100}\u{e01ef}"),
            (Class::Tag, "\u{e0000}\u{e0041}\u{e007f}"),
        ] {
            for c in characters.chars() {
                assert_eq!(CharacterClass::of(c), Some(class), "{c:?}");
            }
        }
        for c in "\n\t ~aé日本😀\u{a0}\u{2010}\u{206a}\u{e0080}".chars().filter(|c| *c != '\u{206a}') {
            assert_eq!(CharacterClass::of(c), None, "{c:?}");
        }
    }

    #[test]
    fn flags_name_each_text_of_a_tool() {
        let schema = json!({
            "type": "object",
            "properties": { "a/b": { "description": "x\u{200b}\u{200b}\u{202e}", "enum": ["v\u{feff}"] }, "k\u{ad}": {},
                "default": { "description": "\u{7f}" } }
        });
        let mut tool = Tool::new("n\u{e0041}", JsonObject::from_value(schema).unwrap_or_default())
            .with_title("t\u{1b}")
            .with_description("fine\n")
            .with_output_schema(json!({ "title": "\u{fe0f}" }))
            .with_annotations(ToolAnnotations::new().with_title("\u{2066}"));
        let all: Vec<String> = flags(&tool).iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "`/name` has 1 tag characters",
                "`/title` has 1 control characters",
                "`/annotations/title` has 1 bidirectional characters",
                "`/inputSchema/properties/a~1b/description` has 2 zero-width characters",
                "`/inputSchema/properties/a~1b/description` has 1 bidirectional characters",
                "`/inputSchema/properties/a~1b/enum/0` has 1 zero-width characters",
                "`/inputSchema/properties` has 1 invisible fillers",
                "`/inputSchema/properties/default/description` has 1 control characters",
                "`/outputSchema/title` has 1 variation selectors",
            ]
        );
        assert!(strip_tool(&mut tool));
        let rest: Vec<String> = flags(&tool).iter().map(|flag| flag.pointer.clone()).collect();
        assert_eq!(rest, ["/name", "/inputSchema/properties/a~1b/enum/0", "/inputSchema/properties"]);
        assert_eq!(tool.input_schema["properties"]["a/b"]["description"], "x");
        assert!(!strip_tool(&mut tool));
    }
}
