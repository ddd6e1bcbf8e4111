//! The checks of single keywords.

use std::collections::HashSet;

use serde_json::Value;

use super::Check;

impl Check<'_> {
    pub(super) fn keyword(&mut self, keyword: &str, value: &Value, depth: usize, level: usize) {
        let rules = self.rules;
        match keyword {
            "properties" => {
                let Some(properties) = value.as_object() else { return self.add("`properties` is not an object") };
                self.require(rules.empty_properties || !properties.is_empty(), "`properties` is empty");
                for (key, schema) in properties {
                    self.properties += 1;
                    self.text += key.chars().count();
                    if rules.key.is_some_and(|rule| !rule.accepts(key)) {
                        self.add(format!("the key {key} is not accepted"));
                    }
                    self.below(&["properties", key], schema, depth, level + 1);
                }
            }
            "anyOf" => match value.as_array() {
                Some(branches) if !branches.is_empty() => {
                    if rules.distinct_first_keys {
                        let first = |branch: &Value| branch.get("properties")?.as_object()?.keys().next().cloned();
                        let firsts: Vec<String> = branches.iter().filter_map(first).collect();
                        let distinct: HashSet<&String> = firsts.iter().collect();
                        self.require(distinct.len() == firsts.len(), "two objects of `anyOf` begin with the same key");
                    }
                    for (index, branch) in branches.iter().enumerate() {
                        self.below(&["anyOf", &index.to_string()], branch, depth, level);
                    }
                }
                _ => self.add("`anyOf` has no branches"),
            },
            "items" => self.below(&["items"], value, depth, level + 1),
            "additionalProperties" if value.is_object() => {
                self.require(!rules.closed, "an object accepts further properties");
                self.below(&["additionalProperties"], value, depth, level + 1);
            }
            "additionalProperties" => self.require(value.is_boolean(), "`additionalProperties` is not a schema"),
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() => {
                    self.values += values.len();
                    let text: usize =
                        values.iter().map(|value| value.as_str().map_or(0, |text| text.chars().count())).sum();
                    self.text += text;
                    let large = values.len() > 250 && rules.max_large_enum.is_some_and(|max| text > max);
                    self.require(!large, "the values of a large `enum` are too long");
                    let texts = values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()));
                    self.require(!rules.text_enums || texts, "`enum` has values that are not texts with characters");
                }
                _ => self.add("`enum` has no values"),
            },
            "pattern" => {
                self.require(
                    value.as_str().is_some_and(|text| rules.patterns.accepts(text)),
                    "the pattern is not accepted",
                );
            }
            "format" => {
                self.require(
                    value.as_str().is_some_and(|text| rules.formats.accepts(text)),
                    "the format is not accepted",
                );
            }
            "minItems" => self.require(
                value.as_u64().is_some_and(|count| rules.max_min_items.is_none_or(|max| count <= max)),
                "the value of `minItems` is not accepted",
            ),
            "title" | "description" => self.require(value.is_string(), "a text is not a text"),
            "nullable" | "uniqueItems" => self.require(value.is_boolean(), "a flag is not a boolean"),
            "minLength" | "maxLength" | "maxItems" | "minProperties" | "maxProperties" => {
                self.require(value.is_u64(), "a count is not an integer");
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                self.require(value.is_number(), "a bound is not a number");
            }
            _ => {}
        }
    }
}
