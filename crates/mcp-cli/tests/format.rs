//! `mcp tools --format` and `mcp call --format`.

use serde_json::Value;

use super::{Http, check, json_of, mcp, process::BoundedOutput as _, run, text};
#[cfg(unix)]
use super::{configuration::Project, process::script};

#[test]
fn tools_are_the_member_of_the_request_of_each_provider() {
    let http = Http::start();
    for (format, name, schema) in [
        ("anthropic", "/name", "/input_schema"),
        ("openai", "/function/name", "/function/parameters"),
        ("openai-responses", "/name", "/parameters"),
        ("bedrock", "/toolSpec/name", "/toolSpec/inputSchema/json"),
        ("mistral", "/function/name", "/function/parameters"),
        ("ollama", "/function/name", "/function/parameters"),
        ("gemini", "/name", "/parameters"),
    ] {
        let tools = json_of(&http.url, &format!("tools URL --format {format}"));
        let tools = if format == "gemini" { tools[0]["functionDeclarations"].clone() } else { tools };
        let add = tools.as_array().unwrap().iter().find(|tool| tool.pointer(name).is_some_and(|name| name == "add"));
        let schema = add.and_then(|add| add.pointer(schema)).unwrap_or_else(|| panic!("{format}: {tools}"));
        assert_eq!(schema["properties"]["a"]["type"], "integer", "{format}");
        let one = json_of(&http.url, &format!("tools URL add --format {format}"));
        let one = if format == "gemini" { one[0]["functionDeclarations"].clone() } else { one };
        assert_eq!((one.as_array().unwrap().len(), one[0].pointer(name)), (1, Some(&"add".into())), "{format}");
    }
    check(&http.url, "tools URL --format anthropic --strict", 0, "[{", "");
    check(&http.url, "tools URL --strict", 2, "", "--format");
    check(&http.url, "tools URL --format perl", 2, "", "openai-responses");
    check(&http.url, "tools URL none --format gemini", 2, "", "the server lists no tool `none`");
}

