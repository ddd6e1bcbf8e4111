//! Compares the tables of errors and quirks in `docs/auth/client.md` with the code.

use std::{collections::BTreeSet, path::Path};

use mcp_client::oauth::QuirkKind;

const PAGE: &str = include_str!("../../../docs/auth/client.md");

/// Returns the variants of an enum in a source file.
fn variants(file: &str, name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (_, rest) =
        text.split_once(&format!("\npub enum {name} {{\n")).unwrap_or_else(|| panic!("{file} has no {name}"));
    let lines = rest.lines().take_while(|line| *line != "}").filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.map(|line| line.trim_end_matches([',', ' ', '{']).to_owned()).collect()
}

/// Returns the code in the first cell of each row below a heading.
fn rows(heading: &str) -> Vec<String> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let rows = section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    let rows = rows.map(|row| {
        let [first, cause, remedy] = row[..] else { panic!("{heading}: {row:?} has not three cells") };
        assert!(!cause.is_empty() && !remedy.is_empty(), "{heading}: {row:?}");
        first.trim_matches('`').to_owned()
    });
    rows.skip_while(|first| first.ends_with("Kind")).collect()
}

#[test]
fn the_page_names_each_kind_of_each_error() {
    for (file, name, heading) in [
        ("mcp-oauth/src/error.rs", "ErrorKind", "### The kinds of `oauth::Error`"),
        ("mcp-client-http/src/authorizer_error.rs", "AuthorizerErrorKind", "### The kinds of `AuthorizerError`"),
        ("mcp-fetch/src/error.rs", "FetchErrorKind", "### The kinds of `FetchError`"),
    ] {
        let (rows, variants) = (rows(heading), variants(file, name));
        assert!(variants.len() > 3, "{name}: {variants:?}");
        assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), variants, "{name}");
        assert_eq!(rows.len(), variants.len(), "{name}: two rows have one variant");
    }
}

#[test]
fn the_page_explains_each_code_that_decides_the_kind_of_an_error() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/mcp-oauth/src/token_endpoint.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("fn refused(&self, error: OAuthError)").unwrap();
    let (body, _) = rest.split_once("};\n").unwrap();
    let codes =
        body.split('"').skip(1).step_by(2).filter(|text| text.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let codes: Vec<_> = codes.collect();
    assert!(codes.contains(&"slow_down"), "{codes:?}");
    let (_, section) = PAGE.split_once("### Codes of the authorization server").unwrap();
    for code in codes {
        assert!(section.contains(&format!("`{code}`")), "{code}");
    }
}

#[test]
fn the_page_names_each_quirk() {
    let (_, section) = PAGE.split_once("\n## Differences of authorization servers\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for kind in QuirkKind::ALL {
        assert!(section.contains(&format!(" | `{}` | ", kind.name())), "{kind}");
    }
}
