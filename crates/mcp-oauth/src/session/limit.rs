//! The limit of the logins of one session: a server must not be able to open pages without end.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::error::{Error, ErrorKind};

/// The time in which logins count.
const PERIOD: Duration = Duration::from_secs(600);
/// The largest number of logins of a user in a period.
const MAX_LOGINS: usize = 10;
/// The largest number of grants without a user in a period.
const MAX_GRANTS: usize = 200;

/// The times of the latest logins.
#[derive(Debug, Default)]
pub(super) struct Logins(VecDeque<Instant>);

impl Logins {
    /// Counts a login that begins.
    ///
    /// # Errors
    /// If the period had too many logins.
    pub(super) fn begin(&mut self, now: Instant, asks_user: bool) -> Result<(), Error> {
        while self.0.front().is_some_and(|start| now.duration_since(*start) >= PERIOD) {
            self.0.pop_front();
        }
        let limit = if asks_user { MAX_LOGINS } else { MAX_GRANTS };
        if self.0.len() >= limit {
            let text = format!("the server required {limit} logins in {} minutes", PERIOD.as_secs() / 60);
            return Err(Error::new(ErrorKind::LoginRequired, text));
        }
        self.0.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_logins_in_a_period_has_a_limit() {
        for (asks_user, limit) in [(true, MAX_LOGINS), (false, MAX_GRANTS)] {
            let (mut logins, start) = (Logins::default(), Instant::now());
            let later = |seconds| start + Duration::from_secs(seconds);
            for _ in 0..limit {
                logins.begin(later(1), asks_user).unwrap();
            }
            let error = logins.begin(later(600), asks_user).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LoginRequired);
            logins.begin(later(601), asks_user).unwrap();
            assert_eq!(logins.0.len(), 1);
        }
    }
}
