//! Compile errors of typical mistakes. Each error names the faulty part in its first five lines.
//!
//! The texts around the named parts belong to the compiler and differ between its releases. The tables below therefore
//! contain only the faulty parts and the texts of this library, and no file stores a whole error.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

/// Each mistake, with texts that the first five lines of its error contain.
const MISTAKES: &[(&str, &[&str])] = &[
    // The plain API, without macros.
    ("plain/args_borrow", &["Args<Query<'_>>"]),
    ("plain/args_not_last", &["Args<Query>", "in this place"]),
    ("plain/args_twice", &["Args<Query>", "in this place"]),
    ("plain/args_without_deserialize", &["Query", "Deserialize"]),
    ("plain/args_without_schema", &["Query", "JsonSchema"]),
    ("plain/build_missing", &["call `.build()`", "serve_stdio"]),
    ("plain/build_missing_for_http", &["call `.build()`", "into_router"]),
    // The compiler alone writes the error of a wrong return type. A library can add texts to a missing trait only.
    ("plain/build_missing_in_return", &["-> Server", "mcp_server::Server"]),
    ("plain/check_completion", &["Image` cannot be the output", "CompletionKind"]),
    ("plain/check_prompt", &["Image` cannot be the output", "PromptKind"]),
    ("plain/check_resource", &["Image` cannot be the output", "ResourceKind"]),
    ("plain/check_tool", &["u64` cannot be the output", "ToolKind"]),
    ("plain/closure_captures_rc", &["Rc<", "text"]),
    ("plain/error_is_a_string", &["String` cannot be the error of a handler"]),
    ("plain/future_not_send", &["`count`", "`Send`"]),
    ("plain/json_without_schema", &["Size", "JsonSchema"]),
    ("plain/json_without_serialize", &["Size", "Serialize"]),
    ("plain/not_a_function", &["an async function of at most 8 arguments, but this is `&str`"]),
    ("plain/not_async", &["not `async`", "String`, which is not a future"]),
    ("plain/output_list_of_numbers", &["`u32` does not convert into a content block"]),
    ("plain/output_number", &["`u64` cannot be the output", "ToolKind"]),
    ("plain/output_of_another_kind", &["Image` cannot be the output", "ResourceKind"]),
    ("plain/plain_argument", &["String` cannot be an argument of a handler"]),
    ("plain/plain_argument_first", &["`usize` cannot be an argument of a handler"]),
    ("plain/prompt_as_tool", &["`ToolRoute<_>`", "`PromptRoute<_>`"]),
    ("plain/route_missing", &["tool(now)", "`ToolRoute<_>`"]),
    ("plain/state_missing", &["the server has no state", "State<App>", ".build()"]),
    ("plain/state_of_another_type", &["with_state(7)", "`App`"]),
    ("plain/state_without_part", &["config", "`ToolRoute<App>`", "`ToolRoute<Config>`"]),
    ("plain/too_many_arguments", &["at most 8 arguments", "tool(\"all\", all)"]),
    // `#[tool]`, `#[prompt]` and `#[resource]`: mistakes whose error depends on the code that the macros write.
    ("macros/args_and_plain_argument", &["takes all arguments of the call", "Args<Range>"]),
    ("macros/args_not_last", &["it must be last", "Args<Range>"]),
    ("macros/argument_without_schema", &["color: Color", "`Color` cannot be an argument of a call"]),
    ("macros/borrowed_argument", &["the argument `name` borrows"]),
    ("macros/default_of_an_option", &["`lines` is an `Option`"]),
    ("macros/default_of_another_type", &["u32"]),
    ("macros/error_is_a_string", &["String` cannot be the error of a handler"]),
    ("macros/flag_with_value", &["`read_only` has no value"]),
    ("macros/future_not_send", &["`count`", "`Send`"]),
    ("macros/generic", &["no generic parameters", "show<T:"]),
    ("macros/impl_trait_argument", &["impl std::fmt::Display"]),
    ("macros/marked_but_not_an_extractor", &["String` cannot be an argument of a handler", "show::route()"]),
    ("macros/not_a_function", &["belongs on a function", "struct Now"]),
    ("macros/not_async", &["`now` is not `async`"]),
    ("macros/option_of_another_type", &["title = 3"]),
    ("macros/option_without_value", &["`title` needs a value"]),
    ("macros/output_number", &["`u64` cannot be the output"]),
    ("macros/pattern_argument", &["needs a name", "(a, b)"]),
    ("macros/prompt_output", &["Image` cannot be the output", "PromptKind"]),
    ("macros/resource_variable_missing", &["no variable `{date}`", "`{day}`"]),
    ("macros/resource_with_argument", &["no variable `{date}`", "notes://today"]),
    ("macros/resource_without_uri", &["a resource needs its URI"]),
    ("macros/schema_with_another_name", &["the schema names this argument `day`", "rename = \"day\""]),
    ("macros/self_receiver", &["a handler has no `self`"]),
    ("macros/state_missing", &["the server has no state", "State<App>"]),
    ("macros/resource_with_renamed_argument", &["no variable `{date}`", "`{day}`"]),
    ("macros/template_as_resource", &["`ResourceRoute<_>`", "`TemplateRoute<_>`"]),
    ("macros/template_not_valid", &["brace is not closed", "notes://{date"]),
    ("macros/two_names", &["second name", "name = \"date\""]),
    ("macros/unknown_argument_option", &["defualt", "`name = \"…\"`"]),
    ("macros/unknown_option", &["unknown option `readonly`", "read_only"]),
    ("macros/unmarked_extractor", &["MaybeCaller", "cannot be an argument of a call"]),
    // `#[debug_handler]`.
    ("debug_handler/args_not_last", &["must be the last argument", "Args<Query>"]),
    ("debug_handler/args_twice", &["arguments once", "Args<Query>"]),
    ("debug_handler/args_without_schema", &["Query", "JsonSchema"]),
    ("debug_handler/error_is_a_string", &["String` cannot be the error of a handler"]),
    ("debug_handler/future_not_send", &["`count`", "`Send`"]),
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

/// Texts of this library that help to mend a mistake. They follow the first five lines.
const NOTES: &[(&str, &[&str])] = &[
    ("plain/args_not_last", &["must be the last argument", "docs/handlers.md"]),
    ("plain/error_is_a_string", &["ToolError::new", "docs/handlers.md"]),
    ("plain/not_a_function", &["an `async fn` or an async closure", "docs/handlers.md"]),
    ("plain/not_async", &["write `async fn`", "docs/handlers.md"]),
    ("plain/output_list_of_numbers", &["docs/handlers.md"]),
    ("plain/output_number", &["a tool returns text", "docs/handlers.md"]),
    ("plain/plain_argument", &["plain values are fields of a struct", "docs/handlers.md"]),
    ("plain/state_missing", &[".with_state(…)", "docs/handlers.md"]),
    ("macros/argument_without_schema", &["derive both for the type", "docs/handlers.md"]),
    ("macros/unmarked_extractor", &["write `#[extract]`", "docs/handlers.md"]),
    ("debug_handler/plain_argument", &["plain values are fields of a struct", "docs/handlers.md"]),
    ("debug_handler/state_without_part", &["impl FromRef<App> for Config", "docs/handlers.md"]),
];

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ui");

#[test]
fn each_mistake_has_an_error_that_names_the_faulty_part_in_five_lines() {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
    // trybuild stores the errors, instead of comparing them with files, only if its variable is set.
    if env::var_os("TRYBUILD").is_some() {
        return compile_the_mistakes(&copies);
    }
    let name = "each_mistake_has_an_error_that_names_the_faulty_part_in_five_lines";
    let arguments = ["--exact", name, "--nocapture"];
    let compiled =
        Command::new(env::current_exe().unwrap()).args(arguments).env("TRYBUILD", "overwrite").output().unwrap();
    assert!(compiled.status.success(), "{}\n{}", compiler(), String::from_utf8_lossy(&compiled.stderr));
    let error = |name: &str| fs::read_to_string(copies.join(name).with_extension("stderr")).unwrap();
    let mut failures = Vec::new();
    for (name, parts) in MISTAKES {
        let first = error(name).lines().take(5).collect::<Vec<_>>().join("\n");
        let missing: Vec<_> = parts.iter().filter(|part| !first.contains(**part)).collect();
        if !missing.is_empty() {
            failures.push(format!("{name}: the first five lines lack {missing:?}:\n{first}"));
        }
    }
    for (name, notes) in NOTES {
        let error = error(name);
        let missing: Vec<_> = notes.iter().filter(|note| !error.contains(**note)).collect();
        if !missing.is_empty() {
            failures.push(format!("{name}: the error lacks {missing:?}:\n{error}"));
        }
    }
    assert!(failures.is_empty(), "{}\n\n{}", compiler(), failures.join("\n\n"));
}

/// Compiles copies of the mistakes. trybuild writes each error beside its copy, and fails if a mistake compiles.
fn compile_the_mistakes(copies: &Path) {
    if copies.exists() {
        // The errors of an earlier run must not satisfy the tables.
        fs::remove_dir_all(copies).unwrap();
    }
    let cases = trybuild::TestCases::new();
    for (name, _) in MISTAKES {
        let copy = copies.join(name).with_extension("rs");
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(Path::new(FOLDER).join(name).with_extension("rs"), &copy).unwrap();
        cases.compile_fail(copy);
    }
}

/// Returns the release of the compiler, for the report of a failure.
fn compiler() -> String {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn the_table_lists_every_mistake() {
    let folder = Path::new(FOLDER);
    let mut files = BTreeSet::new();
    for kind in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(kind.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            assert_eq!(path.extension().unwrap(), "rs", "{}: the folder contains mistakes only", path.display());
            files.insert(path.with_extension("").strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
    let listed: BTreeSet<String> = MISTAKES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, listed);
    let noted: BTreeSet<String> = NOTES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(noted.is_subset(&listed), "{noted:?}");
}
