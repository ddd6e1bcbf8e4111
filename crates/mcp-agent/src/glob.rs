//! Patterns for names: `*` and `?`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

/// The longest pattern, in characters.
const LONGEST: usize = 256;

/// A pattern for the names of servers, tools or principals.
///
/// `*` matches any run of characters, the empty run included. `?` matches one character. Other characters match
/// themselves, and upper case differs from lower case. The costs of a match are bounded by the product of both lengths.
///
/// ```
/// use mcp_agent::Glob;
///
/// let glob: Glob = "get_*".parse()?;
/// assert!(glob.matches("get_issue") && !glob.matches("list_issues"));
/// assert!("v?".parse::<Glob>()?.matches("v2"));
/// assert!("".parse::<Glob>().is_err());
/// # Ok::<(), mcp_agent::GlobError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob(String);

/// The error of a pattern that cannot match a name.
///
/// ```
/// use mcp_agent::{Glob, GlobError};
///
/// assert_eq!("".parse::<Glob>(), Err(GlobError::Empty));
/// assert_eq!("x".repeat(300).parse::<Glob>(), Err(GlobError::TooLong));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The pattern is empty.
    #[error("a pattern must not be empty; `*` matches every name")]
    Empty,
    /// The pattern has more than 256 characters.
    #[error("a pattern must have at most {LONGEST} characters")]
    TooLong,
}

impl Glob {
    /// Returns the pattern that matches every name.
    ///
    /// ```
    /// assert!(mcp_agent::Glob::any().matches("anything"));
    /// ```
    #[must_use]
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// Whether the pattern matches the whole name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        // The position after the last `*`, and the rest of the name that this `*` has not matched yet.
        let mut retry: Option<(&str, &str)> = None;
        let (mut pattern, mut rest) = (self.0.as_str(), name);
        loop {
            let mut next = pattern.chars();
            match (next.next(), rest.chars().next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    pattern = next.as_str();
                    retry = Some((pattern, rest));
                    continue;
                }
                (Some(expected), Some(found)) if expected == '?' || expected == found => {
                    pattern = next.as_str();
                    rest = &rest[found.len_utf8()..];
                    continue;
                }
                _ => {}
            }
            let Some((after, from)) = retry else { return false };
            let Some(skipped) = from.chars().next() else { return false };
            (pattern, rest) = (after, &from[skipped.len_utf8()..]);
            retry = Some((after, rest));
        }
    }

    /// Returns the text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern has `*` or `?`.
    #[must_use]
    pub fn has_wildcard(&self) -> bool {
        self.0.contains(['*', '?'])
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(pattern: &str) -> Result<Self, GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::Empty);
        }
        if pattern.chars().count() > LONGEST {
            return Err(GlobError::TooLong);
        }
        Ok(Self(pattern.to_owned()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "A", false),
            ("*", "", true),
            ("*", "é", true),
            ("?", "", false),
            ("?", "é", true),
            ("??", "é", false),
            ("a*", "a", true),
            ("*b", "aab", true),
            ("*b", "aba", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("*a*a*", "ba", false),
            ("a**b", "ab", true),
            ("*.?s", "main.rs", true),
            ("git*", "github", true),
            ("git*", "digit", false),
        ] {
            let glob: Glob = pattern.parse().unwrap();
            assert_eq!(glob.matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_has_bounded_costs() {
        let glob: Glob = format!("{}b", "a*".repeat(120)).parse().unwrap();
        assert!(!glob.matches(&"a".repeat(20_000)));
    }
}
