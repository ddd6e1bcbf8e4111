//! The limits of all strict tools of a request.

use serde_json::{Map, Value};

use crate::StrictBudget;

/// The counts of the strict tools so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Used {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Used {
    /// Adds a strict tool. Without room for it, the counts stay and the error is a sentence.
    pub(crate) fn add(&mut self, schema: &Map<String, Value>, budget: Option<StrictBudget>) -> Result<(), String> {
        let Some(budget) = budget else { return Ok(()) };
        let mut sum = Self { tools: self.tools + 1, ..*self };
        sum.count(schema);
        let StrictBudget { tools, optional, unions } = budget;
        if sum.tools > tools || sum.optional > optional || sum.unions > unions {
            return Err(format!(
                "the strict tools of a request have at most {tools} tools, {optional} optional properties and {unions} unions"
            ));
        }
        *self = sum;
        Ok(())
    }

    /// Counts the optional properties and the unions of a schema that passed the check, so its depth is bounded.
    fn count(&mut self, schema: &Map<String, Value>) {
        let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        if let Some(Value::Object(properties)) = schema.get("properties") {
            self.optional += properties.len().saturating_sub(required);
            properties.values().filter_map(Value::as_object).for_each(|schema| self.count(schema));
        }
        if let Some(Value::Array(branches)) = schema.get("anyOf") {
            self.unions += 1;
            branches.iter().filter_map(Value::as_object).for_each(|schema| self.count(schema));
        }
        if let Some(Value::Object(items)) = schema.get("items") {
            self.count(items);
        }
    }
}
