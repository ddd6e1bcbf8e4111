//! Random numbers of the system, and the ids that are made of them.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use uuid::{Builder, Uuid};

/// The bits of a UUID of version 7 after its timestamp, without version and variant.
const COUNTER_BITS: u32 = 74;

/// The error of a system without random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRandomNumbers(getrandom::Error);

impl fmt::Display for NoRandomNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system has no random numbers: {}", self.0)
    }
}

impl std::error::Error for NoRandomNumbers {}

/// Returns random bytes.
///
/// # Errors
/// Fails when the system has no random numbers.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandomNumbers> {
    #[cfg(test)]
    if tests::IS_EXHAUSTED.get() {
        return Err(NoRandomNumbers(getrandom::Error::UNSUPPORTED));
    }
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomNumbers)?;
    Ok(bytes)
}

/// Returns an unguessable id of 32 hexadecimal digits: a UUID of version 4.
///
/// # Errors
/// Fails when the system has no random numbers.
pub(crate) fn id() -> Result<String, NoRandomNumbers> {
    Ok(Builder::from_random_bytes(bytes()?).into_uuid().simple().to_string())
}

/// Returns an id of 32 hexadecimal digits that is greater than each id before it: a UUID of version 7.
///
/// A client can guess the ids of the same millisecond.
///
/// # Errors
/// Fails when the system has no random numbers.
pub(crate) fn sortable_id() -> Result<String, NoRandomNumbers> {
    /// The last id, without version and variant.
    static LAST: Mutex<u128> = Mutex::new(0);
    let counter = u128::from_le_bytes(bytes()?) >> (u128::BITS - COUNTER_BITS);
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let mut last = LAST.lock();
    *last = ((millis << COUNTER_BITS) | counter).max(last.wrapping_add(1));
    Ok(uuid_v7(*last).simple().to_string())
}

/// Returns the UUID of a timestamp and a counter (RFC 9562, section 5.7).
fn uuid_v7(value: u128) -> Uuid {
    let (version, variant) = (7 << 76, 0b10 << 62);
    let (time, high, low) = (value >> COUNTER_BITS, (value >> 62) & 0xfff, value & ((1 << 62) - 1));
    Uuid::from_u128((time << 80) | version | (high << 64) | variant | low)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{cell::Cell, collections::HashSet, sync::Barrier, thread};

    use super::*;

    thread_local! {
        pub(super) static IS_EXHAUSTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Removes the random numbers of this thread until the guard is dropped.
    #[must_use]
    pub(crate) fn exhaust() -> impl Drop {
        struct Restore;
        impl Drop for Restore {
            fn drop(&mut self) {
                IS_EXHAUSTED.set(false);
            }
        }
        IS_EXHAUSTED.set(true);
        Restore
    }

    #[test]
    fn ids_are_uuids_of_their_version() {
        for (id, version) in [(id().unwrap(), 4), (sortable_id().unwrap(), 7)] {
            let uuid = Uuid::parse_str(&id).unwrap();
            assert_eq!(uuid.get_version_num(), version, "{id}");
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122, "{id}");
        }
    }

    #[test]
    fn sortable_ids_of_all_threads_increase() {
        // The end of a thread precedes the start of the next thread.
        let ids: Vec<_> = (0..100).map(|_| thread::spawn(sortable_id).join().unwrap().unwrap()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let time = u128::from_str_radix(&ids[0][..12], 16).unwrap();
        assert!(now.abs_diff(time) < 60_000, "{now} {time}");
    }

    #[test]
    fn sortable_ids_of_concurrent_threads_increase_and_differ() {
        let start = Barrier::new(4);
        let create = || {
            start.wait();
            (0..1000).map(|_| sortable_id().unwrap()).collect::<Vec<_>>()
        };
        let ids = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(create));
            threads.map(|thread| thread.join().unwrap())
        });
        for of_thread in &ids {
            assert!(of_thread.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert_eq!(ids.iter().flatten().collect::<HashSet<_>>().len(), 4000);
    }

    #[test]
    fn a_system_without_random_numbers_is_an_error() {
        let exhausted = exhaust();
        let error = id().unwrap_err();
        assert!(error.to_string().starts_with("the system has no random numbers"), "{error}");
        assert!(sortable_id().is_err() && bytes::<4>().is_err());
        drop(exhausted);
        assert!(id().is_ok());
    }
}
