//! The mapping from errors of Redis to errors of a store.

use mcp_store::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The text of a missing permission.
pub(crate) const NO_PERMISSION: &str = "the user of redis lacks a permission of this store";
/// The longest part of an error of Redis in the text of an error, in characters.
const DETAIL: usize = 200;
/// The text of a server that is a replica.
pub(crate) const REPLICA: &str = "redis is a replica and does not accept writes";

/// The consequence of an error for the connection that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection stays in use.
    Keep,
    /// The connection is lost, or leads to a server that cannot write. A new connection may lead to another server.
    Replace,
}

/// Returns whether the connection that returned `error` stays in use.
pub(crate) fn verdict(error: &RedisError) -> Verdict {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::Moved) => {
            Verdict::Replace
        }
        ErrorKind::Server(_) | ErrorKind::Extension => Verdict::Keep,
        _ if error.is_unrecoverable_error() => Verdict::Replace,
        _ => Verdict::Keep,
    }
}

/// Returns the error of a store for an error of a command.
///
/// The memory bound of Redis is [full](StoreError::is_full). Each other error is
/// [unavailable](StoreError::is_unavailable), because the arguments were checked before the command was sent.
pub(crate) fn store_error(error: RedisError) -> StoreError {
    if error.code() == Some("OOM") || error.detail().is_some_and(|detail| detail.contains("OOM command not allowed")) {
        return StoreError::full("redis has reached its memory bound").with_source(error);
    }
    let message = match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoPerm) => return rejected(NO_PERMISSION, error),
        ErrorKind::Server(ServerErrorKind::ReadOnly) => REPLICA,
        ErrorKind::Server(ServerErrorKind::BusyLoading) => "redis is loading its data",
        ErrorKind::Server(ServerErrorKind::ClusterDown) => "the redis cluster is down",
        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::TryAgain) => {
            "the namespace has moved to another node of the redis cluster"
        }
        ErrorKind::Server(_) | ErrorKind::Extension => return rejected("redis rejected the command", error),
        ErrorKind::AuthenticationFailed => "redis rejected the credentials",
        _ => "the connection to redis was lost",
    };
    StoreError::unavailable(message).with_source(error)
}

/// Returns the error of a command that Redis rejected, with the reason of Redis.
fn rejected(message: &str, error: RedisError) -> StoreError {
    StoreError::unavailable(format!("{message}{}", reason(&error))).with_source(error)
}

/// Returns the reason of Redis for an error as the end of a text. It often names the command, the key or the channel.
pub(crate) fn reason(error: &RedisError) -> String {
    let Some(detail) = error.detail().map(str::trim).filter(|detail| !detail.is_empty()) else { return String::new() };
    let mut chars = detail.chars().map(|char| if char.is_control() { ' ' } else { char });
    let line: String = chars.by_ref().take(DETAIL).collect();
    format!(": {line}{}", if chars.next().is_some() { "…" } else { "" })
}

/// Returns the error of a reply that the command does not have.
pub(crate) fn unexpected(command: &'static str) -> StoreError {
    StoreError::unavailable(format!("redis returned an unexpected reply to {command}"))
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    /// Returns the error that a line of a server becomes.
    fn server(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(Value::extract_error);
        value.unwrap_err()
    }

    #[test]
    fn each_error_of_a_server_has_a_kind_and_a_verdict() {
        use Verdict::{Keep, Replace};
        for (line, is_full, expected) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", true, Keep),
            ("READONLY You can't write against a read only replica.", false, Replace),
            ("LOADING Redis is loading the dataset in memory", false, Keep),
            ("CLUSTERDOWN Hash slot not served", false, Keep),
            ("MASTERDOWN Link with MASTER is down", false, Replace),
            ("MOVED 3999 127.0.0.1:6381", false, Replace),
            ("TRYAGAIN Multiple keys request during rehashing of slot", false, Keep),
            ("NOPERM this user has no permissions to run the 'eval' command", false, Keep),
            ("BUSY Redis is busy running a script", false, Keep),
            ("MISCONF Redis is configured to save RDB snapshots", false, Keep),
            ("ERR unknown command", false, Keep),
        ] {
            let error = server(line);
            assert_eq!(verdict(&error), expected, "{line}");
            let error = store_error(error);
            assert_eq!((error.is_full(), error.is_unavailable()), (is_full, !is_full), "{line}: {error:?}");
        }
    }

    #[test]
    fn the_error_of_a_rejected_command_has_the_bounded_reason_of_redis() {
        let long = "x".repeat(500);
        for (line, text) in [
            (
                "NOPERM this user has no permissions to run the 'xadd' command",
                "the user of redis lacks a permission of this store: this user has no permissions to run the 'xadd' command",
            ),
            ("ERR unknown command", "redis rejected the command: unknown command"),
            ("BUSY a\tb", "redis rejected the command: a b"),
            (&format!("ERR {long}"), &format!("redis rejected the command: {}…", &long[..DETAIL])),
        ] {
            assert_eq!(store_error(server(line)).to_string(), text);
        }
    }

    #[test]
    fn a_lost_connection_is_unavailable_and_replaced() {
        let error = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(verdict(&error), Verdict::Replace);
        assert!(store_error(error).is_unavailable());
    }
}
