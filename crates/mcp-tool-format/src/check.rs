//! The comparison of rendered definitions with the rules of a provider.

mod keyword;

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value};

use crate::{
    Provider, Rules,
    rules::NullForm,
    schema::{Types, scalar_types},
    shape::parts,
    strict::Used,
    text,
};

/// A rule that a rendered definition breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The name of the tool in the request. Empty: the list of tools.
    pub tool: String,
    /// The JSON pointer of the schema in the definition.
    pub pointer: String,
    /// A sentence about the rule.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.tool, self.pointer, self.message)
    }
}

impl Rules {
    /// Compares the tools of a request with the rules: the value of the member `tools`, or `toolConfig` for Bedrock.
    ///
    /// ```
    /// use mcp_tool_format::{Provider, Rules};
    /// use serde_json::json;
    ///
    /// let tools = json!([{ "name": "a.b", "input_schema": { "type": "object" } }]);
    /// let violations = Rules::of(Provider::Anthropic).check(&tools);
    /// assert_eq!(violations[0].to_string(), "a.b: the name is not accepted");
    /// ```
    #[must_use]
    pub fn check(&self, tools: &Value) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut add = |tool: &str, pointer: &str, message: &str| {
            found.push(Violation { tool: tool.to_owned(), pointer: pointer.to_owned(), message: message.to_owned() });
        };
        let list = parts(self.provider, tools);
        if list.is_empty() && !tools.is_null() {
            add("", "", "the list has no tool");
        }
        if self.max_tools.is_some_and(|max| list.len() > max) {
            add("", "", "the list has too many tools");
        }
        let (mut names, mut used) = (HashSet::new(), Used::default());
        for (name, description, schema, body) in list {
            if !self.name.accepts(name) {
                add(name, "", "the name is not accepted");
            }
            if !names.insert(name) {
                add(name, "", "two tools have this name");
            }
            match description.map(Value::as_str) {
                None => {}
                Some(None | Some("")) => add(name, "/description", "the description is not a text with characters"),
                Some(Some(text)) if self.max_description.is_some_and(|max| text.chars().count() > max) => {
                    add(name, "/description", "the description is too long");
                }
                Some(Some(_)) => {}
            }
            if body.get("defer_loading").is_some() && body.get("cache_control").is_some() {
                add(name, "", "`defer_loading` and `cache_control` exclude each other");
            }
            let rules = if body.get("strict") == Some(&Value::Bool(true)) {
                Self::strict(self.provider).unwrap_or(self)
            } else {
                self
            };
            match schema {
                Some(Value::Object(root)) => {
                    for (pointer, message) in self::schema(rules, root) {
                        add(name, &pointer, &message);
                    }
                    if let Err(message) = used.add(root, rules.strict_budget) {
                        add(name, "", &message);
                    }
                }
                None if self.provider == Provider::Gemini => {}
                _ => add(name, "", "the schema is not an object"),
            }
        }
        found
    }
}

/// The most violations that are collected.
const MAX_FOUND: usize = 20;
/// The greatest depth that is walked.
const MAX_DEPTH: usize = 200;

/// Compares a rendered input schema with the rules. Each item is a JSON pointer and a sentence.
pub(crate) fn schema(rules: &Rules, root: &Map<String, Value>) -> Vec<(String, String)> {
    let mut check = Check { rules, found: Vec::new(), pointer: String::new(), properties: 0, values: 0, text: 0 };
    if root.get("type") != Some(&Value::String("object".to_owned())) {
        check.add("the type of the root is not `object`");
    }
    for keyword in ["anyOf", "enum"] {
        if root.contains_key(keyword) {
            check.add(format!("the root has `{keyword}`"));
        }
    }
    check.schema(root, 0, 1);
    let Check { properties, values, text, .. } = check;
    for (limit, count, message) in [
        (rules.max_properties, properties, "the schema has too many properties"),
        (rules.max_enum_values, values, "the schema has too many enum values"),
        (rules.max_text, text, "the keys and enum values of the schema are too long"),
    ] {
        if limit.is_some_and(|limit| count > limit) {
            check.pointer.clear();
            check.add(message);
        }
    }
    check.found
}