#[test]
fn a_call_takes_the_arguments_of_a_model() {
    let http = Http::start();
    for (format, arguments) in [
        ("anthropic", r#"{"a":1,"b":2}"#),
        ("openai", r#"{"a":1,"b":2}"#),
        ("openai", r#""{\"a\":1,\"b\":2}""#),
        ("openai-responses", r#"{"a":1,"b":2}"#),
        ("gemini", r#"{"a":1,"b":2}"#),
        ("bedrock", r#"{"a":1,"b":2}"#),
        ("mistral", r#"{"a":1,"b":2}"#),
        ("ollama", r#"{"a":1,"b":2}"#),
    ] {
        check(&http.url, &format!("call URL --format {format} add {arguments}"), 0, "3", "");
    }
    check(&http.url, "call URL --format openai add {\"a\":1,", 2, "", "the arguments are not valid JSON");
    check(&http.url, "call URL --format openai add [1]", 2, "", "the arguments are [1] instead of a JSON object");
    check(&http.url, "call URL --format openai ad {}", 2, "", "did you mean add?");
    check(&http.url, "call URL --format openai add {} {}", 2, "", "unexpected argument `{}`");
    check(&http.url, "call URL --format openai", 2, "", "the name of a tool is required");
    // Absent arguments are an empty object. The server rejects it, because `a` is required.
    assert_ne!(run(&http.url, "call URL --format openai add").status.code(), Some(2));
}

/// A server with a tool that no provider accepts, a tool with names that providers refuse, and a tool for each argument.
#[cfg(unix)]
const DIFFICULT: &str = r#"
while read -r line; do case "$line" in
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[
{"name":"text.only","inputSchema":{"type":"string"}},
{"name":"find.it","inputSchema":{"type":"object","properties":{"page[size]":{"type":"integer"},"after":{"type":"string"},"note":{"type":["string","null"]}}}}
]}' ;;
*'"find.it"'*'"arguments":{"page[size]":3,"note":null}'*) answer '{"content":[{"type":"text","text":"as the server expects"}]}' ;;
*'"tools/call"'*) answer '{"content":[{"type":"text","text":"other arguments"}],"isError":true}' ;;
esac; done
"#;

/// A server without tools.
#[cfg(unix)]
const EMPTY: &str = r#"
while read -r line; do case "$line" in
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[]}' ;;
esac; done
"#;

/// A server with definitions that are not valid.
#[cfg(unix)]
const MALFORMED: &str = r#"
while read -r line; do case "$line" in
*'"server/discover"'*) answer 1 | sed 's/"result":1/"error":{"code":-32601,"message":"unknown"}/' ;;
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[
{"name":"valid","inputSchema":{"type":"object"}},
{"name":"none","inputSchema":null},
{"name":7,"inputSchema":{}}
]}' ;;
*'"tools/call"'*) answer '{"content":[{"type":"text","text":"called"}]}' ;;
esac; done
"#;

#[cfg(unix)]
fn output_of(arguments: &[&str], server: &str) -> (Option<i32>, String, String) {
    // The answers of the script are lines.
    let server = server.replace(",\n{", ",{").replace("[\n{", "[{").replace("}\n]", "}]");
    let line = ["--revision", "2025-11-25", "--"];
    let output = mcp().args(arguments).args(line).args(script(&server)).bounded_output();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[cfg(unix)]
#[test]
fn losses_are_warnings_and_strict_fails_if_a_tool_was_left_out() {
    for format in ["anthropic", "openai", "openai-responses", "gemini", "bedrock", "mistral", "ollama"] {
        let (code, out, err) = output_of(&["tools", "--format", format], DIFFICULT);
        assert_eq!(code, Some(0), "{err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert!(value.to_string().contains("find_it_0"), "{out}");
        assert!(err.contains("warning: text.only is left out: the root of the schema accepts no object"), "{err}");
        assert!(err.contains("warning: find.it: the name is find_it_0"), "{err}");
        let (code, strict, err) = output_of(&["tools", "--format", format, "--strict"], DIFFICULT);
        assert_eq!((code, strict), (Some(1), out), "{err}");
        assert!(err.contains("1 tool was left out"), "{err}");
    }
}

#[cfg(unix)]
#[test]
fn tools_above_the_limit_of_a_provider_cause_one_warning() {
    let tools: Vec<String> =
        (0..131).map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#)).collect();
    let server = EMPTY.replace("CAPABILITIES", "\"tools\":{}");
    let server = server.replace("\"tools\":[]", &format!("\"tools\":[{}]", tools.join(",")));
    let (code, out, err) = output_of(&["tools", "--format", "openai"], &server);
    assert_eq!((code, out.matches("\"function\":").count()), (Some(0), 128), "{err}");
    let warning = "warning: t128 and 2 other tools are left out: the request has 128 tools already";
    assert_eq!((err.contains(warning), err.matches("left out").count()), (true, 1), "{err}");
    let (code, _, err) = output_of(&["tools", "--format", "openai", "--strict"], &server);
    assert_eq!((code, err.contains("3 tools were left out")), (Some(1), true), "{err}");
}

#[cfg(unix)]
#[test]
fn an_invalid_definition_is_named_once_and_strict_fails() {
    let faults = [
        "warning: the server `x`: the tool `none` is left out: its member `inputSchema` is invalid: null instead of an object",
        "warning: the server `x`: the tool at the position 3 of the list is left out: its member `name` is invalid: integer `7`",
    ];
    for (arguments, code) in [
        (&["tools"][..], 0),
        (&["tools", "--format", "gemini"], 0),
        (&["tools", "--format", "gemini", "--strict"], 1),
        (&["call", "--format", "gemini", "none", "{}"], 2),
        (&["search", "valid"], 0),
    ] {
        let (found, out, err) = output_of(arguments, MALFORMED);
        assert_eq!(found, Some(code), "{arguments:?}\n{out}\n{err}");
        for fault in faults {
            assert_eq!(err.matches(fault).count(), 1, "{arguments:?}\n{err}");
        }
        assert!(!err.contains("method="), "{err}");
    }
    let (code, _, err) = output_of(&["tools", "--format", "gemini", "--strict", "valid"], MALFORMED);
    assert_eq!(code, Some(0), "{err}");
}

#[cfg(unix)]
#[test]
fn an_invalid_definition_of_a_configured_server_is_a_diagnostic() {
    let project = Project::new("malformed");
    let lines = MALFORMED.replace(",\n{", ",{").replace("[\n{", "[{").replace("}\n]", "}]");
    let [command, flag, text] = script(&lines);
    let servers = serde_json::json!({ "mcpServers": { "odd": { "command": command, "args": [flag, text] } } });
    let file = project.write("servers.json", &servers);
    let fault = "the tool `none` is left out: its member `inputSchema` is invalid";
    let (code, report) = project.doctor(&["--config", &file]);
    assert_eq!((code, &report["servers"][0]["state"]), (Some(1), &"degraded".into()), "{report}");
    let diagnostic = &report["diagnostics"][0];
    assert!(diagnostic["message"].as_str().is_some_and(|text| text.contains(fault)), "{report}");
    // The remedy names the same file.
    let remedy = diagnostic["remedy"].as_str().unwrap();
    assert!(remedy.contains(&format!("`mcp info --config {file} --server odd --trace`")), "{remedy}");
    let tools = ["tools", "--config", &file, "--format", "openai"];
    project.check(&tools, 0, "odd__valid", fault);
    project.check(&[&tools[..], &["--strict"]].concat(), 1, "odd__valid", "tools of the server `odd` were left out");
}

#[cfg(unix)]
#[test]
fn a_server_without_tools_has_the_value_null() {
    for capabilities in ["\"tools\":{}", ""] {
        let server = EMPTY.replace("CAPABILITIES", capabilities);
        let (code, out, err) = output_of(&["tools", "--format", "gemini", "--strict"], &server);
        assert_eq!((code, out.as_str()), (Some(0), "null\n"), "{err}");
    }
}

#[cfg(unix)]
#[test]
fn names_and_keys_of_the_provider_are_mapped_back() {
    for format in ["anthropic", "openai", "openai-responses", "gemini", "bedrock", "mistral", "ollama"] {
        let (_, out, _) = output_of(&["tools", "--format", format], DIFFICULT);
        let tools: Value = serde_json::from_str(&out).unwrap();
        let text = tools.to_string();
        let name = text.split('"').find(|word| word.starts_with("find_it_0")).unwrap();
        let key = text.split('"').find(|word| word.starts_with("page")).unwrap();
        assert_eq!(key == "page[size]", format.starts_with("openai"), "{format}: {key}");
        let arguments = format!(r#"{{"{key}":3,"after":null,"note":null}}"#);
        for name in [name, "find.it"] {
            let (code, out, err) = output_of(&["call", "--format", format, name, &arguments], DIFFICULT);
            assert_eq!((code, out.as_str()), (Some(0), "as the server expects\n"), "{format}: {err}");
        }
    }
}
