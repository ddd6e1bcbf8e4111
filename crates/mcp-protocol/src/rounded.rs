//! Durations in the texts of errors.

use std::{fmt, time::Duration};

/// Displays a duration with at most three digits after the point: a time that remains of a limit has nanoseconds.
///
/// A duration of 10 seconds and more is rounded to seconds, and a shorter one to a thousandth of its unit.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::Rounded;
///
/// assert_eq!(Rounded(Duration::from_nanos(59_999_871_234)).to_string(), "60s");
/// assert_eq!(Rounded(Duration::from_nanos(1_499_871_234)).to_string(), "1.5s");
/// assert_eq!(Rounded(Duration::from_nanos(20_499_871)).to_string(), "20.5ms");
/// ```
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a duration has no other part")]
pub struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let unit = match nanos {
            10_000_000_000.. => 1_000_000_000,
            1_000_000_000.. => 1_000_000,
            1_000_000.. => 1_000,
            _ => 1,
        };
        let rounded = nanos.saturating_add(unit / 2) / unit * unit;
        let seconds = u64::try_from(rounded / 1_000_000_000).unwrap_or(u64::MAX);
        let rest = u32::try_from(rounded % 1_000_000_000).unwrap_or_default();
        write!(f, "{:?}", Duration::new(seconds, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_few_digits() {
        for (nanos, expected) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.5µs"),
            (20_499_871, "20.5ms"),
            (999_999_999, "1s"),
            (1_234_567_890, "1.235s"),
            (9_999_999_999, "10s"),
            (10_400_000_000, "10s"),
            (59_999_871_234, "60s"),
            (600_000_000_000, "600s"),
        ] {
            assert_eq!(Rounded(Duration::from_nanos(nanos)).to_string(), expected);
        }
        assert_eq!(Rounded(Duration::MAX).to_string(), format!("{}s", u64::MAX));
    }
}
