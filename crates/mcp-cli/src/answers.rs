//! Answers that the command line gives to the questions of the server: `--answer`, `--yes` and `--decline`.

use std::collections::BTreeSet;

use mcp_protocol::{Excerpt, RpcError};
use mcp_schema::elicitation::{Field, Form};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{
    args::Options,
    arguments::{self, Given},
    elicit,
    failure::Failure,
    input::Input,
    screen::warn,
    suggestion::nearest,
    text::{line, printable},
};

/// The answers of a command line.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    fields: Vec<(String, Given)>,
    agrees: bool,
    declines: bool,
    /// The fields that a form had.
    used: Mutex<BTreeSet<String>>,
    /// The reason why a question was not answered.
    problem: Mutex<Option<String>>,
}

/// The answer to a form.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    Accept(Map<String, Value>),
    Decline,
    /// The user must give the values that the map does not contain.
    Ask(Map<String, Value>),
}

impl Answers {
    /// Reads the options, and the files that they name.
    ///
    /// # Errors
    ///
    /// Fails if an answer is not valid, or if a file cannot be read.
    pub(crate) async fn read(options: &Options, input: &Input) -> Result<Self, Failure> {
        let fields = arguments::answers(&options.answer, input).await?;
        Ok(Self { fields, agrees: options.yes, declines: options.decline, ..Self::default() })
    }

    /// Returns whether an option answers questions, so that `mcp` can receive them without a terminal.
    pub(crate) fn is_given(&self) -> bool {
        !self.fields.is_empty() || self.agrees || self.declines
    }

    /// Returns whether the option `--yes` is given.
    pub(crate) fn agrees(&self) -> bool {
        self.agrees
    }

    /// Returns whether the option `--decline` is given.
    pub(crate) fn declines(&self) -> bool {
        self.declines
    }

    /// Decides about a form. If `can_ask` is set, the user at the terminal gives the values of all other fields. The error
    /// text names the answer that does not fit.
    pub(crate) fn decide(&self, form: &Form, can_ask: bool) -> Result<Decision, String> {
        let mut content = Map::new();
        for field in form.fields() {
            let Some((name, given)) = self.fields.iter().find(|(name, _)| *name == field.name) else { continue };
            self.used.lock().insert(name.clone());
            if let Some(value) = elicit::answer(form, field, given)? {
                content.insert(name.clone(), value);
            }
        }
        let is_complete = !can_ask || content.len() == form.fields().len();
        let is_answered = self.agrees || (is_complete && !content.is_empty());
        Ok(match is_answered && self.missing(form, &content).is_empty() {
            true => Decision::Accept(content),
            false if self.declines => Decision::Decline,
            false => Decision::Ask(content),
        })
    }

