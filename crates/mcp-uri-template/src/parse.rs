//! The grammar of URI templates (RFC 6570 §2).

use crate::{TemplateError, TemplateErrorKind, percent};

/// The maximum number of bytes of a template.
const MAX_TEMPLATE: usize = 1024;
/// The maximum number of variables of a template. A repeated variable counts each time.
const MAX_VARIABLES: usize = 32;

/// A literal or an expression of a template.
#[derive(Debug)]
pub(crate) enum Part {
    Literal { text: String, position: usize },
    Expression(Expression),
}

#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) operator: Operator,
    pub(crate) variables: Vec<Variable>,
    pub(crate) position: usize,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) explode: bool,
    pub(crate) prefix: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

impl Part {
    pub(crate) fn variables(&self) -> &[Variable] {
        match self {
            Self::Literal { .. } => &[],
            Self::Expression(expression) => &expression.variables,
        }
    }
}

pub(crate) fn parse(template: &str) -> Result<Vec<Part>, TemplateError> {
    use TemplateErrorKind::{Limit, Syntax};
    if template.len() > MAX_TEMPLATE {
        return Err(TemplateError::new(
            Limit,
            MAX_TEMPLATE,
            format!("the template is longer than {MAX_TEMPLATE} bytes"),
        ));
    }
    let mut parts = Vec::new();
    let mut variables = 0;
    let mut position = 0;
    while position < template.len() {
        let rest = &template[position..];
        let literal = rest.find(['{', '}']).unwrap_or(rest.len());
        if literal > 0 {
            check_literal(&rest[..literal], position)?;
            parts.push(Part::Literal { text: rest[..literal].to_owned(), position });
            position += literal;
            continue;
        }
        let end = rest.find('}').filter(|_| rest.starts_with('{'));
        let end = end.ok_or_else(|| TemplateError::new(Syntax, position, "the brace is not closed or not opened"))?;
        let expression = expression(&rest[1..end], position + 1)?;
        variables += expression.variables.len();
        if variables > MAX_VARIABLES {
            return Err(TemplateError::new(
                Limit,
                position,
                format!("the template has more than {MAX_VARIABLES} variables"),
            ));
        }
        parts.push(Part::Expression(expression));
        position += end + 1;
    }
    Ok(parts)
}

fn check_literal(text: &str, position: usize) -> Result<(), TemplateError> {
    for (at, c) in text.char_indices() {
        let bad = match c {
            '%' => percent::triplet(&text.as_bytes()[at..]).is_none(),
            '"' | '<' | '>' | '\\' | '^' | '`' | '|' => true,
            c => c.is_control() || c.is_whitespace(),
        };
        if bad {
            let message = format!("{c:?} is not allowed here");
            return Err(TemplateError::new(TemplateErrorKind::Syntax, position + at, message));
        }
    }
    Ok(())
}

fn expression(text: &str, position: usize) -> Result<Expression, TemplateError> {
    let syntax = |message: String| TemplateError::new(TemplateErrorKind::Syntax, position, message);
    let operator = match text.as_bytes().first() {
        Some(b'+') => Operator::Reserved,
        Some(b'#') => Operator::Fragment,
        Some(b'.') => Operator::Label,
        Some(b'/') => Operator::Path,
        Some(b';') => Operator::Parameter,
        Some(b'?') => Operator::Query,
        Some(b'&') => Operator::Continuation,
        Some(reserved @ (b'=' | b',' | b'!' | b'@' | b'|')) => {
            return Err(syntax(format!("the operator {:?} is reserved", char::from(*reserved))));
        }
        _ => Operator::Simple,
    };
    let list = if operator == Operator::Simple { text } else { &text[1..] };
    let variables = list
        .split(',')
        .map(|spec| variable(spec).ok_or_else(|| syntax(format!("{spec:?} is not a variable name"))))
        .collect::<Result<_, _>>()?;
    Ok(Expression { operator, variables, position })
}

fn variable(spec: &str) -> Option<Variable> {
    let (name, explode, prefix) = if let Some(name) = spec.strip_suffix('*') {
        (name, true, None)
    } else if let Some((name, length)) = spec.split_once(':') {
        let plain = !length.starts_with('0') && length.len() <= 4 && length.bytes().all(|byte| byte.is_ascii_digit());
        (name, false, Some(length.parse().ok().filter(|_| plain)?))
    } else {
        (spec, false, None)
    };
    let name_char = |at: usize, byte: u8| match byte {
        b'%' => percent::triplet(&name.as_bytes()[at..]).is_some(),
        b'.' => at > 0 && !name.ends_with('.') && !name[..at].ends_with('.'),
        byte => byte.is_ascii_alphanumeric() || byte == b'_',
    };
    let valid = !name.is_empty() && name.bytes().enumerate().all(|(at, byte)| name_char(at, byte));
    valid.then(|| Variable { name: name.to_owned(), explode, prefix })
}
