//! Matching of a URI against a template, in time linear in the length of the URI.
//!
//! The template is compiled to an automaton. A backward pass finds, for each position of the URI, the states from which
//! the end can be reached. A forward walk then follows only such states, so it never has to backtrack.

use crate::{
    TemplateError, TemplateErrorKind, VarValue, Vars,
    parse::{Expression, Operator, Part, Variable},
    percent,
};

/// The maximum number of bytes of a URI. A longer one does not match.
const MAX_URI: usize = 8 * 1024;

/// A character of a URI after normalisation: a byte, and the mark [`ENCODED`] when it is percent-encoded.
type Unit = u16;
const ENCODED: Unit = 0x100;

/// The bytes that end a value in the path.
const PATH_STOPS: &[u8] = b"/?#";
/// The bytes that end a value in a query.
const QUERY_STOPS: &[u8] = b"/?#&";

#[derive(Debug)]
pub(crate) struct Matcher {
    /// The literal at the start of the template.
    head: Vec<Unit>,
    states: Vec<State>,
    captures: Vec<Capture>,
    query: Option<Query>,
    fragment: Option<String>,
}

#[derive(Debug)]
struct Capture {
    name: String,
    /// The separator of a list; its items are captured together with it.
    list: Option<u8>,
}

#[derive(Debug)]
struct Query {
    /// Whether the expression begins the query with `?`. Otherwise it continues the query of a literal.
    opens: bool,
    /// The names of the variables, and whether each may be repeated.
    variables: Vec<(String, bool)>,
}

#[derive(Debug)]
enum State {
    Unit(Unit),
    /// Any unit except these bytes in unencoded form.
    Except(Vec<u8>),
    /// A branch to one of two states. The first is preferred if both lead to the end.
    Either(usize, usize),
    Open(usize),
    Close(usize),
    End,
}

impl Matcher {
    pub(crate) fn new(parts: &[Part]) -> Result<Self, TemplateError> {
        let mut compiler =
            Compiler { states: Vec::new(), captures: Vec::new(), query: None, fragment: None, in_query: false };
        check_repetitions(parts)?;
        let mut head = Vec::new();
        let mut before: Option<&Expression> = None;
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Literal { text, position } => {
                    compiler.literal(text, *position, (index == 0).then_some(&mut head))?;
                    before = None;
                }
                Part::Expression(expression) => {
                    compiler.check_neighbours(before, expression)?;
                    compiler.expression(expression)?;
                    before = Some(expression);
                }
            }
        }
        let Compiler { mut states, captures, query, fragment, .. } = compiler;
        states.push(State::End);
        Ok(Self { head, states, captures, query, fragment })
    }

    /// Matches a URI. `steps` counts the work for the tests.
    pub(crate) fn matches(&self, uri: &str, steps: &mut usize) -> Option<Vars> {
        if uri.len() > MAX_URI {
            return None;
        }
        let all = units(uri)?;
        *steps += all.len();
        let mut rest = all.strip_prefix(self.head.as_slice())?;
        let mut fragment = None;
        if self.fragment.is_some() {
            (rest, fragment) = split(rest, b'#');
        }
        let mut query = None;
        if self.query.as_ref().is_some_and(|query| query.opens) {
            (rest, query) = split(rest, b'?');
        }
        let continues = self.query.as_ref().is_some_and(|query| !query.opens);
        let (slots, end) = self.run(rest, continues, steps)?;
        if continues {
            query = rest[end..].split_first().map(|(_, query)| query);
        }

        let mut vars = Vars::new();
        for (capture, &(open, close)) in self.captures.iter().zip(&slots) {
            if open == usize::MAX {
                continue;
            }
            let value = capture.value(&rest[open..close])?;
            vars.agree(&capture.name, value)?;
        }
        if let (Some(expected), Some(found)) = (&self.query, query) {
            expected.read(found, &mut vars)?;
        }
        if let (Some(name), Some(found)) = (&self.fragment, fragment) {
            vars.agree(name, VarValue::Text(decode(found)?))?;
        }
        Some(vars)
    }

    /// Returns the captured ranges and the end of the body. The body ends at the end of the input, or before an `&`
    /// when a query continues there.
    fn run(&self, input: &[Unit], continues: bool, steps: &mut usize) -> Option<(Vec<(usize, usize)>, usize)> {
        let width = self.states.len();
        // For each position: the states from which the end can be reached.
        let mut alive = vec![false; width * (input.len() + 1)];
        for at in (0..=input.len()).rev() {
            let (now, later) = alive.split_at_mut(width * (at + 1));
            let now = &mut now[width * at..];
            let unit = input.get(at).copied();
            let consume = |accepted: bool, state: usize| accepted && later[state + 1];
            // Consuming states come first, because a repetition refers back to one of them. All other states refer
            // forward.
            for (index, state) in self.states.iter().enumerate() {
                match (state, unit) {
                    (State::Unit(expected), Some(unit)) => now[index] = consume(unit == *expected, index),
                    (State::Except(bytes), Some(unit)) => now[index] = consume(!excluded(bytes, unit), index),
                    _ => {}
                }
            }
            for (index, state) in self.states.iter().enumerate().rev() {
                match state {
                    State::Either(first, second) => now[index] = now[*first] || now[*second],
                    State::Open(_) | State::Close(_) => now[index] = now[index + 1],
                    State::End => now[index] = unit.is_none() || (continues && unit == Some(Unit::from(b'&'))),
                    State::Unit(_) | State::Except(_) => {}
                }
            }
            *steps += 2 * width;
        }

        if !alive[0] {
            return None;
        }
        let mut slots = vec![(usize::MAX, usize::MAX); self.captures.len()];
        let (mut state, mut at) = (0, 0);
        loop {
            *steps += 1;
            match &self.states[state] {
                State::Unit(_) | State::Except(_) => (state, at) = (state + 1, at + 1),
                State::Either(first, second) => {
                    state = if alive[width * at + *first] { *first } else { *second };
                }
                State::Open(slot) => {
                    slots[*slot].0 = at;
                    state += 1;
                }
                State::Close(slot) => {
                    slots[*slot].1 = at;
                    state += 1;
                }
                State::End => return Some((slots, at)),
            }
        }
    }
}

