//! `mcp auth explain`: the steps of a discovery, their documents and rules, and the changes that a login needs.

use std::fmt::Write as _;

use mcp_client::oauth::{DiscoveryCheck, DiscoveryStep, Explanation, Quirk, StepKind};
use serde_json::{Value, json};
use url::Url;

use crate::{
    failure::Failure,
    output::{Output, styled},
    style::{self, Style},
    text::{line, printable},
};

/// The indentation of the lines of a step.
const INDENT: &str = "   ";

/// Prints an explanation.
///
/// # Errors
/// If a login is not possible. The exit code is that of the login.
pub(super) fn print(server: &Url, explanation: &Explanation, out: Output) -> Result<(), Failure> {
    let server = &without_query(server);
    if out.json {
        out.value(&to_json(server, explanation))?;
    } else {
        let mut text = style::out(Style::Name, &line(server.as_str()));
        text.push('\n');
        for (index, step) in explanation.steps.iter().enumerate() {
            write_step(&mut text, index + 1, step);
        }
        if explanation.error.is_none() {
            let (style, conclusion) = Conclusion::of(explanation).shown();
            let _ = writeln!(text, "\n{}", style::out(style, conclusion));
        }
        styled(&text)?;
    }
    explanation.error.clone().map_or(Ok(()), |error| Err(error.into()))
}

/// The query of a URL may contain a key, and users pass an explanation on.
fn without_query(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url
}

/// The result of an explanation without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conclusion {
    Possible,
    /// No document names an authorization server, so a login tries default endpoints.
    Unverified,
    /// The server answered without authorization, and no document names an authorization server.
    Unneeded,
}

impl Conclusion {
    fn of(explanation: &Explanation) -> Self {
        let has = |kind, is_wanted: fn(&DiscoveryStep) -> bool| {
            explanation.steps.iter().any(|step| step.kind == kind && is_wanted(step))
        };
        if !has(StepKind::LegacyMetadata, |step| step.document.is_none()) {
            Self::Possible
        } else if has(StepKind::Challenge, |step| step.status.is_some_and(|status| status.is_success())) {
            Self::Unneeded
        } else {
            Self::Unverified
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Unverified => "unverified",
            Self::Unneeded => "unneeded",
        }
    }

    fn shown(self) -> (Style, &'static str) {
        match self {
            Self::Possible => (Style::Good, "a login is possible"),
            Self::Unverified => (
                Style::Warning,
                "the server has no metadata document: a login tries the endpoints /authorize, /token and /register of \
                 the revision 2025-03-26, which this command does not check; if the server expects a key, pass it with \
                 --header 'x-api-key: @FILE'",
            ),
            Self::Unneeded => (Style::Good, "the server answers without a login, and names no authorization server"),
        }
    }
}

fn write_step(text: &mut String, number: usize, step: &DiscoveryStep) {
    let kind = step.kind.name().replace('-', " ");
    let status = step.status.map(|status| status.as_str().to_owned()).unwrap_or_default();
    let url = step.url.as_deref().map(line).unwrap_or_default();
    let head = [kind, url, status].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ");
    let _ = writeln!(text, "\n{number}  {}", style::out(Style::Header, &head));
    if let Some(document) = &step.document {
        // `Value` prints control characters as escapes, and the others that a terminal interprets are replaced.
        let document = printable(&format!("{document:#}"));
        for line in document.lines() {
            let _ = writeln!(text, "{INDENT}{}", style::out(Style::Dim, line));
        }
    }
    if let Some(target) = &step.redirect {
        let _ = writeln!(text, "{INDENT}{}  {}", style::out(Style::Warning, "redirect"), line(target));
    }
    if let Some(reason) = &step.absence {
        let _ = writeln!(text, "{INDENT}{}  {}", style::out(Style::Warning, "no document"), line(reason));
    }
    for check in &step.checks {
        write_check(text, check);
    }
    write_quirks(text, &step.quirks);
}

fn write_quirks(text: &mut String, quirks: &[Quirk]) {
    for quirk in quirks {
        let _ =
            writeln!(text, "{INDENT}{}  {quirk}: {}", style::out(Style::Warning, "quirk"), quirk.kind.explanation());
        let _ = writeln!(text, "{INDENT}       {}", quirk.source);
    }
}

fn write_check(text: &mut String, check: &DiscoveryCheck) {
    let (result, reason) = result(check);
    let style = match result {
        FAILED => Style::Error,
        ASSUMED => Style::Warning,
        _ => Style::Good,
    };
    let _ = writeln!(text, "{INDENT}{}  {}", style::out(style, result), check.rule.requirement());
    if let Some(reason) = reason {
        let _ = writeln!(text, "{INDENT}        {}", line(reason));
    }
    if result == FAILED {
        let _ = writeln!(text, "{INDENT}        {} {}", style::out(Style::Strong, "remedy:"), check.rule.remedy());
    }
}

/// The results of a check.
const PASSED: &str = "passed";
const ASSUMED: &str = "assumed";
const FAILED: &str = "failed";

/// Returns the result of a check, and its reason unless a document shows that the rule holds.
fn result(check: &DiscoveryCheck) -> (&'static str, Option<&str>) {
    match (&check.failure, &check.assumption) {
        (Some(reason), _) => (FAILED, Some(reason)),
        (None, Some(reason)) => (ASSUMED, Some(reason)),
        (None, None) => (PASSED, None),
    }
}

fn to_json(server: &Url, explanation: &Explanation) -> Value {
    let error = explanation.error.as_ref();
    json!({
        "server": server.as_str(),
        "login": if error.is_some() { "impossible" } else { Conclusion::of(explanation).name() },
        "error": error.map(ToString::to_string),
        "steps": explanation.steps.iter().map(step_to_json).collect::<Vec<_>>(),
    })
}

fn step_to_json(step: &DiscoveryStep) -> Value {
    json!({
        "kind": step.kind.name(),
        "url": step.url,
        "status": step.status.map(|status| status.as_u16()),
        "redirect": step.redirect,
        "document": step.document,
        "absence": step.absence,
        "checks": step.checks.iter().map(check_to_json).collect::<Vec<_>>(),
        "quirks": step.quirks.iter().map(quirk_to_json).collect::<Vec<_>>(),
    })
}

fn check_to_json(check: &DiscoveryCheck) -> Value {
    let (result, reason) = result(check);
    json!({
        "rule": check.rule.name(),
        "requirement": check.rule.requirement(),
        "result": result,
        "reason": reason,
        "remedy": (result == FAILED).then(|| check.rule.remedy()),
    })
}

fn quirk_to_json(quirk: &Quirk) -> Value {
    json!({
        "kind": quirk.kind.name(), "provider": quirk.provider, "explanation": quirk.kind.explanation(),
        "source": quirk.source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quirks_have_an_explanation_and_a_source() {
        for quirk in Quirk::of_issuer("https://login.microsoftonline.com/tenant/v2.0") {
            let mut text = String::new();
            write_quirks(&mut text, &[quirk]);
            let json = quirk_to_json(&quirk);
            for part in ["kind", "provider", "explanation", "source"] {
                let part = json[part].as_str().unwrap_or_else(|| panic!("{json} has no {part}"));
                assert!(!part.is_empty() && text.contains(part), "{part}: {text}");
            }
        }
        assert!(!Quirk::of_issuer("https://login.microsoftonline.com/tenant/v2.0").is_empty());
    }
}
