//! The rules of `mcp lint`: their codes, severities and remedies.

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Error,
    Warning,
    /// A note never changes the exit code.
    Note,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A rule. Its code never changes, so that scripts can refer to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    pub(crate) remedy: &'static str,
}

macro_rules! rules {
    ($($name:ident: $severity:ident $code:literal, $remedy:literal;)*) => {
        $(pub(crate) const $name: Rule = Rule { code: $code, severity: Severity::$severity, remedy: $remedy };)*

        /// All rules, in the order of the documentation.
        #[cfg(test)]
        pub(crate) const ALL: &[Rule] = &[$($name),*];
    };
}

rules! {
    NAME_MISSING: Error "name-missing", "Give each entry a name, and each resource a URI.";
    NAME_CHARACTERS: Error "name-characters", "Use 1 to 128 of the characters A-Z a-z 0-9 _ - . in the name of a tool.";
    NAME_PROVIDER: Warning "name-provider", "Use 1 to 64 of the characters A-Z a-z 0-9 _ - in the name of a tool.";
    NAME_DUPLICATE: Error "name-duplicate", "Give each entry of a list its own name.";
    DESCRIPTION_MISSING: Warning "description-missing", "Describe the purpose of the entry, and the case in which to use it.";
    DESCRIPTION_LONG: Warning "description-long", "Shorten the description to 1024 characters.";
    INVISIBLE_CHARACTERS: Error "invisible-characters", "Remove characters that a person cannot see, because a model reads them.";
    SCHEMA_TYPE: Error "schema-type", "Give the tool an `inputSchema` with `\"type\": \"object\"`.";
    SCHEMA_REQUIRED: Error "schema-required", "List only declared properties in `required`.";
    PROPERTY_TYPE: Warning "property-type", "Declare the type of the argument.";
    PROPERTY_DESCRIPTION: Warning "property-description", "Describe the argument, its unit and its format.";
    ADDITIONAL_PROPERTIES: Note "additional-properties", "Set `additionalProperties` to false, so that the server rejects misspelt arguments.";
    ANNOTATIONS_MISSING: Warning "annotations-missing", "Set `readOnlyHint` or `destructiveHint`: without them, a client treats the tool as destructive.";
    ANNOTATIONS_CONTRADICTORY: Error "annotations-contradictory", "Remove `destructiveHint` from a tool that is read-only.";
    SIZE_ENTRY: Warning "size-entry", "Shorten the descriptions and the schemas of the entry.";
    SIZE_TOTAL: Warning "size-total", "Offer fewer tools, or shorten their definitions: a model reads all of them in each request.";
    RESOURCE_URI: Error "resource-uri", "Write an absolute URI with a scheme.";
    MIME_TYPE_MISSING: Warning "mime-type-missing", "Set `mimeType`, so that a client can show the resource.";
    TEMPLATE_INVALID: Error "template-invalid", "Write the template in the syntax of RFC 6570.";
    ARGUMENT_DESCRIPTION: Warning "argument-description", "Describe the argument of the prompt.";
    ICON_URL: Error "icon-url", "Use an `https:` or `data:` URI: clients reject the others.";
    LIST_CURSOR: Error "list-cursor", "Return each cursor once, and no cursor on the last page.";
    LIST_INVALID: Error "list-invalid", "Return the array of entries that the specification requires.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_documentation_describes_each_code() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint.md")).unwrap();
        let described: BTreeSet<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### `")?.split_once('`'))
            .map(|(code, rest)| format!("{code}{rest}"))
            .collect();
        let rules: BTreeSet<String> =
            ALL.iter().map(|rule| format!("{} ({})", rule.code, rule.severity.as_str())).collect();
        assert_eq!(described, rules);
    }
}