struct Check<'a> {
    rules: &'a Rules,
    found: Vec<(String, String)>,
    pointer: String,
    properties: usize,
    values: usize,
    text: usize,
}

impl Check<'_> {
    fn add(&mut self, message: impl Into<String>) {
        if self.found.len() < MAX_FOUND {
            self.found.push((self.pointer.clone(), message.into()));
        }
    }

    fn require(&mut self, holds: bool, message: &str) {
        if !holds {
            self.add(message);
        }
    }

    fn below(&mut self, steps: &[&str], schema: &Value, depth: usize, level: usize) {
        let length = self.pointer.len();
        for step in steps {
            text::push_step(&mut self.pointer, step);
        }
        match schema {
            Value::Object(members) if depth < MAX_DEPTH => self.schema(members, depth + 1, level),
            Value::Object(_) => self.add("the schema is too deep"),
            _ => self.add("a schema is not an object"),
        }
        self.pointer.truncate(length);
    }

    fn schema(&mut self, schema: &Map<String, Value>, depth: usize, level: usize) {
        let types = self.types(schema);
        let typed = schema.contains_key("type");
        let rules = self.rules;
        self.require(!rules.type_required || typed || schema.contains_key("anyOf"), "the schema has no type");
        let nests = types.has(Types::OBJECT) || types.has(Types::ARRAY);
        self.require(rules.max_depth.is_none_or(|max| !nests || level <= max), "the schema is too deep");
        for (keyword, value) in schema {
            if !rules.has(keyword) {
                self.add(format!("the keyword `{keyword}` is not accepted"));
            }
            if let Some(own) = scalar_types(keyword) {
                self.require(!typed || types.has(own), "a keyword does not apply to the type");
            }
            self.keyword(keyword, value, depth, level);
        }
        if typed && types.has(Types::OBJECT) {
            self.object(schema);
        }
        if types.has(Types::ARRAY) {
            self.require(!rules.items_required || schema.contains_key("items"), "an array has no `items`");
        } else {
            self.require(!typed || !schema.contains_key("items"), "`items` is not in an array");
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let null = schema.get("type").and_then(Value::as_array).is_some_and(|names| names.contains(&"null".into()));
            let fits = |value: &Value| types.has(Types::of(value)) || (null && value.is_null());
            self.require(!typed || values.iter().all(fits), "a value of `enum` does not have the type");
        }
        if rules.union_alone && schema.contains_key("anyOf") {
            self.require(schema.len() == 1, "`anyOf` is not alone");
        }
    }

    /// Checks `type` and returns the types without `null`.
    fn types(&mut self, schema: &Map<String, Value>) -> Types {
        let names: Vec<&Value> = match schema.get("type") {
            None => return Types::NONE,
            Some(Value::Array(names)) => {
                let distinct: HashSet<String> = names.iter().map(Value::to_string).collect();
                self.require(self.rules.type_lists, "`type` is a list");
                self.require(
                    names.len() > 1 && distinct.len() == names.len(),
                    "`type` is not a list of two types or more",
                );
                names.iter().collect()
            }
            Some(name) => vec![name],
        };
        let mut types = Types::NONE;
        for name in names {
            match name.as_str() {
                Some("null") => self.require(self.rules.null != NullForm::Nullable, "the type `null` is not accepted"),
                Some(name) if !Types::named(name).is_empty() => types = types.with(Types::named(name)),
                _ => self.add("a type is unknown"),
            }
        }
        types
    }

    fn object(&mut self, schema: &Map<String, Value>) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut required = HashSet::new();
        match schema.get("required") {
            None => {}
            Some(Value::Array(names)) => {
                for name in names {
                    let known = name.as_str().filter(|name| properties.is_some_and(|all| all.contains_key(*name)));
                    match known {
                        Some(name) => self.require(required.insert(name), "`required` names a property twice"),
                        None => self.add("`required` names a property that is not defined"),
                    }
                }
            }
            Some(_) => self.add("`required` is not a list"),
        }
        if self.rules.closed {
            self.require(schema.get("additionalProperties") == Some(&Value::Bool(false)), "an object is not closed");
        }
        if self.rules.all_required {
            let all = properties.map_or(0, Map::len);
            self.require(required.len() == all, "a property is not required");
        }
    }
}
