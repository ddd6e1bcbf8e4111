//! The start of a displayed value.

use std::fmt::{self, Write as _};

use mcp_protocol::start_of;

/// Returns the text of a value, at most `max` bytes. A truncated text ends with `…`. A longer text is not formatted to its end.
pub(super) fn bounded(value: &dyn fmt::Display, max: usize) -> String {
    let mut out = Bounded { text: String::new(), max };
    // The error only reports the truncation, or a `Display` that fails.
    if write!(out, "{value}").is_err() {
        out.text.push('…');
    }
    out.text
}

struct Bounded {
    text: String,
    max: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let rest = self.max - self.text.len();
        let start = start_of(part, rest);
        self.text.push_str(start);
        if start.len() < part.len() {
            // No later part may follow a gap.
            self.max = self.text.len();
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that counts the parts that it writes.
    struct Endless(std::cell::Cell<usize>);

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..1_000_000 {
                self.0.set(self.0.get() + 1);
                f.write_str("éa")?;
            }
            Ok(())
        }
    }

    #[test]
    fn formats_a_long_value_up_to_its_limit() {
        for (max, expected) in [(0, "…"), (1, "…"), (2, "é…"), (3, "éa…"), (4, "éa…"), (5, "éaé…")] {
            let endless = Endless(std::cell::Cell::new(0));
            assert_eq!(bounded(&endless, max), expected);
            assert!(endless.0.get() <= 3, "{}", endless.0.get());
        }
        assert_eq!(bounded(&"short", 5), "short");
    }
}
