//! `mcp lint`: checks the definitions of a server against rules.

mod entries;
mod rule;
mod schema;
mod strings;

use serde_json::Value;

use self::rule::Rule;
pub(crate) use self::rule::Severity;

/// The bytes of the definitions above which [`rule::SIZE_TOTAL`] applies: about 10,000 tokens.
const MAX_TOTAL: usize = 40_000;
/// The bytes of one definition above which [`rule::SIZE_ENTRY`] applies.
const MAX_ENTRY: usize = 8_000;
/// The estimated number of bytes of a token.
const BYTES_PER_TOKEN: usize = 4;
/// The longest list of findings. It bounds the memory for a server with many faults.
const MAX_FINDINGS: usize = 10_000;

/// The lists of a server, as it sent them.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) server_info: Value,
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
}

impl Report {
    /// Checks the definitions. The findings are ordered by their severity.
    pub(crate) fn of(definitions: &Definitions) -> Self {
        let mut report = Self::default();
        entries::server(&mut report, &definitions.server_info);
        for (kind, list) in [
            (entries::Kind::Tool, &definitions.tools),
            (entries::Kind::Prompt, &definitions.prompts),
            (entries::Kind::Resource, &definitions.resources),
            (entries::Kind::Template, &definitions.templates),
        ] {
            entries::list(&mut report, kind, list);
        }
        if report.bytes > MAX_TOTAL {
            let message = format!("the definitions have {} bytes, about {} tokens", report.bytes, report.tokens());
            report.add(rule::SIZE_TOTAL, "tools", message);
        }
        report.findings.sort_by_key(Finding::severity);
        report
    }

