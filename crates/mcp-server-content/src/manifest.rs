//! Manifests of tools and servers in TOML or JSON, and prompts in Markdown with front matter.

use std::{path::PathBuf, time::Duration};

use mcp_protocol::{PromptArgument, ToolAnnotations};
use mcp_schema::FrontMatter;
use mcp_server_core::{MessageTemplate, PromptRoute, prompt_template};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The manifest of a tool that runs a command. `examples/from-dir` shows all keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolManifest {
    /// The name of the tool. The default is the name of the file without its ending.
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    /// The program and its arguments. No shell interprets them.
    pub(crate) command: Vec<String>,
    #[serde(alias = "inputSchema")]
    pub(crate) input_schema: Option<Map<String, Value>>,
    #[serde(alias = "outputSchema")]
    pub(crate) output_schema: Option<Map<String, Value>>,
    pub(crate) annotations: Option<Hints>,
    /// The working directory, relative to the content directory. The default is the content directory.
    pub(crate) cwd: Option<PathBuf>,
    /// The names of the environment variables that the program receives besides `PATH`.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// The timeout of a call, in seconds.
    pub(crate) timeout: Option<f64>,
    /// The form of the output. The default is JSON with an output schema, and text without one.
    pub(crate) output: Option<OutputForm>,
    /// The largest output, in bytes.
    pub(crate) max_output: Option<usize>,
    /// The number of programs that run at the same time. Further calls wait.
    pub(crate) max_running: Option<usize>,
    /// The scopes that a caller over a network needs.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
}

/// The form of the output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputForm {
    Text,
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hints {
    title: Option<String>,
    #[serde(alias = "readOnlyHint")]
    read_only: Option<bool>,
    #[serde(alias = "destructiveHint")]
    destructive: Option<bool>,
    #[serde(alias = "idempotentHint")]
    idempotent: Option<bool>,
    #[serde(alias = "openWorldHint")]
    open_world: Option<bool>,
}

impl From<Hints> for ToolAnnotations {
    fn from(hints: Hints) -> Self {
        let mut annotations = Self::new();
        annotations.title = hints.title;
        annotations.read_only_hint = hints.read_only;
        annotations.destructive_hint = hints.destructive;
        annotations.idempotent_hint = hints.idempotent;
        annotations.open_world_hint = hints.open_world;
        annotations
    }
}

impl ToolManifest {
    /// Returns the timeout of a call, if the manifest sets one.
    pub(crate) fn limit(&self) -> Result<Option<Duration>, String> {
        let Some(seconds) = self.timeout else { return Ok(None) };
        match Duration::try_from_secs_f64(seconds) {
            Ok(limit) if !limit.is_zero() => Ok(Some(limit)),
            _ => Err(format!("`timeout` is {seconds}: it must be a number of seconds above zero")),
        }
    }
}

/// The manifest of a server.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerManifest {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
}

/// Parses a manifest as TOML or JSON, by the ending of the file name.
pub(crate) fn read<T: DeserializeOwned>(file_name: &str, text: &str) -> Result<T, String> {
    if file_name.ends_with(".json") {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let message = error.message().replace('\n', " ");
        line.map_or_else(|| message.clone(), |line| format!("{message} at line {line}"))
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptManifest {
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    #[serde(default)]
    arguments: Vec<Argument>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    name: String,
    title: Option<String>,
    description: Option<String>,
    required: Option<bool>,
}

/// Creates a prompt from Markdown: front matter, and one message of the user with placeholders for arguments.
pub(crate) fn prompt(stem: &str, text: &str) -> Result<PromptRoute, String> {
    let FrontMatter { members, body, .. } = FrontMatter::read(text).map_err(|error| error.to_string())?;
    let manifest: PromptManifest =
        serde_json::from_value(Value::Object(members)).map_err(|error| format!("the front matter: {error}"))?;
    let body = body.trim_matches(['\r', '\n']);
    if body.trim().is_empty() {
        return Err("there is no text below the front matter".to_owned());
    }
    if let Some(place) = unclosed(body) {
        return Err(format!("the brace of `{place}` is not closed"));
    }
    let mut route = prompt_template(manifest.name.as_deref().unwrap_or(stem), [MessageTemplate::user(body)]);
    for argument in manifest.arguments {
        describe(argument, route.arguments_mut())?;
    }
    if let Some(title) = manifest.title {
        route = route.title(title);
    }
    Ok(match manifest.description {
        Some(text) => route.description(text),
        None => route,
    })
}

/// Returns the first placeholder or condition without its closing brace, shortened. Other braces are plain text.
fn unclosed(text: &str) -> Option<String> {
    let mut open = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '{' => open.push(at),
            '}' => drop(open.pop()),
            _ => {}
        }
    }
    let opens = |rest: &&str| rest[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '?');
    let rest = open.into_iter().map(|at| &text[at..]).find(opens)?;
    Some(rest.lines().next().unwrap_or(rest).chars().take(40).collect())
}

