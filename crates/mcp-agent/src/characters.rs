//! Characters without a visible form, in the texts of tools: they can hide instructions from people.

use std::{borrow::Cow, fmt};

use mcp_protocol::Tool;
use serde_json::Value;

/// The largest number of flags of a tool, and the longest pointer of a flag in characters.
const FLAGS: usize = 100;
const POINTER: usize = 300;
/// The deepest member of a schema that is read.
const DEPTH: usize = 64;
/// The keywords whose value is a map from names to schemas.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The treatment of invisible characters in the definitions that a host passes to a model.
///
/// ```
/// assert_eq!(mcp_agent::characters::Characters::default(), mcp_agent::characters::Characters::Strip);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Characters {
    /// The host reports them, and removes them from the titles and descriptions of the definitions for models.
    #[default]
    Strip,
    /// The host reports them, and models receive the texts of the server.
    Flag,
}

/// A text of a server for a terminal or a log: characters without a visible form are escaped.
///
/// ```
/// use mcp_agent::characters::Printable;
///
/// assert_eq!(Printable::new("a\u{1b}[31m\u{202e}\"b\"").to_string(), "a\\u{1b}[31m\\u{202e}\"b\"");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(&'a str);

impl<'a> Printable<'a> {
    /// Returns the printable form of a text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' | '\'' => write!(f, "{c}"),
            '\n' | '\t' => write!(f, "{}", c.escape_debug()),
            _ if CharacterClass::of(c).is_some() => write!(f, "{}", c.escape_unicode()),
            _ => write!(f, "{}", c.escape_debug()),
        })
    }
}

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
    /// Control characters (C0, C1 and U+007F), except for the line feed and the tab. Separators of lines and paragraphs:
    /// U+2028, U+2029.
    Control,
    /// Characters without a width: U+200B to U+200D, U+2060 to U+2065, U+FEFF.
    ZeroWidth,
    /// Marks, embeddings, overrides and isolates of the writing direction: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066
    /// to U+2069. Deprecated format characters: U+206A to U+206F.
    Bidirectional,
    /// Hyphens, joiners, separators and fillers that fonts do not show: U+00AD, U+034F, U+115F, U+1160, U+17B4, U+17B5, U+180E,
    /// U+3164, U+FFA0.
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
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
                Self::Bidirectional
            }
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{3164}'
            | '\u{ffa0}' => Self::Filler,
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Self::VariationSelector,
            '\u{e0000}'..='\u{e007f}' => Self::Tag,
            '\u{2028}' | '\u{2029}' => Self::Control,
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
    /// The JSON pointer of the text in the tool. A pointer to an object refers to the keys of the object.
    pub pointer: String,
    /// The class.
    pub class: CharacterClass,
    /// The number of characters.
    pub count: usize,
}

impl fmt::Display for CharacterFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pointer contains keys, and so the flagged characters.
        write!(f, "`{}` has {} {}", Printable(&self.pointer), self.count, self.class)
    }
}

/// Returns the characters without a visible form in the name, the title, the description, the schemas and the title of the
/// annotations of a tool. A schema below 64 levels is not read, and a tool has at most 100 flags.
#[must_use]
pub fn flags(tool: &Tool) -> Vec<CharacterFlag> {
    let mut flags = Vec::new();
    let annotated = tool.annotations.as_ref().and_then(|annotations| annotations.title.as_ref());
    for (name, text) in [
        ("name", Some(&tool.name)),
        ("title", tool.title.as_ref()),
        ("description", tool.description.as_ref()),
        ("annotations/title", annotated),
    ] {
        text.into_iter().for_each(|text| find(text, &Path { parent: None, part: Part::Fixed(name) }, &mut flags));
    }
    let input = Path { parent: None, part: Part::Fixed("inputSchema") };
    for (key, value) in &*tool.input_schema {
        find(key, &input, &mut flags);
        walk(value, &Path { parent: Some(&input), part: Part::Key(key) }, 1, &mut flags);
    }
    if let Some(schema) = &tool.output_schema {
        walk(schema, &Path { parent: None, part: Part::Fixed("outputSchema") }, 1, &mut flags);
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

fn walk(value: &Value, path: &Path<'_>, depth: usize, flags: &mut Vec<CharacterFlag>) {
    if depth > DEPTH || flags.len() >= FLAGS {
        return;
    }
    match value {
        Value::String(text) => find(text, path, flags),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &Path { parent: Some(path), part: Part::Index(index) }, depth + 1, flags);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                find(key, path, flags);
                walk(member, &Path { parent: Some(path), part: Part::Key(key) }, depth + 1, flags);
            }
        }
        _ => {}
    }
}