    /// Returns the estimated number of tokens of all definitions of tools.
    pub(crate) fn tokens(&self) -> usize {
        self.bytes.div_ceil(BYTES_PER_TOKEN)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(entries: &Value) -> List {
        List { entries: entries.as_array().cloned().unwrap_or_default(), ..List::default() }
    }

    /// Returns `code place` for each finding.
    fn found(definitions: &Definitions) -> Vec<String> {
        let report = Report::of(definitions);
        let mut found: Vec<String> =
            report.findings.iter().map(|finding| format!("{} {}", finding.code(), finding.place)).collect();
        found.sort();
        found
    }

    fn tool(change: impl FnOnce(&mut Value)) -> Value {
        let mut tool = json!({
            "name": "add", "description": "Adds.", "annotations": {"readOnlyHint": true},
            "inputSchema": {
                "type": "object", "additionalProperties": false, "required": ["a"],
                "properties": {"a": {"type": "integer", "description": "A number."}},
            },
        });
        change(&mut tool);
        tool
    }

    #[test]
    fn each_rule_for_tools_finds_its_fault_only() {
        let long = "x".repeat(1025);
        for (change, expected) in [
            (json!({}), &[][..]),
            (json!({"name": "a b"}), &["name-characters tool `a b`"]),
            (json!({"name": "a.b"}), &["name-provider tool `a.b`"]),
            (json!({"name": 1}), &["name-missing tool 1"]),
            (json!({"description": " "}), &["description-missing tool `add`"]),
            (json!({"description": long}), &["description-long tool `add`"]),
            (json!({"description": "Adds.\u{202e}"}), &["invisible-characters tool `add`"]),
            (json!({"description": "Lines:\r\n\tone 👩‍💻"}), &[]),
            (json!({"title": "x\u{e0041}"}), &["invisible-characters tool `add`"]),
            (json!({"inputSchema": null}), &["schema-type tool `add`"]),
            (json!({"inputSchema": {"additionalProperties": false}}), &["schema-type tool `add`"]),
            (json!({"inputSchema": {"type": "object"}}), &["additional-properties tool `add`"]),
            (json!({"annotations": {"openWorldHint": true}}), &["annotations-missing tool `add`"]),
            (
                json!({"annotations": {"readOnlyHint": true, "destructiveHint": true}}),
                &["annotations-contradictory tool `add`"],
            ),
            (json!({"icons": [{"src": "https://x.example/i.png"}, {"src": "data:image/png;base64,AA=="}]}), &[]),
            (json!({"icons": [{"src": "http://x.example/i.png"}]}), &["icon-url tool `add`"]),
            (json!({"icons": [{"src": "javascript:alert(1)"}]}), &["icon-url tool `add`"]),
            (json!({"outputSchema": {"x": "y".repeat(8001)}}), &["size-entry tool `add`"]),
        ] {
            let tool = tool(|tool| {
                for (name, value) in change.as_object().into_iter().flatten() {
                    tool[name] = value.clone();
                }
            });
            assert_eq!(
                found(&Definitions { tools: list(&json!([tool])), ..Definitions::default() }),
                expected,
                "{change}"
            );
        }
    }

    #[test]
    fn each_rule_for_arguments_finds_its_fault_only() {
        for (schema, expected) in [
            (json!({"properties": {"a": {"type": "string"}}}), &["property-description tool `add`, argument `a`"][..]),
            (json!({"properties": {"a": {"description": "x"}}}), &["property-type tool `add`, argument `a`"]),
            (
                json!({"properties": {"a": {"description": "x", "$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}),
                &[],
            ),
            (json!({"properties": {"a": {"description": "x", "enum": [1]}}}), &[]),
            (json!({"properties": {"a": true}}), &["property-type tool `add`, argument `a`"]),
            (json!({"required": ["b"]}), &["schema-required tool `add`, argument `b`"]),
            (
                json!({"properties": {"a": {"type": "object", "description": "x", "properties": {"b": {"type": "null"}}}}}),
                &["property-description tool `add`, argument `a.b`"],
            ),
            (
                json!({"properties": {"a": {"type": "array", "description": "x", "items": {"properties": {"b": {"description": "x"}}}}}}),
                &["property-type tool `add`, argument `a[].b`"],
            ),
        ] {
            let mut schema = schema;
            schema["type"] = "object".into();
            schema["additionalProperties"] = false.into();
            let tool = tool(|tool| tool["inputSchema"] = schema.clone());
            assert_eq!(
                found(&Definitions { tools: list(&json!([tool])), ..Definitions::default() }),
                expected,
                "{schema}"
            );
        }
    }

    #[test]
    fn the_other_lists_have_rules_too() {
        let definitions = Definitions {
            server_info: json!({"name": "x", "icons": [{"src": "file:///etc/passwd"}]}),
            tools: List { entries: vec![tool(|_| ()), tool(|_| ())], repeats_cursor: true, is_invalid: false },
            prompts: list(&json!([{"name": "p", "arguments": [{"name": "a"}, {"name": "b", "description": "x"}]}])),
            resources: list(&json!([
                {"uri": "a://b", "name": "r", "description": "x", "mimeType": "text/plain"},
                {"uri": "no uri", "name": "r"},
                {"name": "r"},
            ])),
            templates: list(
                &json!([{"uriTemplate": "a://{b", "name": "t", "description": "x", "mimeType": "text/plain"}]),
            ),
        };
        assert_eq!(
            found(&definitions),
            [
                "argument-description prompt `p`, argument `a`",
                "description-missing prompt `p`",
                "description-missing resource `no uri`",
                "icon-url server",
                "list-cursor tools",
                "mime-type-missing resource `no uri`",
                "name-duplicate tool `add`",
                "name-missing resource 3",
                "resource-uri resource `no uri`",
                "template-invalid template `a://{b`",
            ]
        );
    }

    #[test]
    fn many_definitions_have_a_size_finding_and_an_order() {
        let entries = (0..300).map(|n| tool(|tool| tool["name"] = format!("add_{n}").into())).collect();
        let definitions =
            Definitions { tools: List { entries, is_invalid: true, repeats_cursor: false }, ..Definitions::default() };
        let report = Report::of(&definitions);
        let codes: Vec<&str> = report.findings.iter().map(Finding::code).collect();
        assert_eq!(codes, ["list-invalid", "size-total"]);
        assert!(report.bytes > MAX_TOTAL && report.tokens() == report.bytes.div_ceil(4));
    }
}
