//! Typing errors: variables of another format, members without an effect, misspelled members and objects without an end.

use mcp_agent::config::{Code, Environment};

use super::{parse, parse_valid};

#[test]
fn a_variable_in_the_form_of_another_format_names_its_own_form() {
    let text = r#"{"mcpServers": {"s": {"command": "${env:V1}"}}}"#;
    let error = parse("/p/.mcp.json", text, &Environment::default()).unwrap().errors.remove(0);
    assert_eq!((error.code, error.remedy.as_str()), (Code::UnsetVariable, "write `${V1}`"));
}

#[test]
fn a_member_without_an_effect_is_a_warning_and_a_member_of_another_program_is_not() {
    let config = |file: &str, entry: &str| {
        let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
        parse_valid(file, &text, &Environment::default())
    };
    for (file, entry, expected) in [
        ("/p/.mcp.json", r#"{"command": "a", "enviroment": {"A": "1"}}"#, &["enviroment"][..]),
        ("/p/.mcp.json", r#"{"command": "a", "arg": ["x"], "args": ["y"]}"#, &["arg"]),
        (
            "/p/.mcp.json",
            r#"{"command": "a", "x-mcp": {"overrides": {}, "filter": {}}}"#,
            &["x-mcp.filter", "x-mcp.overrides"],
        ),
        ("/p/.mcp.json", r#"{"command": "a", "x-mcp": {"denyTools": ["b"]}, "icon": "a.png", "x-vendor": {}}"#, &[]),
        ("/p/.mcp.json", r#"{"command": "a", "environment": null}"#, &[]),
        ("/p/mcp_config.json", r#"{"serverUrl": "https://x.example/"}"#, &[]),
        ("/p/.mcp.json", r#"{"url": "https://x.example/", "serverUrl": "https://y.example/"}"#, &["serverUrl"]),
    ] {
        let mut warnings: Vec<(String, &str)> = Vec::new();
        let config = config(file, entry);
        warnings.extend(config.warnings.iter().map(|warning| (warning.path.clone(), warning.code.as_str())));
        warnings.sort();
        let expected: Vec<(String, &str)> =
            expected.iter().map(|path| (format!("$.mcpServers.s.{path}"), "unknown-member")).collect();
        assert_eq!(warnings, expected, "{entry}");
        assert!(config.warnings.iter().all(|warning| warning.server.as_deref() == Some("s")), "{entry}");
    }
}

#[test]
fn the_error_of_a_missing_command_names_a_misspelled_one() {
    for (entry, found, remedy) in [
        (r#"{"comand": "a"}"#, "`comand`", "rename `comand` to `command`"),
        (r#"{"uri": "https://x.example/"}"#, "`uri`", "rename `uri` to `url`"),
        (r#"{"icon": "a"}"#, "neither", "add `command` for a local server, or `url` for a remote server"),
    ] {
        let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
        let config = parse("/p/.mcp.json", &text, &Environment::default()).unwrap();
        let [error] = &config.errors[..] else { panic!("{entry}: {:?}", config.errors) };
        assert!(error.message.contains(found), "{error}");
        assert_eq!(error.remedy, remedy);
    }
}

#[test]
fn the_error_of_an_object_without_an_end_has_the_place_of_both() {
    for (text, expected) in [
        (
            "{\n  \"mcpServers\": {\n  }\n\n",
            "at line 3, column 4: the text ends before the end of the object that begins at line 1, column 1",
        ),
        (
            "{\"a\": [1",
            "at line 1, column 9: the text ends before the end of the array that begins at line 1, column 7",
        ),
    ] {
        let error = parse("/p/.mcp.json", text, &Environment::default()).unwrap_err();
        assert!(error.message.contains(expected), "{error}");
    }
}