/// Applies the front matter of an argument. The text needs a placeholder for it.
fn describe(declared: Argument, known: &mut [PromptArgument]) -> Result<(), String> {
    let Some(argument) = known.iter_mut().find(|known| known.name == declared.name) else {
        return Err(format!("the argument `{0}` has no placeholder `{{{0}}}` in the text", declared.name));
    };
    argument.title = declared.title;
    argument.description = declared.description;
    argument.required = declared.required.or(argument.required);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_parses_toml_and_json() {
        let toml = "description = \"d\"\ncommand = [\"a\", \"b\"]\n[input_schema]\ntype = \"object\"\n";
        let json = r#"{ "description": "d", "command": ["a", "b"], "inputSchema": { "type": "object" } }"#;
        for (name, text) in [("x.toml", toml), ("x.json", json)] {
            let manifest: ToolManifest = read(name, text).unwrap();
            assert_eq!(manifest.command, ["a", "b"]);
            assert_eq!(manifest.input_schema.unwrap()["type"], "object");
        }
    }

    #[test]
    fn read_reports_the_reason_and_the_line() {
        for (name, text, reason) in [
            ("x.toml", "description = \"d\"\ncommand = []\ncolour = 1\n", "unknown field `colour`"),
            ("x.toml", "description = \"d\"\ncommand = []\ncolour = 1\n", "line 3"),
            ("x.json", r#"{ "description": "d", "command": [], "colour": 1 }"#, "unknown field `colour`"),
            ("x.toml", "description = \"d\"\n", "missing field `command`"),
            ("x.toml", "description", "line 1"),
            ("x.json", "{", "line 1"),
            ("x.toml", "command = \"ls\"\ndescription = \"d\"", "line 1"),
            ("x.toml", "description = \"d\"\ncommand = []\n[annotations]\nsafe = true", "unknown field `safe`"),
        ] {
            let error = read::<ToolManifest>(name, text).unwrap_err();
            assert!(error.contains(reason) && !error.contains('\n'), "{text}: {error}");
        }
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let text = r#"{ "description": "d", "command": [] }"#;
            let mut manifest: ToolManifest = read("x.json", text).unwrap();
            manifest.timeout = Some(seconds);
            assert!(manifest.limit().is_err(), "{seconds}");
        }
    }

    #[test]
    fn prompt_reports_the_reason() {
        for (text, reason) in [
            ("---\nname: x\n---\n", "no text"),
            ("", "no text"),
            ("---\ncolour: 1\n---\nhi", "unknown field `colour`"),
            ("---\narguments:\n- name: who\n---\nhi", "`who` has no placeholder `{who}` in the text"),
            ("---\narguments:\n- who\n---\nhi", "front matter"),
            ("---\nname: x\nhi", "no end"),
            ("Hi {unclosed\nthere", "the brace of `{unclosed` is not closed"),
            ("a {?x? b", "the brace of `{?x? b` is not closed"),
        ] {
            let error = prompt("p", text).map(|_| ()).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        for text in ["{\"a\": {", "{", "} {x}", "{?x?{y}}", "{ return"] {
            assert!(prompt("p", text).is_ok(), "{text}");
        }
    }
}
