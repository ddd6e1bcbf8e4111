//! The normal form of a schema.

use serde_json::Value;

use super::scalar::Scalar;
use crate::text;

/// The most notes of one schema.
const MAX_NOTES: usize = 64;

/// A set of JSON types without `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const BOOLEAN: Self = Self(1);
    pub(crate) const INTEGER: Self = Self(2);
    /// Every number. It includes the integers.
    pub(crate) const NUMBER: Self = Self(2 | 4);
    pub(crate) const STRING: Self = Self(8);
    pub(crate) const ARRAY: Self = Self(16);
    pub(crate) const OBJECT: Self = Self(32);
    pub(crate) const ALL: Self = Self(63);

    /// Returns the set of one type name. `null` and unknown names have none.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    /// Returns the type of a value.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NONE,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        other != Self::NONE && self.0 & other.0 == other.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the type names, in a fixed order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let number = if self.has(Self::NUMBER) { "number" } else { "integer" };
        [
            (Self::STRING, "string"),
            (Self::INTEGER, number),
            (Self::BOOLEAN, "boolean"),
            (Self::OBJECT, "object"),
            (Self::ARRAY, "array"),
        ]
        .into_iter()
        .filter(move |(kind, _)| self.has(*kind))
        .map(|(_, name)| name)
    }
}

/// A schema in the normal form.
///
/// A union has branches and no assertions of its own: the assertions beside `anyOf` and `oneOf` are part of each branch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// Rules that the normal form cannot express. They are a part of the description.
    pub(crate) notes: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) examples: Option<Value>,
    /// The branches of a union.
    pub(crate) branches: Vec<Node>,
    /// Whether the schema accepts `null`.
    pub(crate) null: bool,
    /// The other types that the schema accepts; unused in a union.
    pub(crate) types: Types,
    /// The accepted values, without `null`.
    pub(crate) values: Option<Vec<Value>>,
    /// Keywords with a number, a text or a flag.
    pub(crate) scalars: Vec<(Scalar, Value)>,
    pub(crate) properties: Vec<Property>,
    pub(crate) extra: Extra,
    pub(crate) items: Option<Box<Node>>,
    /// The first items of an array (`prefixItems`).
    pub(crate) prefix: Vec<Node>,
}

/// A named property of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Property {
    pub(crate) key: String,
    pub(crate) node: Node,
    pub(crate) required: bool,
}

/// The properties of an object beside the named ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Extra {
    /// The schema does not mention them, and so accepts them.
    Unstated,
    /// Every property.
    Any,
    /// None.
    Closed,
    /// Properties of this schema.
    Schema(Box<Node>),
}

impl Node {
    /// Returns the schema that accepts every value.
    pub(crate) fn any() -> Self {
        Self {
            title: None,
            description: None,
            notes: Vec::new(),
            default: None,
            examples: None,
            branches: Vec::new(),
            null: true,
            types: Types::ALL,
            values: None,
            scalars: Vec::new(),
            properties: Vec::new(),
            extra: Extra::Unstated,
            items: None,
            prefix: Vec::new(),
        }
    }

    /// Returns the schema of some types.
    pub(crate) fn of(types: Types) -> Self {
        Self { null: false, types, ..Self::any() }
    }

    pub(crate) fn is_union(&self) -> bool {
        !self.branches.is_empty()
    }

    /// Whether the schema has assertions beside its types.
    pub(crate) fn has_assertions(&self) -> bool {
        self.values.is_some()
            || !self.scalars.is_empty()
            || !self.properties.is_empty()
            || !matches!(self.extra, Extra::Unstated)
            || self.items.is_some()
            || !self.prefix.is_empty()
            || self.is_union()
    }

    /// Whether the schema accepts every value.
    pub(crate) fn is_any(&self) -> bool {
        self.types == Types::ALL && !self.has_assertions()
    }

    /// Whether every value that the schema accepts is an object (or `null`).
    pub(crate) fn is_object(&self) -> bool {
        if self.is_union() {
            return self.branches.iter().all(Self::is_object);
        }
        self.types == Types::OBJECT
    }

    /// Returns the number of schemas in this schema. Eight values of `enum` count as one.
    pub(crate) fn size(&self) -> usize {
        let items = self.items.iter().map(|node| node.size());
        let parts = self.branches.iter().chain(&self.prefix).map(Self::size);
        let properties = self.properties.iter().map(|property| property.node.size());
        let extra = if let Extra::Schema(node) = &self.extra { node.size() } else { 0 };
        let values = self.values.as_ref().map_or(0, |values| values.len() / 8);
        1 + values + extra + items.chain(parts).chain(properties).sum::<usize>()
    }

    /// Returns the cost of a copy: 1 for each schema below this one, and 1 for each 64 bytes of text in all of them.
    pub(crate) fn weight(&self) -> usize {
        self.size() - 1 + self.text() / 64
    }

    /// Returns the bytes of all keys, texts and values.
    fn text(&self) -> usize {
        let words = self.title.iter().chain(&self.description).chain(&self.notes).map(String::len);
        let values = self.default.iter().chain(&self.examples).chain(self.values.iter().flatten());
        let values = values.chain(self.scalars.iter().map(|(_, value)| value)).map(text::size);
        let properties = self.properties.iter().map(|property| property.key.len() + property.node.text());
        let nodes = self.branches.iter().chain(&self.prefix).chain(self.items.as_deref()).map(Self::text);
        let extra = if let Extra::Schema(node) = &self.extra { node.text() } else { 0 };
        extra + words.chain(values).chain(properties).chain(nodes).sum::<usize>()
    }

    /// Adds a note, unless it is present. The number of notes is bounded.
    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            let last = self.notes.len() + 1 == MAX_NOTES;
            self.notes.push(if last { "…".to_owned() } else { note });
        }
    }
}