impl Capture {
    fn value(&self, units: &[Unit]) -> Option<VarValue> {
        let Some(separator) = self.list else { return decode(units).map(VarValue::Text) };
        // Path and label lists are captured with their leading separator.
        let units = if separator == b',' { units } else { units.get(1..)? };
        let items = units.split(|unit| *unit == Unit::from(separator)).map(decode).collect::<Option<_>>()?;
        Some(VarValue::List(items))
    }
}

impl Query {
    fn read(&self, query: &[Unit], vars: &mut Vars) -> Option<()> {
        if query.is_empty() {
            return Some(());
        }
        let mut lists: Vec<(&str, Vec<String>)> = Vec::new();
        for pair in query.split(|unit| *unit == Unit::from(b'&')) {
            let (name, value) = split(pair, b'=');
            let (name, value) = (decode(name)?, decode(value.unwrap_or_default())?);
            let same =
                |declared: &str| declared == name || percent::decode(declared).is_some_and(|plain| plain == name);
            let (declared, repeatable) = self.variables.iter().find(|(declared, _)| same(declared))?;
            if !repeatable {
                vars.agree(declared, VarValue::Text(value))?;
                continue;
            }
            match lists.iter_mut().find(|(known, _)| known == declared) {
                Some((_, list)) => list.push(value),
                None => lists.push((declared, vec![value])),
            }
        }
        lists.into_iter().try_for_each(|(name, list)| vars.agree(name, VarValue::List(list)))
    }
}

struct Compiler {
    states: Vec<State>,
    captures: Vec<Capture>,
    query: Option<Query>,
    fragment: Option<String>,
    in_query: bool,
}

impl Compiler {
    fn literal(&mut self, text: &str, position: usize, head: Option<&mut Vec<Unit>>) -> Result<(), TemplateError> {
        if self.query.is_some() || self.fragment.is_some() {
            return Err(ambiguous(position, "nothing can follow a query or fragment expression"));
        }
        let units =
            units(text).ok_or_else(|| TemplateError::new(TemplateErrorKind::Syntax, position, "malformed `%`"))?;
        self.in_query |= units.contains(&Unit::from(b'?'));
        match head {
            Some(head) => *head = units,
            None => self.states.extend(units.into_iter().map(State::Unit)),
        }
        Ok(())
    }

    /// Rejects adjacent expressions when the first could capture characters of the second.
    fn check_neighbours(&self, before: Option<&Expression>, expression: &Expression) -> Result<(), TemplateError> {
        let Some(before) = before else { return Ok(()) };
        let distinct = match expression.operator {
            Operator::Query | Operator::Fragment => true,
            Operator::Continuation => self.query.is_some() || self.in_query && before.operator != Operator::Reserved,
            Operator::Path => {
                let list =
                    before.operator == Operator::Path && before.variables.iter().any(|variable| variable.explode);
                before.operator != Operator::Reserved && !list
            }
            Operator::Simple | Operator::Reserved | Operator::Label | Operator::Parameter => false,
        };
        if distinct {
            return Ok(());
        }
        Err(ambiguous(expression.position, "adjacent expressions are ambiguous: the end of the first value is unknown"))
    }

