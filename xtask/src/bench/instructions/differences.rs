//! The differences of two counts. Each is the part of a case that its other case does not have: a growth of this part can be small beside
//! the whole count.

use std::collections::BTreeMap;

use super::Bounds;

/// Two runs of one program differ by less than 1.5 %, and two builds by up to 2 %.
const STEADY: Bounds = Bounds { growth: 50, saving: 45, varies: false };
/// Runs with one call at a time differ by up to 9 %: the work of the allocator depends on random values of the client. The mean of some
/// runs differs less.
const OF_SINGLE_CALLS: Bounds = Bounds { growth: 100, saving: 80, varies: true };

/// A case, the case with the same work without one part, and the bounds of their difference.
const ALL: [(&str, &str, Bounds); 10] = [
    ("http-api-key", "http-2026-07-28", STEADY),
    ("http-remembered-token", "http-2026-07-28", STEADY),
    ("client-http-2025-11-25", "bare-client-http-2025-11-25", OF_SINGLE_CALLS),
    ("client-http-2026-07-28", "bare-client-http-2026-07-28", OF_SINGLE_CALLS),
    ("client-http-8-2025-11-25", "bare-client-http-8-2025-11-25", STEADY),
    ("client-http-8-2026-07-28", "bare-client-http-8-2026-07-28", STEADY),
    ("client-lines-2025-11-25", "bare-client-lines-2025-11-25", OF_SINGLE_CALLS),
    ("client-lines-2026-07-28", "bare-client-lines-2026-07-28", OF_SINGLE_CALLS),
    ("client-lines-8-2025-11-25", "bare-client-lines-8-2025-11-25", STEADY),
    ("client-lines-8-2026-07-28", "bare-client-lines-8-2026-07-28", STEADY),
];

/// The name in the table of ceilings.
fn name(case: &str, other: &str) -> String {
    format!("{case} less {other}")
}

/// The bounds of a difference; `None` for another name.
pub(super) fn bounds(wanted: &str) -> Option<Bounds> {
    ALL.into_iter().find_map(|(case, other, bounds)| (name(case, other) == wanted).then_some(bounds))
}

/// The differences of counts. A difference is zero if its case needs no more instructions than the other one.
pub(super) fn of(counts: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let difference = |(case, other, _): (&str, &str, Bounds)| {
        let each = counts.get(case)?.saturating_sub(*counts.get(other)?);
        Some((name(case, other), each))
    };
    ALL.into_iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::NAMES, *};

    #[test]
    fn each_difference_has_two_cases() {
        let counts: BTreeMap<String, u64> = (100..).zip(NAMES).map(|(each, name)| (name.to_owned(), each)).collect();
        let differences = of(&counts);
        assert_eq!(differences.len(), ALL.len());
        assert!(differences.iter().all(|(name, _)| bounds(name).is_some()));
        assert!(NAMES.into_iter().all(|name| bounds(name).is_none()));
    }

    #[test]
    fn a_difference_is_not_negative() {
        let (case, other, _) = ALL[0];
        for (each, without, expected) in [(51_283, 49_217, 2_066), (5, 5, 0), (5, 6, 0)] {
            let counts = BTreeMap::from([(case.to_owned(), each), (other.to_owned(), without)]);
            assert_eq!(of(&counts), [(name(case, other), expected)]);
        }
    }
}
