//! Suggestions for misspelt names.

/// The longest name that is compared, in bytes. It bounds the cost of names that a server chose.
const MAX_NAME: usize = 100;

/// Returns the candidate that is most similar to `name`, if the difference can be a typing error.
///
/// The comparison ignores case, `_` and `-`.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let name = normalize(name);
    let distance = |candidate: &'a str| {
        let other = normalize(candidate);
        let distance = strsim::osa_distance(&name, &other);
        let max = name.chars().count().max(other.chars().count()) / 3;
        (distance <= max).then_some((distance, candidate))
    };
    let candidates = candidates.into_iter().filter(|candidate| candidate.len() <= MAX_NAME);
    candidates.filter_map(distance).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

fn normalize(name: &str) -> String {
    name.to_lowercase().replace(['_', '-'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_names_within_a_typing_error() {
        for (name, expected) in [
            ("colr", Some("colour")),
            ("color", Some("colour")),
            ("max_tokens", Some("maxTokens")),
            ("sise", Some("size")),
            ("text", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, ["b", "colour", "maxTokens", "size"]), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(200), ["x"]), None);
    }
}
