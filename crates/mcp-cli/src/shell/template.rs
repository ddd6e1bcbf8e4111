//! The position of typed text in a URI template: a literal to finish, or a variable to complete.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that an expression encodes: all that are not unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The characters that an expression with `+` or `#` encodes.
const ENCODED_BESIDE_RESERVED: &AsciiSet = &ENCODED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'#')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// The part of a template that the end of the typed text belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The typed text with the rest of a literal.
    Literal(String),
    Variable(Variable),
}

/// A variable with the part of its value that is typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variable {
    /// The typed text before the value.
    pub(super) prefix: String,
    pub(super) name: String,
    /// The typed part of the value, decoded.
    pub(super) value: String,
    /// The variables before it, with their decoded values.
    pub(super) known: Vec<(String, String)>,
    /// Whether reserved characters stay unencoded.
    keeps_reserved: bool,
    /// Whether the template ends with this variable.
    pub(super) is_last: bool,
}

impl Variable {
    /// Returns the URI up to the end of a value.
    pub(super) fn with_value(&self, value: &str) -> String {
        format!("{}{}", self.prefix, encoded(value, self.keeps_reserved))
    }
}

/// Returns the position of the end of `typed` in a template.
///
/// Returns `None` if the text does not fit the template, if it is complete, or if an expression before its end has several
/// variables or named values.
pub(super) fn position(template: &str, typed: &str) -> Option<Position> {
    let (mut template, mut rest) = (template, typed);
    let mut known = Vec::new();
    loop {
        let (literal, expression) = template.split_at(template.find('{').unwrap_or(template.len()));
        if literal.len() > rest.len() && literal.starts_with(rest) {
            let before = &typed[..typed.len() - rest.len()];
            return Some(Position::Literal(format!("{before}{literal}")));
        }
        rest = rest.strip_prefix(literal)?;
        let (expression, after) = expression.strip_prefix('{')?.split_once('}')?;
        template = after;
        let operator = expression.chars().next().filter(|c| "+#./;?&".contains(*c));
        let name = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        let name = name.split([':', '*']).next().unwrap_or_default();
        if name.contains(',') || matches!(operator, Some(';' | '?' | '&')) {
            return None;
        }
        if let Some(separator @ ('#' | '.' | '/')) = operator {
            if rest.is_empty() {
                return Some(Position::Literal(format!("{typed}{separator}")));
            }
            rest = rest.strip_prefix(separator)?;
        }
        // The value ends at the next character that the template requires.
        let next = match after.strip_prefix('{') {
            Some(expression) => expression.chars().next().filter(|c| "#./".contains(*c)),
            None => after.chars().next(),
        };
        match next.and_then(|next| rest.find(next)) {
            Some(end) => {
                known.push((name.to_owned(), decoded(&rest[..end])));
                rest = &rest[end..];
            }
            None => {
                return Some(Position::Variable(Variable {
                    prefix: typed[..typed.len() - rest.len()].to_owned(),
                    name: name.to_owned(),
                    value: decoded(rest),
                    known,
                    keeps_reserved: matches!(operator, Some('+' | '#')),
                    is_last: after.is_empty(),
                }));
            }
        }
    }
}

fn encoded(value: &str, keeps_reserved: bool) -> String {
    utf8_percent_encode(value, if keeps_reserved { ENCODED_BESIDE_RESERVED } else { ENCODED }).to_string()
}

/// Replaces each `%XX`. Text that is not encoded stays as it is: the user may not have typed the whole value.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `prefix|name=value` with the known values, or the finished literal.
    fn shown(template: &str, typed: &str) -> String {
        match position(template, typed) {
            None => "-".to_owned(),
            Some(Position::Literal(text)) => text,
            Some(Position::Variable(found)) => {
                let known: String = found.known.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                format!("{}|{}={}{known}", found.prefix, found.name, found.value)
            }
        }
    }

    #[test]
    fn finds_the_literal_or_the_variable_at_the_end() {
        for (template, typed, expected) in [
            ("note://{id}", "", "note://"),
            ("note://{id}", "no", "note://"),
            ("note://{id}", "note://", "note://|id="),
            ("note://{id}", "note://a%20b", "note://|id=a b"),
            ("note://{id}", "other://", "-"),
            ("db://{table}/rows/{id}", "db://users", "db://|table=users"),
            ("db://{table}/rows/{id}", "db://users/r", "db://users/rows/"),
            ("db://{table}/rows/{id}", "db://users/rows/7", "db://users/rows/|id=7 table=users"),
            ("db://{table}{/id}", "db://users/7", "db://users/|id=7 table=users"),
            ("file:///{+path}", "file:///a/b", "file:///|path=a/b"),
            ("a://x{/id}", "a://x", "a://x/"),
            ("a://{x,y}", "a://", "-"),
            ("a://x{?q}", "a://x", "-"),
            ("a://x", "a://x", "-"),
            ("a://{x", "a://", "-"),
            ("größe://{id}", "grö", "größe://"),
        ] {
            assert_eq!(shown(template, typed), expected, "{template} {typed}");
        }
    }

    #[test]
    fn values_are_encoded_for_their_expression() {
        for (template, typed, value, expected) in [
            ("a://{x}", "a://", "b c/ü-._~%", "a://b%20c%2F%C3%BC-._~%25"),
            ("a:///{+x}", "a:///", "b c/:?#[]@!$&'()*+,;=%", "a:///b%20c/:?#[]@!$&'()*+,;=%25"),
        ] {
            let Some(Position::Variable(variable)) = position(template, typed) else { panic!("{template}") };
            assert_eq!(variable.with_value(value), expected);
        }
        for (text, expected) in
            [("100%", "100%"), ("%zz%41", "%zzA"), ("%+5", "%+5"), ("%4", "%4"), ("%C3%BC%ff", "ü\u{fffd}")]
        {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }
}
