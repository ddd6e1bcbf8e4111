//! What a file says of a tool, a prompt or a server: manifests in TOML or JSON, and Markdown with front matter.

use std::{path::PathBuf, time::Duration};

use mcp_protocol::{PromptArgument, ToolAnnotations};
use mcp_schema::FrontMatter;
use mcp_server_core::{MessageTemplate, PromptRoute, prompt_template};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A tool that is a command. `examples/from-dir` shows all of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolManifest {
    /// The name of the file without its ending, when absent.
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    /// The program and its arguments; no shell reads them.
    pub(crate) command: Vec<String>,
    #[serde(alias = "inputSchema")]
    pub(crate) input_schema: Option<Map<String, Value>>,
    #[serde(alias = "outputSchema")]
    pub(crate) output_schema: Option<Map<String, Value>>,
    pub(crate) annotations: Option<Hints>,
    /// Where it runs, from the served directory on; there, when absent.
    pub(crate) cwd: Option<PathBuf>,
    /// The names of the environment variables that it gets besides `PATH`.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Seconds that a call may take.
    pub(crate) timeout: Option<f64>,
    /// JSON where there is an output schema, and text otherwise, when absent.
    pub(crate) output: Option<OutputForm>,
    /// The most bytes that it may write.
    pub(crate) max_output: Option<usize>,
    /// How many may run at once; more calls wait for one to end.
    pub(crate) max_running: Option<usize>,
    /// What a caller over a network must have been granted.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
}

/// What a command writes.
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
    /// How long a call may take, if the manifest says so.
    pub(crate) fn limit(&self) -> Result<Option<Duration>, String> {
        let Some(seconds) = self.timeout else { return Ok(None) };
        match Duration::try_from_secs_f64(seconds) {
            Ok(limit) if !limit.is_zero() => Ok(Some(limit)),
            _ => Err(format!("`timeout` is {seconds}: it is a number of seconds above zero")),
        }
    }
}

/// What a directory says of the server that it is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerManifest {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
}

/// Reads a manifest, whose form the ending of its name tells.
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

/// A prompt out of Markdown: the front matter says what it is, the rest is a message of the user with places for arguments.
pub(crate) fn prompt(stem: &str, text: &str) -> Result<PromptRoute, String> {
    let FrontMatter { members, body, .. } = FrontMatter::read(text).map_err(|error| error.to_string())?;
    let manifest: PromptManifest =
        serde_json::from_value(Value::Object(members)).map_err(|error| format!("the front matter: {error}"))?;
    let body = body.trim_matches(['\r', '\n']);
    if body.trim().is_empty() {
        return Err("there is no text below the front matter".to_owned());
    }
    if let Some(place) = unclosed(body) {
        return Err(format!("the brace of `{place}` is never closed"));
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

/// The first place or condition whose brace is never closed, shortened. A brace that opens neither is text.
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

/// What the front matter says of an argument, where the text has a place for it.
fn describe(said: Argument, known: &mut [PromptArgument]) -> Result<(), String> {
    let Some(argument) = known.iter_mut().find(|known| known.name == said.name) else {
        return Err(format!("the argument `{0}` has no place in the text: `{{{0}}}`", said.name));
    };
    argument.title = said.title;
    argument.description = said.description;
    argument.required = said.required.or(argument.required);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_in_both_forms() {
        let toml = "description = \"d\"\ncommand = [\"a\", \"b\"]\n[input_schema]\ntype = \"object\"\n";
        let json = r#"{ "description": "d", "command": ["a", "b"], "inputSchema": { "type": "object" } }"#;
        for (name, text) in [("x.toml", toml), ("x.json", json)] {
            let manifest: ToolManifest = read(name, text).unwrap();
            assert_eq!(manifest.command, ["a", "b"]);
            assert_eq!(manifest.input_schema.unwrap()["type"], "object");
        }
    }

    #[test]
    fn what_is_wrong_with_a_manifest_is_told() {
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
    fn what_is_wrong_with_a_prompt_is_told() {
        for (text, reason) in [
            ("---\nname: x\n---\n", "no text"),
            ("", "no text"),
            ("---\ncolour: 1\n---\nhi", "unknown field `colour`"),
            ("---\narguments:\n- name: who\n---\nhi", "`who` has no place in the text: `{who}`"),
            ("---\narguments:\n- who\n---\nhi", "front matter"),
            ("---\nname: x\nhi", "no end"),
            ("Hi {unclosed\nthere", "the brace of `{unclosed` is never closed"),
            ("a {?x? b", "the brace of `{?x? b` is never closed"),
        ] {
            let error = prompt("p", text).map(|_| ()).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        for text in ["{\"a\": {", "{", "} {x}", "{?x?{y}}", "{ return"] {
            assert!(prompt("p", text).is_ok(), "{text}");
        }
    }
}