    /// Returns the fields that need a value: the required ones, and without `--yes` also those with a default, because the
    /// user has not agreed to it.
    fn missing<'a>(&self, form: &'a Form, content: &Map<String, Value>) -> Vec<&'a Field> {
        let is_missing = |field: &&Field| {
            let needs_value = match field.default_value() {
                Some(_) => !self.agrees,
                None => field.required,
            };
            needs_value && !content.contains_key(&field.name)
        };
        form.fields().iter().filter(is_missing).collect()
    }

    /// Returns the error for a question that cannot be answered. The command fails with this reason.
    pub(crate) fn refuse(&self, problem: String) -> RpcError {
        *self.problem.lock() = Some(problem);
        RpcError::internal("the client has no answer to the question")
    }

    /// Returns the reason why a form has no answer, with the options that answer it.
    pub(crate) fn unanswered(&self, message: &str, form: &Form, known: &Map<String, Value>) -> String {
        let question = format!("the question `{}` has no answer", Excerpt::new(message));
        if form.fields().is_empty() {
            return format!("{question}; agree with --yes, or decline with --decline");
        }
        let mut fields = self.missing(form, known);
        if fields.is_empty() {
            // Each field is optional.
            fields.extend(form.fields().first());
        }
        let option = |field: &&Field| match shell_words::quote(&field.name) {
            name if name == field.name => format!("--answer {name}=VALUE"),
            _ => format!("--answer {}", shell_words::quote(&format!("{}=VALUE", field.name))),
        };
        let options: Vec<String> = fields.iter().map(option).collect();
        let unused = || self.unused().into_iter();
        let similar = fields.iter().find_map(|field| Some((nearest(&field.name, unused())?, &field.name)));
        let hint = similar.map_or_else(String::new, |(given, name)| {
            format!("; the form has no field `{}`, did you mean `{}`?", line(given), line(name))
        });
        let agree = match fields.iter().any(|field| field.default_value().is_some()) {
            true => ", agree to the defaults with --yes",
            false => "",
        };
        format!("{question}; answer with {}{agree}, or decline with --decline{hint}", options.join(" "))
    }

    /// Replaces the failure of a command if a question without an answer caused it.
    pub(crate) fn explain(&self, done: Result<(), Failure>) -> Result<(), Failure> {
        match (done, self.problem.lock().take()) {
            (Err(failure), Some(problem)) if failure.may_have_stderr() => Err(Failure::usage(problem)),
            (Ok(()), Some(problem)) => {
                warn(&printable(&problem));
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// Warns about fields that no form had.
    pub(crate) fn warn_about_unused(&self) {
        for name in self.unused() {
            warn(&format!("no question of the server has the field `{}`", line(name)));
        }
    }

    fn unused(&self) -> Vec<&str> {
        let used = self.used.lock();
        self.fields.iter().map(|(name, _)| name.as_str()).filter(|name| !used.contains(*name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: &Value) -> Form {
        Form::parse(schema).unwrap_or_else(|error| panic!("{error}"))
    }

    async fn answers(words: &[&str], yes: bool, decline: bool) -> Answers {
        let answer = words.iter().map(ToString::to_string).collect();
        let options = Options { answer, yes, decline, ..Options::default() };
        Answers::read(&options, &Input::default()).await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    #[tokio::test]
    async fn a_form_is_accepted_only_if_the_options_answer_it() {
        let consent = json!({"type": "object", "properties": {}});
        let name = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "news": {"type": "boolean", "default": true},
        }});
        let news = json!({"type": "object", "required": ["news"], "properties": {
            "news": {"type": "boolean", "default": true},
        }});
        let accept = |content: Value| Decision::Accept(content.as_object().cloned().unwrap_or_default());
        let ask = |content: Value| Decision::Ask(content.as_object().cloned().unwrap_or_default());
        let age = json!({"type": "object", "properties": {"age": {"type": "integer"}}});
        for (schema, words, yes, decline, expected) in [
            (&consent, &[][..], false, false, ask(json!({}))),
            (&consent, &["name=Ada"], false, false, ask(json!({}))),
            (&consent, &[], true, false, accept(json!({}))),
            (&consent, &[], false, true, Decision::Decline),
            (&consent, &[], true, true, accept(json!({}))),
            (&name, &["name=Ada"], false, false, ask(json!({"name": "Ada"}))),
            (&name, &["name=Ada"], false, true, Decision::Decline),
            (&name, &["name=Ada", "news:=null"], false, false, ask(json!({"name": "Ada"}))),
            (&name, &["name=Ada"], true, false, accept(json!({"name": "Ada"}))),
            (&name, &["name=Ada", "news=n"], false, false, accept(json!({"name": "Ada", "news": false}))),
            (
                &name,
                &["name=Ada", "age=7", "news=n"],
                false,
                true,
                accept(json!({"name": "Ada", "age": 7, "news": false})),
            ),
            (
                &name,
                &[r#"{"name": "Ada", "age": 7, "news": true}"#],
                false,
                false,
                accept(json!({"name": "Ada", "age": 7, "news": true})),
            ),
            (&name, &["age:=7"], false, false, ask(json!({"age": 7}))),
            (&name, &["name:=null"], true, false, ask(json!({}))),
            (&name, &[], true, false, ask(json!({}))),
            (&name, &["age=7"], false, true, Decision::Decline),
            (&news, &["name=Ada"], false, false, ask(json!({}))),
            (&news, &[], true, false, accept(json!({}))),
            (&age, &["age:=null"], false, false, ask(json!({}))),
            (&age, &["age=7"], false, false, accept(json!({"age": 7}))),
        ] {
            let decision = answers(words, yes, decline).await.decide(&form(schema), false);
            assert_eq!(decision, Ok(expected), "{schema} {words:?} {yes} {decline}");
        }
        // The user at a terminal sees each field that no option answers.
        for (schema, words, yes, expected) in [
            (&consent, &[][..], false, ask(json!({}))),
            (&name, &["name=Ada", "news=n"], false, ask(json!({"name": "Ada", "news": false}))),
            (&name, &["name=Ada", "news=n"], true, accept(json!({"name": "Ada", "news": false}))),
            (&name, &["name=Ada", "news=n", "age=7"], false, accept(json!({"name": "Ada", "news": false, "age": 7}))),
            (&age, &["age:=null"], false, ask(json!({}))),
        ] {
            let decision = answers(words, yes, false).await.decide(&form(schema), true);
            assert_eq!(decision, Ok(expected), "{schema} {words:?} {yes}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_does_not_fit_names_its_field() {
        let form = form(&json!({"type": "object", "properties": {
            "text": {"type": "string", "maxLength": 3}, "n": {"type": "integer"}, "x": {"type": "number"},
            "on": {"type": "boolean"}, "one": {"type": "string", "enum": ["a", "b"]},
        }}));
        for (word, expected) in [
            ("n=x", "`n` must be a whole number; `x` is not a whole number"),
            ("x=much", "`x` must be a number; `much` is not a number"),
            ("on=maybe", "`on` must be y or n; `maybe` is not y or n"),
            ("one=c", "`one` must be one of the choices a, b; `c` is not one of them"),
            ("one=1", "`one` must be one of the choices a, b; `1` is not one of them"),
            ("text=long", "`text`: must have at most 3 characters, got 4"),
            ("n:=\"7\"", "`n`: expected an integer, got \"7\""),
        ] {
            let problem = answers(&[word], false, true).await.decide(&form, false);
            assert_eq!(problem, Err(expected.to_owned()), "{word}");
        }
    }

    #[tokio::test]
    async fn an_unanswered_question_names_the_options() {
        let name = form(&json!({"type": "object", "required": ["name", "my age"], "properties": {
            "name": {"type": "string"}, "my age": {"type": "integer"}, "news": {"type": "boolean"},
        }}));
        let problem = |answers: &Answers, form: &Form| {
            let Ok(Decision::Ask(known)) = answers.decide(form, false) else { panic!("the form has an answer") };
            answers.unanswered("Who\nare you?", form, &known)
        };
        let given = answers(&["my age=7", "nmae=Ada"], false, false).await;
        assert_eq!(
            problem(&given, &name),
            r"the question `Who\nare you?` has no answer; answer with --answer name=VALUE, or decline with --decline; the form has no field `nmae`, did you mean `name`?"
        );
        assert_eq!(given.unused(), ["nmae"]);
        let none = answers(&[], false, false).await;
        assert!(problem(&none, &name).contains("answer with --answer name=VALUE --answer 'my age=VALUE', or"));
        let news = form(&json!({"type": "object", "properties": {"news": {"type": "boolean", "default": true}}}));
        assert!(problem(&none, &news).ends_with(
            "; answer with --answer news=VALUE, agree to the defaults with --yes, or decline with --decline"
        ));
        let consent = form(&json!({"type": "object", "properties": {}}));
        assert!(problem(&none, &consent).ends_with("has no answer; agree with --yes, or decline with --decline"));
    }
}
