//! Properties of tool names: valid for each provider, distinct, and reversible.

use std::collections::{BTreeSet, HashMap};

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Options, Provider, Rules, qualified_name, render, safe_name};
use proptest::{
    collection::{btree_set, vec},
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
fn check<S: Strategy>(values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}

/// A name of few different parts, so that naive joins and foldings of two names are equal.
fn name() -> impl Strategy<Value = String> {
    let parts = vec![
        "a",
        "b",
        "A",
        "_",
        "__",
        "-",
        ".",
        ":",
        "/",
        " ",
        "0",
        "9",
        "é",
        "e\u{301}",
        "日",
        "\0",
        "\n",
        "_0abcdefghij",
        "mcp",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];
    prop_oneof![
        8 => vec(select(parts), 0..5).prop_map(|parts| parts.concat()),
        1 => ".{0,80}",
        // A name that looks like a name of the library.
        1 => vec(select(vec!["a", ".", "é"]), 1..4).prop_map(|parts| safe_name(&parts.concat())),
    ]
}

#[test]
fn qualified_names_are_valid_for_each_provider_and_distinct() {
    check(&btree_set((name(), name()), 1..12), |pairs| {
        let mut names = HashMap::new();
        for (server, tool) in &pairs {
            let name = qualified_name(server, tool);
            for provider in Provider::ALL {
                prop_assert!(Rules::of(provider).name.accepts(&name), "{}: {}", provider, name);
            }
            prop_assert_eq!(&safe_name(&name), &name);
            prop_assert_eq!(&qualified_name(server, tool), &name);
            if let Some(other) = names.insert(name.clone(), (server, tool)) {
                return Err(TestCaseError::fail(format!("{name}: {other:?} and {:?}", (server, tool))));
            }
        }
        Ok(())
    });
}

#[test]
fn a_rendered_name_is_valid_and_returns_the_name_of_the_caller() {
    let tool = Tool::new("t", JsonObject::new().with("type", "object"));
    check(&vec(name(), 1..8), |names| {
        for provider in Provider::ALL {
            let rules = Rules::of(provider);
            let rendered = render(names.iter().map(|name| (name.as_str(), &tool)), &Options::new(provider));
            prop_assert_eq!(rules.check(&rendered.value), [], "{}", provider);
            let mut used = BTreeSet::new();
            for name in &names {
                let expected = safe_name(name);
                prop_assert!(rules.name.accepts(&expected), "{}: {}", provider, expected);
                let found = rendered.provider_name(name);
                if used.insert(expected.clone()) {
                    prop_assert_eq!(found, Some(expected.as_str()));
                    prop_assert_eq!(rendered.tool_name(&expected), Some(name.as_str()), "{}", provider);
                } else {
                    // The request has the name already: of the same tool, or of a tool whose name has this form.
                    let is_first = rendered.tool_name(&expected) == Some(name);
                    prop_assert_eq!(found.is_some(), is_first, "{}: {}", provider, name);
                    prop_assert!(rendered.diagnostics.iter().any(|found| found.kind.is_left_out()), "{}", name);
                }
            }
            prop_assert_eq!(rendered.tool_name("another"), None);
        }
        Ok(())
    });
}
