//! The names of the members of an entry: misspelled ones, and ones without an effect.

use super::Context;
use crate::config::{code::Code, error::Fault, node::Node, origin::Format, own, rules::Rules};

/// Names with at least this similarity (Jaro-Winkler, between 0 and 1) are misspelled.
const SIMILAR: f64 = 0.9;
/// The names that formats give to a member with one meaning.
const ALIASES: &[&[&str]] = &[
    &["args", "arguments"],
    &["command", "cmd"],
    &["cwd"],
    &["description"],
    &["disabled"],
    &["enabled"],
    &["env", "environment", "envs"],
    &["headers", "http_headers"],
    &["type"],
    &["url", "uri", "serverUrl", "httpUrl"],
];
/// Further members that this library reads in some formats.
const OTHERS: &[&str] = &[
    "alwaysLoad",
    "auth",
    "authProviderType",
    "bearer_token",
    "bearer_token_env_var",
    "default_tools_approval_mode",
    "envFile",
    "env_http_headers",
    "env_keys",
    "env_vars",
    "headersHelper",
    "name",
    "oauth",
    "oauth_resource",
    "requestOptions",
    "required",
    "sandboxEnabled",
    "scopes",
    "settings",
    "source",
    "tcp",
    "tools",
    "trust",
    "x-mcp",
];

/// Whether an unknown name is almost a known name.
pub(in crate::config) fn is_similar(name: &str, known: &str) -> bool {
    strsim::jaro_winkler(&name.to_ascii_lowercase(), &known.to_ascii_lowercase()) >= SIMILAR
}

/// Whether a text differs from a known name by one typing error. A longer name can be that of another program.
fn is_typing_error(name: &str, known: &str) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
    let (name, known) = (plain(name), plain(known));
    name == known || name.len().abs_diff(known.len()) <= 1 && is_similar(&name, &known)
}

/// Rejects a misspelled `x-mcp`. Its `denyTools` would have no effect.
pub(super) fn check_own(entry: &Node<'_>) -> Result<(), Fault> {
    let misspelled = |name: &str| name != own::NAME && name.starts_with(['x', 'X']) && is_typing_error(name, own::NAME);
    match entry.members()?.into_iter().find(|(name, _)| misspelled(name)) {
        Some((_, node)) => Err(node.fault(
            Code::MisspelledMember,
            format!("the member is unknown, and `{}` has a similar name", own::NAME),
            format!("write `{}`, or remove the member", own::NAME),
        )),
        None => Ok(()),
    }
}

/// Returns a member that can mean one of these members, and the name of the latter.
pub(super) fn misspelled<'a>(entry: &Node<'a>, known: &[&'static str]) -> Option<(&'a str, &'static str)> {
    entry.members().ok()?.into_iter().find_map(|(name, _)| Some((name, similar(name, known)?)))
}

/// Returns the members without an effect: those with almost the name of a member, or with its name in another format, and the unknown
/// members of `x-mcp`. The other unknown members belong to other programs.
pub(in crate::config) fn without_effect(entry: &Node<'_>, context: &Context<'_>) -> Vec<Fault> {
    let known = known(&context.rules, context.format);
    let members = entry.members().unwrap_or_default();
    let is_unknown = |name: &str| !known.contains(&name) && !OTHERS.contains(&name);
    let unknown = members.into_iter().filter(|(name, node)| is_unknown(name) && !node.value.is_null());
    let mut faults: Vec<Fault> = unknown
        .filter_map(|(name, node)| {
            let similar = similar(name, &known)?;
            let message =
                format!("the member has no effect in this format, and `{similar}` has a similar name or meaning");
            Some(node.fault(Code::UnknownMember, message, format!("write `{similar}`, or remove the member")))
        })
        .collect();
    faults.extend(own::unknown_members(entry));
    faults
}

/// Returns the names of the members that this library reads in a format, without `OTHERS`.
fn known(rules: &Rules, format: Format) -> Vec<&'static str> {
    let mut known =
        vec!["args", "cwd", "description", "disabled", "enabled", "type", rules.command, rules.env, rules.headers];
    known.extend(rules.urls);
    known.extend(rules.times.iter().map(|(name, ..)| *name));
    known.extend([rules.allowed, rules.denied, rules.trusted]);
    known.retain(|name| !name.is_empty());
    if format == Format::Agents {
        known.push("env");
    }
    known
}

/// Returns the known member that an unknown name can mean.
fn similar(name: &str, known: &[&'static str]) -> Option<&'static str> {
    if let Some(similar) = known.iter().find(|known| is_typing_error(name, known)) {
        return Some(similar);
    }
    let alias = ALIASES.iter().find(|aliases| aliases.iter().any(|alias| is_typing_error(name, alias)))?;
    known.iter().copied().find(|known| alias.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_similar_and_a_member_of_another_program_is_not() {
        let known = known(&Format::Portable.rules(), Format::Portable);
        for (name, expected) in [
            ("arg", Some("args")),
            ("Args", Some("args")),
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("cmd", Some("command")),
            ("enviroment", Some("env")),
            ("environment", Some("env")),
            ("envs", Some("env")),
            ("serverUrl", Some("url")),
            ("header", Some("headers")),
            ("disable", Some("disabled")),
            ("timeouts", Some("timeout")),
            ("enabledTools", None),
            ("alwaysAllow", None),
            ("transport", None),
            ("icon", None),
            ("title", None),
            ("note", None),
            ("_comment", None),
            ("gallery", None),
            ("version", None),
            ("dev", None),
        ] {
            assert_eq!(similar(name, &known), expected, "{name}");
        }
    }
}
