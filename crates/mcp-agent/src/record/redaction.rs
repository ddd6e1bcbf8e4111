//! Secrets that a recording does not contain.

use serde_json::Value;

/// The text in place of a secret.
const REDACTED: &str = "[redacted]";
/// The names of members whose texts are secrets, in lower case and without `-` and `_`.
const NAMES: &[&str] = &[
    "accesstoken",
    "apikey",
    "authorization",
    "bearertoken",
    "clientsecret",
    "cookie",
    "credential",
    "credentials",
    "idtoken",
    "password",
    "passwd",
    "privatekey",
    "proxyauthorization",
    "refreshtoken",
    "secret",
    "secretkey",
    "setcookie",
    "token",
    "xapikey",
];

/// The secrets of a host.
#[derive(Default)]
pub(super) struct Secrets {
    /// The longest first, so that no part of a secret is left.
    values: Vec<String>,
}

impl Secrets {
    pub(super) fn add(&mut self, value: String) {
        if !value.is_empty() && !self.values.contains(&value) {
            self.values.push(value);
            self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// Replaces the secrets in the texts and the member names of a message: known values, and the texts of members with the name
    /// of a secret.
    pub(super) fn hide(&self, message: &mut Value) {
        match message {
            Value::String(text) => self.hide_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(members) => {
                if members.keys().any(|name| self.has_secret(name)) {
                    *members =
                        std::mem::take(members).into_iter().map(|(name, member)| (self.hidden(name), member)).collect();
                }
                for (name, member) in members.iter_mut() {
                    match member {
                        Value::String(text) if is_secret(name) => REDACTED.clone_into(text),
                        other => self.hide(other),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn has_secret(&self, text: &str) -> bool {
        self.values.iter().any(|value| text.contains(value.as_str()))
    }

    fn hidden(&self, mut text: String) -> String {
        self.hide_text(&mut text);
        text
    }

    pub(super) fn hide_text(&self, text: &mut String) {
        for value in &self.values {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), REDACTED);
            }
        }
    }
}

fn is_secret(name: &str) -> bool {
    let plain = name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase());
    NAMES.iter().any(|secret| plain.clone().eq(secret.chars()))
}

/// Whether a value equals a recorded value, in which any text can stand for a secret.
pub(super) fn matches(recorded: &Value, value: &Value) -> bool {
    match (recorded, value) {
        (Value::String(recorded), Value::String(text)) => matches_text(recorded, text),
        (Value::Array(recorded), Value::Array(items)) => {
            recorded.len() == items.len() && recorded.iter().zip(items).all(|(recorded, item)| matches(recorded, item))
        }
        (Value::Object(recorded), Value::Object(members)) => {
            let is_same = |(name, recorded): (&String, &Value)| match members.get(name) {
                Some(member) => matches(recorded, member),
                None if name.contains(REDACTED) => {
                    members.iter().any(|(other, member)| matches_text(name, other) && matches(recorded, member))
                }
                None => false,
            };
            recorded.len() == members.len() && recorded.iter().all(is_same)
        }
        _ => recorded == value,
    }
}

fn matches_text(recorded: &str, text: &str) -> bool {
    let Some((start, rest)) = recorded.split_once(REDACTED) else { return recorded == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split(REDACTED).collect();
    let Some(end) = parts.pop() else { return false };
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_replaced_and_match_in_a_replay() {
        let mut secrets = Secrets::default();
        for value in ["hunter2", "hunter2-long", ""] {
            secrets.add(value.to_owned());
        }
        let message = json!({
            "params": { "progressToken": "t1", "arguments": { "API_Key": "k", "text": "a hunter2-long b hunter2", "n": 1 } },
            "schema": { "properties": { "token": { "type": "string" } } },
            "sessions": { "of-hunter2": 1 }
        });
        let mut recorded = message.clone();
        secrets.hide(&mut recorded);
        assert_eq!(recorded["params"]["progressToken"], "t1");
        assert_eq!(recorded["schema"], message["schema"]);
        assert_eq!(
            recorded["params"]["arguments"],
            json!({ "API_Key": "[redacted]", "text": "a [redacted] b [redacted]", "n": 1 })
        );
        assert_eq!(recorded["sessions"], json!({ "of-[redacted]": 1 }));
        assert!(matches(&recorded, &message));
        assert!(!matches(&recorded["sessions"], &json!({ "other": 1 })));
        for (recorded, text, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("[redacted]", "", true),
            ("x [redacted] y", "x 1 y", true),
            ("x [redacted] y", "x y", false),
            ("x[redacted]-[redacted]y", "x1-2y", true),
            ("x[redacted]-[redacted]y", "x12y", false),
        ] {
            assert_eq!(matches(&json!(recorded), &json!(text)), expected, "{recorded} {text}");
        }
        assert!(!matches(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 })) && !matches(&json!([1]), &json!([])));
    }
}
