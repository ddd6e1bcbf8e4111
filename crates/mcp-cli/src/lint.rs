//! `mcp lint`: checks the definitions of a server against rules.

mod entries;
mod rule;
mod schema;
mod strings;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::rule::Rule;
pub(crate) use self::rule::Severity;

/// The bytes of the definitions above which [`rule::SIZE_TOTAL`] applies: about 11,000 tokens.
const MAX_TOTAL: usize = 40_000;
/// The bytes of one definition above which [`rule::SIZE_ENTRY`] applies.
const MAX_ENTRY: usize = 8_000;
/// The longest list of findings. It bounds the memory for a server with many faults.
const MAX_FINDINGS: usize = 10_000;

/// The lists of a server, as it sent them.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) server_info: Value,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: List,
    pub(crate) prompts: List,
    pub(crate) resources: List,
    pub(crate) templates: List,
}

/// The entries of one list.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) entries: Vec<Value>,
    /// Whether the server returned a cursor twice.
    pub(crate) repeats_cursor: bool,
    /// Whether a page was not an array of entries.
    pub(crate) is_invalid: bool,
}

/// A fault of a definition.
#[derive(Debug)]
pub(crate) struct Finding {
    rule: Rule,
    /// The entry, for example ``tool `add`, argument `a` ``.
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn code(&self) -> &'static str {
        self.rule.code
    }

    pub(crate) fn severity(&self) -> Severity {
        self.rule.severity
    }

    pub(crate) fn remedy(&self) -> &'static str {
        self.rule.remedy
    }
}

/// The findings in all definitions, and their size.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    /// The number of findings that did not fit into the report.
    pub(crate) omitted: usize,
    /// The bytes of all definitions of tools.
    pub(crate) bytes: usize,
    /// The estimated number of tokens of the parts of these definitions that a model reads.
    pub(crate) tokens: usize,
}

impl Report {
    /// Checks the definitions. The findings are ordered by their severity.
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut report = Self::default();
        entries::server(&mut report, &definitions.server_info);
        if let Some(instructions) = &definitions.instructions {
            entries::instructions(&mut report, instructions);
        }
        for (kind, list) in [
            (entries::Kind::Tool, &definitions.tools),
            (entries::Kind::Prompt, &definitions.prompts),
            (entries::Kind::Resource, &definitions.resources),
            (entries::Kind::Template, &definitions.templates),
        ] {
            entries::list(&mut report, kind, list);
        }
        if report.bytes > MAX_TOTAL {
            let message = format!("the definitions have {} bytes, about {} tokens", report.bytes, report.tokens);
            report.add(rule::SIZE_TOTAL, "tools", message);
        }
        report.findings.sort_by_key(Finding::severity);
        report
    }

    /// Returns the number of findings with a severity.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity() == severity).count()
    }

    fn add(&mut self, rule: Rule, place: impl Into<String>, message: impl Into<String>) {
        if self.findings.len() == MAX_FINDINGS {
            self.omitted += 1;
            return;
        }
        self.findings.push(Finding { rule, place: place.into(), message: message.into() });
    }
}