    fn expression(&mut self, expression: &Expression) -> Result<(), TemplateError> {
        let refuse = |why| Err(ambiguous(expression.position, why));
        let variables = &expression.variables;
        let exploded = variables.iter().any(|variable| variable.explode);
        if variables.iter().any(|variable| variable.prefix.is_some()) {
            return refuse("a prefix of a value cannot be matched");
        }
        if self.fragment.is_some() {
            return refuse("nothing can follow a fragment expression");
        }
        match expression.operator {
            Operator::Query | Operator::Continuation => {
                let opens = expression.operator == Operator::Query;
                if opens && (self.in_query || self.query.is_some()) {
                    return refuse("the template already has a query: continue it with `{&…}`");
                }
                let query = self.query.get_or_insert_with(|| Query { opens, variables: Vec::new() });
                query.variables.extend(variables.iter().map(|variable| (variable.name.clone(), variable.explode)));
                return Ok(());
            }
            _ if self.query.is_some() && expression.operator != Operator::Fragment => {
                return refuse("only a fragment can follow a query expression");
            }
            Operator::Reserved | Operator::Fragment if variables.len() > 1 || exploded => {
                return refuse("several values that may contain commas cannot be separated");
            }
            Operator::Fragment => self.fragment = variables.first().map(|variable| variable.name.clone()),
            Operator::Reserved => self.capture(&variables[0].name, None, Vec::new(), true),
            _ if exploded && variables.len() > 1 => {
                return refuse("a list cannot be separated from other variables of the same expression");
            }
            Operator::Parameter if exploded => return refuse("a list of path parameters cannot be matched"),
            Operator::Simple if exploded => self.capture(&variables[0].name, Some(b','), self.stops(b""), true),
            Operator::Simple if variables.len() == 1 => self.capture(&variables[0].name, None, self.stops(b""), true),
            Operator::Simple => {
                self.capture(&variables[0].name, None, self.stops(b","), true);
                self.optional(&variables[1..], |compiler, name| {
                    compiler.states.push(State::Unit(Unit::from(b',')));
                    compiler.capture(name, None, compiler.stops(b","), true);
                });
            }
            Operator::Path | Operator::Label => {
                let separator = if expression.operator == Operator::Path { b'/' } else { b'.' };
                let stops = self.stops(&[separator]);
                if exploded {
                    self.list(&variables[0].name, separator, stops);
                } else {
                    self.optional(variables, |compiler, name| {
                        compiler.states.push(State::Unit(Unit::from(separator)));
                        compiler.capture(name, None, stops.clone(), true);
                    });
                }
            }
            Operator::Parameter => {
                for variable in variables {
                    self.parameter(&variable.name);
                }
            }
        }
        Ok(())
    }

    fn stops(&self, more: &[u8]) -> Vec<u8> {
        let base = if self.in_query { QUERY_STOPS } else { PATH_STOPS };
        base.iter().chain(more).copied().collect()
    }

    /// Adds the states of a value: units up to one of `stops`.
    fn capture(&mut self, name: &str, list: Option<u8>, stops: Vec<u8>, not_empty: bool) {
        let slot = self.captures.len();
        self.captures.push(Capture { name: name.to_owned(), list });
        self.states.push(State::Open(slot));
        let skip = (!not_empty).then(|| self.placeholder());
        let start = self.states.len();
        self.states.push(State::Except(stops));
        self.states.push(State::Either(start, start + 2));
        if let Some(skip) = skip {
            self.states[skip] = State::Either(start, self.states.len());
        }
        self.states.push(State::Close(slot));
    }

    /// Adds the states of optional variables: each can only be present when the previous ones are.
    fn optional(&mut self, variables: &[Variable], mut each: impl FnMut(&mut Self, &str)) {
        let mut skips = Vec::new();
        for variable in variables {
            skips.push(self.placeholder());
            each(self, &variable.name);
        }
        let end = self.states.len();
        for skip in skips {
            self.states[skip] = State::Either(skip + 1, end);
        }
    }

    /// Adds the states of any number of values, each after its separator, with one capture for all.
    fn list(&mut self, name: &str, separator: u8, stops: Vec<u8>) {
        let slot = self.captures.len();
        self.captures.push(Capture { name: name.to_owned(), list: Some(separator) });
        let skip = self.placeholder();
        self.states.push(State::Open(slot));
        let start = self.states.len();
        self.states.push(State::Unit(Unit::from(separator)));
        self.states.push(State::Except(stops));
        self.states.push(State::Either(start + 1, start + 3));
        self.states.push(State::Either(start, start + 4));
        self.states.push(State::Close(slot));
        self.states[skip] = State::Either(skip + 1, self.states.len());
    }

