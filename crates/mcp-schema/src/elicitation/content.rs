//! The answer to a form.

use std::{borrow::Cow, sync::LazyLock};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Number, Value, json};

use super::field::{Choice, Field, FieldKind, TextFormat};
use crate::{
    keywords::push_token,
    text::{list, plural, quote, quote_str},
    validation::{ValidationError, ValidationErrorKind as Kind, ValidationErrors},
};

pub(crate) fn accept(fields: &[Field], content: &Value) -> Result<Value, ValidationErrors> {
    let Value::Object(content) = content else {
        let message = format!("expected an object with the fields of the form, got {}", quote(content));
        return Err(ValidationErrors::one(ValidationError::new(Kind::Type, "", &message)));
    };
    let mut errors = ValidationErrors::none();
    let mut accepted = Map::new();
    for field in fields {
        // A client that clears a field may send `null`, although the answer has no such values.
        match content.get(&field.name).filter(|value| !value.is_null()) {
            None if field.required => errors.push(|| {
                let message = format!("the required field {} is missing", quote_str(&field.name));
                ValidationError::new(Kind::Required, "", &message)
            }),
            None => {}
            Some(value) => match check(field, value) {
                Ok(value) => {
                    accepted.insert(field.name.clone(), value);
                }
                Err((kind, message)) => errors.push(|| {
                    let mut pointer = String::new();
                    push_token(&mut pointer, &field.name);
                    ValidationError::new(kind, pointer, &message)
                }),
            },
        }
    }
    errors.into_result()?;
    Ok(Value::Object(accepted))
}

/// The value of one field, in its normal form, or what is wrong with it.
pub(crate) fn check(field: &Field, value: &Value) -> Result<Value, (Kind, String)> {
    let wrong_type = |expected: &str| (Kind::Type, format!("expected {expected}, got {}", quote(value)));
    match &field.kind {
        FieldKind::Text { min_length, max_length, format, .. } => {
            let text = value.as_str().ok_or_else(|| wrong_type("a string"))?;
            size(text.chars().count(), *min_length, *max_length, "character")?;
            match format {
                Some(format) if !has_format(*format, value) => {
                    Err((Kind::Format, format!("must be a valid {}, got {}", format.as_str(), quote(value))))
                }
                _ => Ok(value.clone()),
            }
        }
        FieldKind::Number { integer, minimum, maximum, .. } => {
            let expected = if *integer { "an integer" } else { "a number" };
            let number = value.as_number().ok_or_else(|| wrong_type(expected))?;
            let number = match integer {
                true => whole(number).ok_or_else(|| wrong_type(expected))?,
                false => number.clone(),
            };
            if let Some(minimum) = minimum.as_ref().filter(|minimum| less(&number, minimum)) {
                return Err((Kind::Range, format!("must be at least {minimum}, got {number}")));
            }
            if let Some(maximum) = maximum.as_ref().filter(|maximum| less(maximum, &number)) {
                return Err((Kind::Range, format!("must be at most {maximum}, got {number}")));
            }
            Ok(Value::Number(number))
        }
        FieldKind::Boolean { .. } => value.is_boolean().then(|| value.clone()).ok_or_else(|| wrong_type("a boolean")),
        FieldKind::Choice { options, .. } => chosen(options, value).map(|()| value.clone()),
        FieldKind::MultiChoice { options, min_items, max_items, .. } => {
            let items = value.as_array().ok_or_else(|| wrong_type("a list of choices"))?;
            size(items.len(), *min_items, *max_items, "choice")?;
            items.iter().try_for_each(|item| chosen(options, item))?;
            Ok(value.clone())
        }
    }
}

/// A number without a fraction as an integer.
pub(crate) fn whole(number: &Number) -> Option<Number> {
    if number.is_i64() || number.is_u64() {
        return Some(number.clone());
    }
    // From 2^53 on a float does not identify an integer.
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
    number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0).map(|f| Number::from(f as i64))
}

fn chosen(options: &[Choice], value: &Value) -> Result<(), (Kind, String)> {
    if value.as_str().is_some_and(|value| options.iter().any(|option| option.value == value)) {
        return Ok(());
    }
    let options = list(options.iter().map(|option| Cow::Owned(quote_str(&option.value))));
    Err((Kind::Value, format!("expected one of {options}, got {}", quote(value))))
}

fn size(count: usize, min: Option<u64>, max: Option<u64>, noun: &str) -> Result<(), (Kind, String)> {
    let count = count as u64;
    match (min, max) {
        (Some(min), _) if count < min => {
            Err((Kind::Size, format!("must have at least {}, got {count}", plural(min, noun))))
        }
        (_, Some(max)) if count > max => {
            Err((Kind::Size, format!("must have at most {}, got {count}", plural(max, noun))))
        }
        _ => Ok(()),
    }
}

fn less(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a < b,
        _ => a.as_f64() < b.as_f64(),
    }
}

fn has_format(format: TextFormat, value: &Value) -> bool {
    static FORMATS: LazyLock<[Option<Validator>; 4]> = LazyLock::new(|| {
        [TextFormat::Email, TextFormat::Uri, TextFormat::Date, TextFormat::DateTime].map(|format| {
            // In this draft `format` asserts.
            jsonschema::options().with_draft(Draft::Draft7).build(&json!({"format": format.as_str()})).ok()
        })
    });
    let index = match format {
        TextFormat::Email => 0,
        TextFormat::Uri => 1,
        TextFormat::Date => 2,
        TextFormat::DateTime => 3,
    };
    FORMATS[index].as_ref().is_none_or(|validator| validator.is_valid(value))
}
