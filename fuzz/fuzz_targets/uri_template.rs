//! Parses, matches and expands any template: the first line is the template, and the second line the URI.
//!
//! The expansion of captured values matches again with the same values.

#![no_main]

use std::collections::BTreeMap;

use fuzz::fuzz_target;
use mcp_uri_template::{UriTemplate, Vars};

fuzz_target!(|data: &str| {
    let (source, uri) = data.split_once('\n').unwrap_or((data, ""));
    let Ok(any) = UriTemplate::parse_for_expansion(source) else {
        assert!(UriTemplate::parse(source).is_err());
        return;
    };
    assert_eq!(any.as_str(), source);
    let values = any.variables().map(|name| (name.to_owned(), uri.to_owned())).collect::<Vec<_>>();
    let vars = values.iter().fold(Vars::new(), |vars, (name, value)| vars.with(name, value.as_str()));
    // A value has at most nine bytes for each of its bytes, with its name and a separator.
    let expanded = any.expand(&vars);
    assert!(expanded.is_ascii() && expanded.len() <= 3 * (source.len() + (uri.len() + 1) * 1024), "{expanded}");

    let Ok(template) = UriTemplate::parse(source) else { return };
    let Some(vars) = template.matches(uri) else { return };
    assert!(vars.iter().all(|(name, _)| template.variables().any(|known| known == name)));
    // A reserved value keeps its separators and triplets, so another variable can capture a part of it.
    if !source.contains("{+") && !source.contains("{#") {
        let expanded = template.expand(&vars);
        let again = template.matches(&expanded).unwrap_or_else(|| panic!("no match: {expanded}"));
        // Parameters of a query can have another order.
        assert_eq!(again.into_iter().collect::<BTreeMap<_, _>>(), vars.into_iter().collect(), "{expanded}");
    }
});