    /// Adds the states of `;name`, `;name=value`, or nothing.
    fn parameter(&mut self, name: &str) {
        let skip = self.placeholder();
        self.states.push(State::Unit(Unit::from(b';')));
        self.states.extend(units(name).unwrap_or_default().into_iter().map(State::Unit));
        let bare = self.placeholder();
        self.states.push(State::Unit(Unit::from(b'=')));
        let slot = self.captures.len();
        self.capture(name, None, self.stops(b";"), false);
        let jump = self.placeholder();
        let alone = self.states.len();
        self.states.push(State::Open(slot));
        self.states.push(State::Close(slot));
        let end = self.states.len();
        self.states[bare] = State::Either(bare + 1, alone);
        self.states[jump] = State::Either(end, end);
        self.states[skip] = State::Either(skip + 1, end);
    }

    /// Adds a state whose targets are set later.
    fn placeholder(&mut self) -> usize {
        self.states.push(State::End);
        self.states.len() - 1
    }
}

/// Rejects a variable that occurs twice, if a URI can omit it. The expansion contains each occurrence, but a match would
/// accept a URI with only one of them.
fn check_repetitions(parts: &[Part]) -> Result<(), TemplateError> {
    let mut known: Vec<(&str, bool, bool)> = Vec::new();
    for part in parts {
        let Part::Expression(expression) = part else { continue };
        for (index, variable) in expression.variables.iter().enumerate() {
            let is_optional = match expression.operator {
                Operator::Simple => index > 0,
                Operator::Reserved => false,
                _ => true,
            };
            let earlier = known.iter().find(|(name, ..)| *name == variable.name);
            if let Some((_, was_optional, was_list)) = earlier {
                if is_optional || *was_optional {
                    let message = format!("`{}` occurs twice, but a URI can omit it", variable.name);
                    return Err(ambiguous(expression.position, &message));
                }
                if *was_list != variable.explode {
                    let message = format!("`{}` is a text and a list", variable.name);
                    return Err(ambiguous(expression.position, &message));
                }
            }
            known.push((&variable.name, is_optional, variable.explode));
        }
    }
    Ok(())
}

fn ambiguous(position: usize, message: &str) -> TemplateError {
    TemplateError::new(TemplateErrorKind::Ambiguous, position, message)
}

fn excluded(bytes: &[u8], unit: Unit) -> bool {
    u8::try_from(unit).is_ok_and(|byte| bytes.contains(&byte))
}

/// Returns the units before and after the first `separator` that is not encoded.
fn split(units: &[Unit], separator: u8) -> (&[Unit], Option<&[Unit]>) {
    match units.iter().position(|unit| *unit == Unit::from(separator)) {
        Some(at) => (&units[..at], Some(&units[at + 1..])),
        None => (units, None),
    }
}

/// Returns the percent-normalised units of a URI; `None` for a malformed triplet.
fn units(uri: &str) -> Option<Vec<Unit>> {
    let bytes = uri.as_bytes();
    let mut units = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (byte, plain) = if byte == b'%' {
            at += 3;
            let byte = percent::triplet(&bytes[at - 3..])?;
            (byte, percent::is_unreserved(byte))
        } else {
            at += 1;
            (byte, percent::is_unreserved(byte) || percent::is_reserved(byte))
        };
        units.push(if plain { Unit::from(byte) } else { Unit::from(byte) | ENCODED });
    }
    Some(units)
}

/// Returns the text of the units; `None` when it is not UTF-8.
fn decode(units: &[Unit]) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, reason = "drops the mark and keeps the byte")]
    let bytes = units.iter().map(|unit| *unit as u8).collect();
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn steps(template: &str, uri: &str) -> usize {
        let matcher = Matcher::new(&parse(template).unwrap()).unwrap();
        let mut steps = 0;
        assert_eq!(matcher.matches(uri, &mut steps), None);
        steps
    }

    #[test]
    fn matching_is_linear_when_backtracking_is_exponential() {
        // Eight values separated by `a`, and a text of `a` that does not match at its end.
        let template = "x:{a}a{b}a{c}a{d}a{e}a{f}a{g}a{h}a!";
        let work = |length: usize| steps(template, &format!("x:{}", "a".repeat(length)));
        let (small, large) = (work(500), work(4_000));
        assert!(large <= small * 9, "{small} steps for 500 characters, {large} for 4,000");
        let states = Matcher::new(&parse(template).unwrap()).unwrap().states.len();
        assert!(large <= 3 * states * 4_001, "{large} steps");

        let nested = |length: usize| steps("x:{/a*}/b{+c}/d{+e}!", &format!("x:{}", "/b/d".repeat(length)));
        assert!(nested(1_600) <= nested(200) * 9);
    }
}