/// A JSON pointer (RFC 6901) that becomes a text only for a flag, because a hostile schema has long keys.
struct Path<'a> {
    parent: Option<&'a Self>,
    part: Part<'a>,
}

enum Part<'a> {
    Fixed(&'a str),
    Key(&'a str),
    Index(usize),
}

impl Path<'_> {
    fn text(&self) -> String {
        let mut text = self.parent.map(Path::text).unwrap_or_default();
        text.push('/');
        let left = POINTER.saturating_sub(text.len());
        match self.part {
            Part::Fixed(part) => text.push_str(part),
            Part::Index(index) => text.push_str(&index.to_string()),
            Part::Key(key) => key.chars().take(left).for_each(|c| match c {
                '~' => text.push_str("~0"),
                '/' => text.push_str("~1"),
                c => text.push(c),
            }),
        }
        text
    }
}

fn find(text: &str, path: &Path<'_>, flags: &mut Vec<CharacterFlag>) {
    let start = flags.len();
    for class in text.chars().filter_map(CharacterClass::of) {
        let is_full = flags.len() >= FLAGS;
        match flags[start..].iter_mut().find(|flag| flag.class == class) {
            Some(flag) => flag.count += 1,
            None if !is_full => flags.push(CharacterFlag { pointer: path.text(), class, count: 1 }),
            None => {}
        }
    }
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
            (Class::Control, "\0\u{1}\u{8}\u{b}\r\u{1b}\u{7f}\u{80}\u{9f}\u{2028}\u{2029}"),
            (Class::ZeroWidth, "\u{200b}\u{200c}\u{200d}\u{2060}\u{2064}\u{2065}\u{feff}"),
            (Class::Bidirectional, "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{206a}\u{206f}"),
            (Class::Filler, "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180e}\u{3164}\u{ffa0}"),
            (Class::VariationSelector, "\u{fe00}\u{fe0f}\u{e0100}\u{e01ef}"),
            (Class::Tag, "\u{e0000}\u{e0041}\u{e007f}"),
        ] {
            for c in characters.chars() {
                assert_eq!(CharacterClass::of(c), Some(class), "{c:?}");
            }
        }
        for c in "\n\t ~aé日本😀\u{a0}\u{2010}\u{2070}\u{e0080}".chars() {
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

    #[test]
    fn flags_of_a_hostile_schema_are_bounded() {
        let values = vec![json!("x\u{200b}"); 2_000];
        let schema = json!({ "type": "object", "k".repeat(100_000): { "enum": values } });
        let tool = Tool::new("t", JsonObject::from_value(schema).unwrap_or_default());
        let flags = flags(&tool);
        assert_eq!(flags.len(), FLAGS);
        assert!(flags.iter().all(|flag| flag.pointer.len() < 2 * POINTER));
    }

    #[test]
    fn texts_for_a_terminal_have_no_invisible_characters() {
        let hostile = "a\u{1b}]0;x\u{7}\u{202e}\u{3164}\u{e0041}\u{feff}\r\nä\"";
        let printed = Printable(hostile).to_string();
        assert!(printed.chars().all(|c| CharacterClass::of(c).is_none()) && !printed.contains('\n'), "{printed}");
        assert!(printed.ends_with("\\nä\""), "{printed}");
    }
}
