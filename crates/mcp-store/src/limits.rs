//! The rules for arguments of all stores, and the checks that implementations share.

use std::time::Duration;

use crate::StoreError;

/// The maximum bytes of a key, log name, topic or prefix.
pub const MAX_NAME_BYTES: usize = 512;

/// The maximum bytes of a message on a topic. Larger data belongs in a record that the message names.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// The maximum number of entries on one page, for each requested limit.
pub const MAX_PAGE: usize = 1_000;

/// The maximum number of messages that a subscription queues for its reader.
pub const MAX_CAPACITY: usize = 65_536;

/// The maximum number of a record of a writer (see [`Log::append_once`](crate::Log::append_once)).
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The maximum number of writers that a log remembers. A new writer replaces the writer that has appended nothing for the
/// longest time.
pub const MAX_WRITERS: usize = 256;

/// Checks a key, a log name or a topic: 1 to [`MAX_NAME_BYTES`] bytes of any text.
///
/// ```
/// use mcp_store::limits;
///
/// assert!(limits::name("session/1").is_ok());
/// assert!(limits::name("").unwrap_err().is_invalid());
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when the name is empty or too long.
pub fn name(name: &str) -> Result<(), StoreError> {
    if name.is_empty() {
        return Err(StoreError::invalid("a name in the store must not be empty"));
    }
    prefix(name)
}

/// Checks a prefix or the cursor of a listing: at most [`MAX_NAME_BYTES`] bytes. It may be empty.
///
/// ```
/// use mcp_store::limits;
///
/// assert!(limits::prefix("").is_ok());
/// assert!(limits::prefix(&"p".repeat(limits::MAX_NAME_BYTES + 1)).unwrap_err().is_invalid());
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is too long.
pub fn prefix(prefix: &str) -> Result<(), StoreError> {
    if prefix.len() > MAX_NAME_BYTES {
        let len = prefix.len();
        return Err(StoreError::invalid(format!("a name of {len} bytes is longer than {MAX_NAME_BYTES}")));
    }
    Ok(())
}

/// Checks a time to live.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_store::limits;
///
/// assert!(limits::ttl(None).is_ok());
/// assert!(limits::ttl(Some(Duration::ZERO)).unwrap_err().is_invalid());
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is zero. Use a delete instead.
pub fn ttl(ttl: Option<Duration>) -> Result<(), StoreError> {
    if ttl.is_some_and(|ttl| ttl.is_zero()) {
        return Err(StoreError::invalid("a time to live must not be zero"));
    }
    Ok(())
}

/// Checks the number of a record of a writer.
///
/// ```
/// use mcp_store::limits;
///
/// assert!(limits::number(limits::MAX_NUMBER).is_ok());
/// assert!(limits::number(0).unwrap_err().is_invalid());
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is zero or greater than [`MAX_NUMBER`].
pub fn number(number: u64) -> Result<(), StoreError> {
    if number == 0 || number > MAX_NUMBER {
        return Err(StoreError::invalid(format!("the number {number} of a record is not between 1 and {MAX_NUMBER}")));
    }
    Ok(())
}

/// Checks the limit of a page and bounds it by [`MAX_PAGE`].
///
/// ```
/// use mcp_store::limits;
///
/// assert_eq!(limits::page(50)?, 50);
/// assert_eq!(limits::page(usize::MAX)?, limits::MAX_PAGE);
/// assert!(limits::page(0).unwrap_err().is_invalid());
/// # Ok::<(), mcp_store::StoreError>(())
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is zero.
pub fn page(limit: usize) -> Result<usize, StoreError> {
    if limit == 0 {
        return Err(StoreError::invalid("a page must hold at least one entry"));
    }
    Ok(limit.min(MAX_PAGE))
}

/// Checks the size of a message for a topic.
///
/// ```
/// use mcp_store::limits;
///
/// assert!(limits::message(b"changed: notes/1").is_ok());
/// assert!(limits::message(&vec![0; limits::MAX_MESSAGE_BYTES + 1]).unwrap_err().is_invalid());
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is larger than [`MAX_MESSAGE_BYTES`].
pub fn message(message: &[u8]) -> Result<(), StoreError> {
    if message.len() > MAX_MESSAGE_BYTES {
        let len = message.len();
        return Err(StoreError::invalid(format!("a message of {len} bytes is larger than {MAX_MESSAGE_BYTES}")));
    }
    Ok(())
}

/// Checks the capacity of a subscription and bounds it by [`MAX_CAPACITY`].
///
/// ```
/// use mcp_store::limits;
///
/// assert_eq!(limits::capacity(64)?, 64);
/// assert_eq!(limits::capacity(usize::MAX)?, limits::MAX_CAPACITY);
/// assert!(limits::capacity(0).unwrap_err().is_invalid());
/// # Ok::<(), mcp_store::StoreError>(())
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when it is zero.
pub fn capacity(capacity: usize) -> Result<usize, StoreError> {
    if capacity == 0 {
        return Err(StoreError::invalid("a subscription must hold at least one message"));
    }
    Ok(capacity.min(MAX_CAPACITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_apply_at_their_boundaries() {
        let check = |what: &str, ok: bool, expected: bool| assert_eq!(ok, expected, "{what}");
        let text = "n".repeat(MAX_NAME_BYTES + 1);
        check("empty name", name("").is_ok(), false);
        check("one byte", name("a").is_ok(), true);
        check("longest name", name(&text[1..]).is_ok(), true);
        check("too long a name", name(&text).is_ok(), false);
        check("empty prefix", prefix("").is_ok(), true);
        check("too long a prefix", prefix(&text).is_ok(), false);
        check("no ttl", ttl(None).is_ok(), true);
        check("zero ttl", ttl(Some(Duration::ZERO)).is_ok(), false);
        check("shortest ttl", ttl(Some(Duration::from_nanos(1))).is_ok(), true);
        check("largest message", message(&vec![0; MAX_MESSAGE_BYTES]).is_ok(), true);
        check("too large a message", message(&vec![0; MAX_MESSAGE_BYTES + 1]).is_ok(), false);
        check("number of none", number(0).is_ok(), false);
        check("greatest number", number(MAX_NUMBER).is_ok(), true);
        check("too great a number", number(MAX_NUMBER + 1).is_ok(), false);
        check("page of none", page(0).is_ok(), false);
        check("capacity of none", capacity(0).is_ok(), false);
        assert_eq!((page(MAX_PAGE).unwrap(), page(MAX_PAGE + 1).unwrap()), (MAX_PAGE, MAX_PAGE));
        assert_eq!((capacity(1).unwrap(), capacity(MAX_CAPACITY + 1).unwrap()), (1, MAX_CAPACITY));
    }
}
