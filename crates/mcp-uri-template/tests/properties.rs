//! Properties of random templates: a match returns the values of the expansion.

use std::collections::BTreeMap;

use mcp_uri_template::{TemplateErrorKind, UriTemplate, VarValue, Vars};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
fn check<S: Strategy>(values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}

/// The values by name. The parameters of a query can have another order.
fn sorted(vars: Vars) -> BTreeMap<String, VarValue> {
    vars.into_iter().collect()
}

/// A value with characters of each class.
fn text() -> impl Strategy<Value = String> {
    "[aZ09/?#&=%. +;,:é😀{\"~\u{0}]{1,6}"
}

/// An expression with its values. The names begin with the prefix.
#[derive(Debug, Clone)]
struct Piece {
    expression: String,
    values: Vec<(String, VarValue)>,
}

/// An expression `{OPERATOR a,b,c}`. If `is_ordered`, a missing value is the last.
fn variables(prefix: char, operator: &'static str, minimum: usize, is_ordered: bool) -> BoxedStrategy<Piece> {
    (minimum.max(1)..4_usize, vec((text(), any::<bool>()), 4), minimum..4)
        .prop_map(move |(count, values, present)| {
            let names: Vec<_> = (0..count).map(|index| format!("{prefix}{index}")).collect();
            let values = names.iter().cloned().zip(values).enumerate();
            let values = values.filter(|(index, (_, (_, is_set)))| if is_ordered { *index < present } else { *is_set });
            // The separator of labels is not a reserved character, so the expansion does not encode it in a value.
            let clean = |text: String| if operator == "." { text.replace('.', "-") } else { text };
            let values = values.map(|(_, (name, (text, _)))| (name, VarValue::Text(clean(text))));
            Piece { expression: format!("{{{operator}{}}}", names.join(",")), values: values.collect() }
        })
        .boxed()
}

/// An expression `{OPERATOR a*}`.
fn list(prefix: char, operator: &'static str, minimum: usize) -> BoxedStrategy<Piece> {
    vec(text(), minimum..4)
        .prop_map(move |items| {
            let clean = |text: String| if operator == "." { text.replace('.', "-") } else { text };
            let items: Vec<_> = items.into_iter().map(clean).collect();
            let values = (!items.is_empty()).then(|| (prefix.to_string(), VarValue::List(items)));
            Piece { expression: format!("{{{operator}{prefix}*}}"), values: values.into_iter().collect() }
        })
        .boxed()
}

/// A template whose values are unambiguous, and values of its variables.
fn template_and_values() -> impl Strategy<Value = (String, Vars)> {
    let piece = |prefix| {
        prop_oneof![
            variables(prefix, "", 1, true),
            variables(prefix, "/", 0, true),
            variables(prefix, ".", 0, true),
            variables(prefix, ";", 0, false),
            list(prefix, "", 1),
            list(prefix, "/", 0),
            list(prefix, ".", 0),
        ]
    };
    let nothing = || Just(Piece { expression: String::new(), values: Vec::new() });
    let query = prop_oneof![nothing(), variables('q', "?", 0, false), list('q', "?", 0)];
    // A reserved expansion keeps the triplets of a value.
    let fragment = text().prop_map(|text| {
        let value = VarValue::Text(text.replace('%', "-"));
        Piece { expression: "{#f}".to_owned(), values: vec![("f".to_owned(), value)] }
    });
    (piece('a'), piece('b'), piece('c'), query, prop_oneof![nothing().boxed(), fragment.boxed()]).prop_map(
        |(a, b, c, query, fragment)| {
            // No expansion contains an `@`, so each value ends before it.
            let source = format!(
                "x://{}@@{}@@{}{}{}",
                a.expression, b.expression, c.expression, query.expression, fragment.expression
            );
            let values = [a, b, c, query, fragment].into_iter().flat_map(|piece| piece.values);
            (source, values.collect())
        },
    )
}

#[test]
fn a_match_after_an_expansion_returns_the_same_values() {
    check(&template_and_values(), |(source, vars)| {
        let template = UriTemplate::parse(&source).unwrap();
        let uri = template.expand(&vars);
        prop_assert!(uri.is_ascii());
        let found = template.matches(&uri);
        prop_assert_eq!(found.map(sorted), Some(sorted(vars)), "{} on {}", source, uri);
        Ok(())
    });
}

/// Any template of few names, so that most names occur twice.
fn any_template() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "d", "p", "a*", "d*"]);
    let operator = prop::sample::select(vec!["", "", "/", ".", ";", "?", "&"]);
    let expression =
        (operator, vec(name, 1..5)).prop_map(|(operator, names)| format!("{{{operator}{}}}", names.join(",")));
    let literal = prop::sample::select(vec!["", "x", "/", "-", ":", "?k=1"]);
    vec((literal, expression), 1..4).prop_map(|pieces| {
        pieces.into_iter().flat_map(|(literal, expression)| [literal.to_owned(), expression]).collect()
    })
}

/// A URI with few different characters, so that many values are equal.
fn any_uri() -> impl Strategy<Value = String> {
    "(x|/|-|:|\\?k=1)?([12,/.;&?=-]|[adp]=1|%2C|\\?a=1){0,8}"
}

#[test]
fn an_expansion_of_captured_values_matches_again() {
    check(&(any_template(), any_uri()), |(source, uri)| {
        let template = match UriTemplate::parse(&source) {
            Ok(template) => template,
            Err(error) => {
                prop_assert_eq!(error.kind(), TemplateErrorKind::Ambiguous, "{}", source);
                return Ok(());
            }
        };
        let Some(vars) = template.matches(&uri) else { return Ok(()) };
        let again = template.expand(&vars);
        prop_assert_eq!(template.matches(&again).map(sorted), Some(sorted(vars)), "{} on {}: {}", source, uri, again);
        Ok(())
    });
}
