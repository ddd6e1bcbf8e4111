//! The same text in each format: its own variables are expanded, and texts of other rules stay.

use mcp_agent::config::Environment;

use super::{env, parse, stdio};

/// Files of each rule with one server `s` and one environment variable `V`, whose value replaces `TEXT`.
const FILES: &[(&str, &str)] = &[
    ("/p/.mcp.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/p/.kiro/settings/mcp.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/x/claude_desktop_config.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/p/.cursor/mcp.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/p/.vscode/mcp.json", r#"{"servers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/x/mcp_config.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/p/.gemini/settings.json", r#"{"mcpServers":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/p/opencode.json", r#"{"mcp":{"s":{"command":["c"],"environment":{"V":TEXT}}}}"#),
    ("/h/.continue/config.yaml", "mcpServers:\n- name: s\n  command: c\n  env: {V: TEXT}\n"),
    ("/p/.crush.json", r#"{"mcp":{"s":{"command":"c","env":{"V":TEXT}}}}"#),
    ("/x/goose/config.yaml", "extensions:\n  s: {type: stdio, cmd: c, envs: {V: TEXT}}\n"),
    ("/x/config.toml", "[mcp_servers.s]\ncommand = \"c\"\nenv = { V = TEXT }\n"),
];

/// A result: the text itself, an expanded text, or an error code.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Same,
    Value(&'static str),
    Error(&'static str),
}

#[test]
fn each_format_expands_its_own_variables_only() {
    use Expected::{Error, Same, Value};
    let unset = Error("unset-variable");
    // Columns: portable, Kiro, Claude Desktop, Cursor, VS Code, Windsurf, Gemini, opencode, Continue, Crush, goose, Codex.
    let table: &[(&str, [Expected; 12])] = &[
        ("$SET", [Same, Same, Same, Same, Same, Same, Value("v"), Same, Same, Value("v"), Same, Same]),
        ("${SET}", [Value("v"), Value("v"), Same, Same, Same, Same, Value("v"), Same, Same, Value("v"), Same, Same]),
        ("${UNSET}", [unset, unset, Same, Same, Same, Same, unset, Same, Same, unset, Same, Same]),
        ("${UNSET:-d}", [Value("d"), unset, Same, Same, Same, Same, unset, Same, Same, unset, Same, Same]),
        (
            "${env:SET}",
            [unset, unset, Same, Value("v"), Value("v"), Value("v"), unset, Value("$v"), Same, unset, Same, Same],
        ),
        ("{env:SET}", [Same, Same, Same, Same, Same, Same, Same, Value("v"), Same, Same, Same, Same]),
        ("{env:UNSET}", [Same, Same, Same, Same, Same, Same, Same, unset, Same, Same, Same, Same]),
        ("${{ secrets.SET }}", [unset, unset, Same, Same, Same, Same, unset, Same, Value("v"), unset, Same, Same]),
        (
            "$(touch /tmp/never)",
            [Same, Same, Same, Same, Same, Same, Same, Same, Same, Error("command-substitution"), Same, Same],
        ),
        ("100 $ and 5$", [Same, Same, Same, Same, Same, Same, Same, Same, Same, Same, Same, Same]),
    ];
    let environment = Environment::default().variable("SET", "v").home("/h").workspace("/p");
    for (text, columns) in table {
        for ((file, template), expected) in FILES.iter().zip(columns) {
            let source = template.replace("TEXT", &format!("\"{text}\""));
            let config = parse(file, &source, &environment).unwrap_or_else(|error| panic!("{error}"));
            let found = config.errors.first().map_or_else(
                || Ok(env(stdio(&config, "s"), "V").unwrap_or_default().to_owned()),
                |error| Err(error.code.as_str()),
            );
            let expected = match expected {
                Same => Ok((*text).to_owned()),
                Value(value) => Ok((*value).to_owned()),
                Error(code) => Err(*code),
            };
            assert_eq!(found, expected, "{file}: {text}");
        }
    }
}

#[test]
fn nested_defaults_are_for_headers_only() {
    let text = r#"{"mcpServers":{
        "h":{"url":"https://h.example/","headers":{"X":"${A:-${B:-deep}}"}},
        "c":{"command":"c","args":["${A:-${B}"]}}}"#;
    let config = parse("/p/.mcp.json", text, &Environment::default()).unwrap();
    assert_eq!(super::header(super::http(&config, "h"), "X"), Some("deep"));
    // Outside of headers, the first brace ends the variable.
    assert_eq!(stdio(&config, "c").args, ["${B"]);
}

#[test]
fn an_empty_variable_is_set() {
    let text = r#"{"mcpServers":{"s":{"command":"c","env":{"V":"[${E:-d}${E}]"}}}}"#;
    let config = parse("/p/.mcp.json", text, &Environment::default().variable("E", "")).unwrap();
    assert_eq!(env(stdio(&config, "s"), "V"), Some("[]"));
}

#[test]
fn no_error_and_no_debug_text_has_the_variable_of_a_path() {
    let directory = super::directory("paths");
    std::fs::write(directory.join("s3cret.env"), "no variable").unwrap();
    let environment = Environment::default().variable("K", "s3cret");
    let file = directory.join(".cursor/mcp.json");
    for path in ["none/${env:K}.env", "${env:K}.env"] {
        let text = format!(r#"{{"mcpServers":{{"s":{{"command":"c","envFile":"{path}"}}}}}}"#);
        let config = parse(file.to_str().unwrap(), &text, &environment).unwrap();
        let (error, shown) = (config.errors[0].to_string(), format!("{config:?}"));
        assert!(error.contains(path) && !error.contains("s3cret"), "{error}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
