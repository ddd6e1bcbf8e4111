//! Compile errors of typical mistakes. Each error names the faulty part in its first five lines.
//!
//! `TRYBUILD=overwrite cargo test -p mcp-macros --test ui` writes the `.stderr` files again, for example after an update of the
//! compiler. The table below still holds then.

use std::{collections::BTreeSet, fs, path::Path};

/// Each mistake, with texts that the first five lines of its error contain.
const MISTAKES: &[(&str, &[&str])] = &[
    // The plain API, without macros.
    ("plain/args_borrow", &["Args<Query<'_>>", "lifetime"]),
    ("plain/args_not_last", &["Args<Query>", "in this place"]),
    ("plain/args_twice", &["Args<Query>", "in this place"]),
    ("plain/args_without_deserialize", &["Query", "Deserialize"]),
    ("plain/args_without_schema", &["Query", "JsonSchema"]),
    ("plain/build_missing", &["serve_stdio", "ServerBuilder"]),
    ("plain/build_missing_in_return", &["fn server() -> Server", "expected `mcp_server::Server`"]),
    ("plain/closure_captures_rc", &["Rc<std::string::String>", "cannot be sent"]),
    ("plain/error_is_a_string", &["`std::string::String` cannot be the error of a handler"]),
    ("plain/future_not_send", &["future cannot be sent", "`count` is not `Send`"]),
    ("plain/json_without_schema", &["Size", "JsonSchema"]),
    ("plain/json_without_serialize", &["Size", "Serialize"]),
    ("plain/not_a_function", &["an async function of at most 8 arguments, but this is `&str`"]),
    ("plain/not_async", &["not `async`", "returns `std::string::String`"]),
    ("plain/output_list_of_numbers", &["`u32` does not convert into a content block"]),
    ("plain/output_number", &["`u64` cannot be the output", "ToolKind"]),
    ("plain/output_of_another_kind", &["Image` cannot be the output", "ResourceKind"]),
    ("plain/plain_argument", &["String` cannot be an argument of a handler"]),
    ("plain/plain_argument_first", &["`usize` cannot be an argument of a handler"]),
    ("plain/prompt_as_tool", &["expected `ToolRoute<_>`, found `PromptRoute<_>`"]),
    ("plain/route_missing", &["expected `ToolRoute<_>`, found fn item"]),
    ("plain/state_missing", &["the server has no state", "State<App>", ".build()"]),
    ("plain/state_of_another_type", &["with_state(7)", "expected `App`, found integer"]),
    ("plain/state_without_part", &["config", "expected `ToolRoute<App>`, found `ToolRoute<Config>`"]),
    ("plain/too_many_arguments", &["at most 8 arguments", "tool(\"all\", all)"]),
    // `#[tool]`, `#[prompt]` and `#[resource]`.
    ("macros/args_and_plain_argument", &["takes all arguments of the call", "Args<Range>"]),
    ("macros/args_not_last", &["it must be last", "Args<Range>"]),
    ("macros/argument_without_schema", &["color: Color", "`Color` cannot be an argument of a call"]),
    ("macros/argument_without_traits", &["color: Color", "`Color` cannot be an argument of a call"]),
    ("macros/borrowed_argument", &["the argument `name` borrows"]),
    ("macros/default_of_an_option", &["`lines` is an `Option`"]),
    ("macros/default_of_another_type", &["`u32: From<&str>`"]),
    ("macros/error_is_a_string", &["String` cannot be the error of a handler"]),
    ("macros/flag_with_value", &["`read_only` has no value"]),
    ("macros/future_not_send", &["future cannot be sent", "`count` is not `Send`"]),
    ("macros/generic", &["no generic parameters", "show<T:"]),
    ("macros/impl_trait_argument", &["impl std::fmt::Display"]),
    ("macros/marked_but_not_an_extractor", &["String` cannot be an argument of a handler", "show::route()"]),
    ("macros/not_a_function", &["belongs on a function", "struct Now"]),
    ("macros/not_async", &["`now` is not `async`"]),
    ("macros/option_of_another_type", &["title = 3"]),
    ("macros/option_without_value", &["`title` needs a value"]),
    ("macros/output_number", &["`u64` cannot be the output"]),
    ("macros/pattern_argument", &["needs a name", "(a, b)"]),
    ("macros/prompt_as_tool", &["expected `ToolRoute<_>`, found `PromptRoute<_>`"]),
    ("macros/prompt_output", &["Image` cannot be the output", "PromptKind"]),
    ("macros/resource_variable_missing", &["no variable `{date}`", "`{day}`"]),
    ("macros/resource_with_argument", &["no variable `{date}`", "notes://today"]),
    ("macros/resource_without_uri", &["a resource needs its URI"]),
    ("macros/route_missing", &["expected `ToolRoute<_>`, found fn item"]),
    ("macros/self_receiver", &["a handler has no `self`"]),
    ("macros/state_missing", &["the server has no state", "State<App>"]),
    ("macros/state_of_another_type", &["with_state(7)", "expected `App`, found integer"]),
    ("macros/template_as_resource", &["expected `ResourceRoute<_>`, found `TemplateRoute<_>`"]),
    ("macros/template_not_valid", &["brace is not closed", "notes://{date"]),
    ("macros/unknown_argument_option", &["defualt", "`name = \"…\"`"]),
    ("macros/unknown_option", &["unknown option `readonly`", "read_only"]),
    ("macros/unmarked_extractor", &["MaybeCaller", "cannot be an argument of a call"]),
    // `#[debug_handler]`.
    ("debug_handler/args_not_last", &["must be the last argument", "Args<Query>"]),
    ("debug_handler/args_twice", &["arguments once", "Args<Query>"]),
    ("debug_handler/args_without_schema", &["Query", "JsonSchema"]),
    ("debug_handler/error_is_a_string", &["String` cannot be the error of a handler"]),
    ("debug_handler/future_not_send", &["future cannot be sent", "`count` is not `Send`"]),
    ("debug_handler/generic", &["no generic parameters", "show<T:"]),
    ("debug_handler/not_async", &["`now` is not `async`"]),
    ("debug_handler/output", &["`u64` cannot be the output"]),
    ("debug_handler/output_of_another_kind", &["Image` cannot be the output", "ResourceKind"]),
    ("debug_handler/plain_argument", &["String` cannot be the last argument", "name: String"]),
    ("debug_handler/plain_argument_first", &["`usize` cannot be an argument", "limit: usize"]),
    ("debug_handler/state_unknown", &["#[debug_handler(state = App)]"]),
    ("debug_handler/state_without_part", &["the state `App` of the server has no part `Config`"]),
    ("debug_handler/too_many_arguments", &["at most 8 arguments", "_: C"]),
];

#[test]
fn each_mistake_has_an_error_that_names_the_faulty_part_in_five_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let cases = trybuild::TestCases::new();
    for (name, _) in MISTAKES {
        // A relative path: the files then contain line numbers.
        cases.compile_fail(format!("tests/ui/{name}.rs"));
    }
    // Compiles the cases, and compares the errors with the files.
    drop(cases);
    for (name, parts) in MISTAKES {
        let error = fs::read_to_string(folder.join(name).with_extension("stderr")).unwrap();
        let first = error.lines().take(5).collect::<Vec<_>>().join("\n");
        for part in *parts {
            assert!(first.contains(part), "{name}: the first five lines lack `{part}`:\n{first}");
        }
    }
}

#[test]
fn the_table_lists_every_mistake() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut files = BTreeSet::new();
    for kind in fs::read_dir(&folder).unwrap() {
        for file in fs::read_dir(kind.unwrap().path()).unwrap() {
            let path = file.unwrap().path().with_extension("");
            files.insert(path.strip_prefix(&folder).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
    let listed: BTreeSet<String> = MISTAKES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, listed);
}
