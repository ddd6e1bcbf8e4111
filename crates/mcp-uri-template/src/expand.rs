//! Expansion of templates (RFC 6570 §3).

use crate::{
    VarValue, Vars,
    parse::{Expression, Operator, Part},
    percent,
};

pub(crate) fn expand(parts: &[Part], vars: &Vars) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Literal { text, .. } => encode(&mut out, text, true),
            Part::Expression(expression) => expand_expression(&mut out, expression, vars),
        }
    }
    out
}

/// A row of the table in RFC 6570, appendix A.
struct Style {
    first: &'static str,
    separator: &'static str,
    named: bool,
    if_empty: &'static str,
    reserved: bool,
}

fn style(operator: Operator) -> Style {
    let (first, separator, named, if_empty, reserved) = match operator {
        Operator::Simple => ("", ",", false, "", false),
        Operator::Reserved => ("", ",", false, "", true),
        Operator::Fragment => ("#", ",", false, "", true),
        Operator::Label => (".", ".", false, "", false),
        Operator::Path => ("/", "/", false, "", false),
        Operator::Parameter => (";", ";", true, "", false),
        Operator::Query => ("?", "&", true, "=", false),
        Operator::Continuation => ("&", "&", true, "=", false),
    };
    Style { first, separator, named, if_empty, reserved }
}

fn expand_expression(out: &mut String, expression: &Expression, vars: &Vars) {
    let style = style(expression.operator);
    let mut lead = style.first;
    for variable in &expression.variables {
        let Some(value) = vars.value(&variable.name) else { continue };
        let items = match value {
            VarValue::Text(text) => std::slice::from_ref(text),
            VarValue::List(list) if list.is_empty() => continue,
            VarValue::List(list) => list,
        };
        out.push_str(lead);
        lead = style.separator;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push_str(if variable.explode { style.separator } else { "," });
            }
            if style.named && (index == 0 || variable.explode) {
                out.push_str(&variable.name);
                out.push_str(if item.is_empty() && (items.len() == 1 || variable.explode) {
                    style.if_empty
                } else {
                    "="
                });
            }
            let end =
                variable.prefix.and_then(|length| item.char_indices().nth(length)).map_or(item.len(), |(end, _)| end);
            encode(out, &item[..end], style.reserved);
        }
    }
}

/// Appends a text and percent-encodes all characters except the unreserved ones. With `reserved` it also keeps reserved
/// characters and `%XX` triplets.
fn encode(out: &mut String, text: &str, reserved: bool) {
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let kept = percent::is_unreserved(byte)
            || (reserved && (percent::is_reserved(byte) || percent::triplet(&bytes[at..]).is_some()));
        if kept { out.push(char::from(byte)) } else { percent::push_encoded(out, byte) }
    }
}
