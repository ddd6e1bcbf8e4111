//! Checks the definitions of a server.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Session;
use crate::{
    failure::Failure,
    lint::{Definitions, Finding, List, Report, Severity},
    output::styled,
    style::{self, Style},
    text::line,
};

/// The largest number of pages of a list.
const MAX_PAGES: usize = 1000;
/// The most bytes of all lists together, as JSON.
const MAX_BYTES: usize = 64 << 20;

pub(crate) async fn lint(session: &Session, strict: bool) -> Result<(), Failure> {
    let negotiated = session.client.negotiated();
    let offers = &negotiated.capabilities;
    let mut definitions = Definitions {
        server_info: serde_json::to_value(&negotiated.server_info).unwrap_or_default(),
        instructions: negotiated.instructions.clone(),
        ..Definitions::default()
    };
    let mut budget = Budget(MAX_BYTES);
    if offers.tools.is_some() {
        definitions.tools = read(session, &mut budget, "tools/list", "tools").await?;
    }
    if offers.prompts.is_some() {
        definitions.prompts = read(session, &mut budget, "prompts/list", "prompts").await?;
    }
    if offers.resources.is_some() {
        definitions.resources = read(session, &mut budget, "resources/list", "resources").await?;
        definitions.templates = read(session, &mut budget, "resources/templates/list", "resourceTemplates").await?;
    }
    let report = Report::of(&definitions);
    if session.out.json {
        session.out.value(&document(&report))?;
    } else {
        print(session, &definitions, &report)?;
    }
    let is_failed = report.count(Severity::Error) > 0 || strict && report.count(Severity::Warning) > 0;
    if is_failed { Err(Failure::reported()) } else { Ok(()) }
}

/// Reads all pages of a list without interpreting the entries. A list that the server does not support is empty.
async fn read(session: &Session, budget: &mut Budget, method: &str, member: &str) -> Result<List, Failure> {
    let mut list = List::default();
    let mut cursors = HashSet::new();
    let mut params = json!({});
    for _ in 0..MAX_PAGES {
        let mut page = match session.client.request_raw(method, &params).await {
            Err(error) if error.is_unsupported() => return Ok(list),
            page => page?,
        };
        budget.spend(&page, member)?;
        match page.get_mut(member).map(Value::take) {
            Some(Value::Array(entries)) => {
                list.is_invalid |= entries.iter().any(|entry| !entry.is_object());
                list.entries.extend(entries.into_iter().filter(Value::is_object));
            }
            _ => list.is_invalid = true,
        }
        let Some(cursor) = page["nextCursor"].as_str() else { return Ok(list) };
        if !cursors.insert(cursor.to_owned()) {
            list.repeats_cursor = true;
            return Ok(list);
        }
        params = json!({ "cursor": cursor });
    }
    Err(Failure::unusable(format!("the list of {member} has more than {MAX_PAGES} pages")))
}

/// The bytes that the lists may still have.
struct Budget(usize);

impl Budget {
    /// Subtracts the size of a page.
    fn spend(&mut self, page: &Value, member: &str) -> Result<(), Failure> {
        let too_large = || {
            let limit = MAX_BYTES >> 20;
            Failure::unusable(format!("the lists exceed {limit} MiB; `mcp lint` stopped in the list of {member}"))
        };
        self.0 = self.0.checked_sub(page.to_string().len()).ok_or_else(too_large)?;
        Ok(())
    }
}

fn document(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "code": finding.code(), "severity": finding.severity().as_str(), "place": finding.place,
            "message": finding.message, "remedy": finding.remedy(),
        })
    };
    json!({
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "omitted": report.omitted,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "toolBytes": report.bytes,
        "estimatedToolTokens": report.tokens,
    })
}

fn print(session: &Session, definitions: &Definitions, report: &Report) -> Result<(), Failure> {
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let style = match severity {
            Severity::Error => Style::Error,
            Severity::Warning => Style::Warning,
            Severity::Note => Style::Dim,
        };
        let found = || report.findings.iter().filter(move |finding| finding.severity() == severity);
        let rows: Vec<Vec<String>> = found()
            .map(|finding| {
                vec![
                    finding.code().to_owned(),
                    line(&finding.place),
                    line(&finding.message),
                    finding.remedy().to_owned(),
                ]
            })
            .collect();
        if rows.is_empty() {
            continue;
        }
        styled(&style::out(style, &format!("{}s", severity.as_str())))?;
        let columns =
            [("CODE", Style::Name), ("PLACE", Style::Plain), ("MESSAGE", Style::Plain), ("REMEDY", Style::Dim)];
        session.out.table(&columns, &rows, "")?;
        styled("\n")?;
    }
    if report.omitted > 0 {
        styled(&format!("({} more findings)", report.omitted))?;
    }
    styled(&format!(
        "tools: {}, prompts: {}, resources: {}, templates: {}; size of the tools: {} bytes, about {} tokens",
        definitions.tools.entries.len(),
        definitions.prompts.entries.len(),
        definitions.resources.entries.len(),
        definitions.templates.entries.len(),
        report.bytes,
        report.tokens
    ))?;
    styled(&format!(
        "errors: {}, warnings: {}, notes: {}",
        report.count(Severity::Error),
        report.count(Severity::Warning),
        report.count(Severity::Note)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_each_member_of_the_json_form() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint.md")).unwrap();
        let document = document(&Report::default());
        let members = document.as_object().unwrap();
        assert_eq!(members.len(), 7);
        for name in members.keys() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn the_bytes_of_the_lists_are_limited() {
        let page = json!({"tools": ["x".repeat(80)]});
        let mut budget = Budget(200);
        assert!(budget.spend(&page, "tools").is_ok() && budget.spend(&page, "tools").is_ok());
        let failure = budget.spend(&page, "tools").map_err(|failure| failure.to_string());
        assert_eq!(failure, Err("the lists exceed 64 MiB; `mcp lint` stopped in the list of tools".to_owned()));
    }
}
