//! The keys of `_meta` that the protocol names, and the grammar of all others (basic, §_meta).

/// The revision of a request (2026-07-28; required on each).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The capabilities of the client for this request (2026-07-28; required on each request).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The identity of the client (2026-07-28).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// From which level on the client wants log messages of this request (2026-07-28).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The identity of the server (2026-07-28; on results).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The `subscriptions/listen` request that a notification belongs to (2026-07-28).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// A text that a client may pass to the model while a task runs (2025-11-25, provisional).
pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
/// The token that progress notices must carry.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The W3C trace parent.
pub const TRACEPARENT: &str = "traceparent";
/// The W3C trace state.
pub const TRACESTATE: &str = "tracestate";
/// The W3C baggage.
pub const BAGGAGE: &str = "baggage";

/// Whether a key marks a request as one of 2026-07-28 or later.
#[must_use]
pub fn is_modern_request_key(key: &str) -> bool {
    matches!(key, PROTOCOL_VERSION | CLIENT_CAPABILITIES | CLIENT_INFO | LOG_LEVEL)
}

/// Whether a key follows the grammar: an optional prefix, then a name.
///
/// The prefix consists of labels separated by dots, and a slash at its end. A label starts with a letter and ends
/// with a letter or digit, with hyphens inside. A name starts and ends with a letter or digit, with `-`, `_` and `.`
/// inside. After a prefix the name may be empty.
///
/// ```
/// use mcp_protocol::meta::keys;
///
/// assert!(keys::is_valid_key("com.example/trace-id") && keys::is_valid_key("progressToken"));
/// assert!(!keys::is_valid_key("com..example/x") && !keys::is_valid_key("-x"));
/// ```
#[must_use]
pub fn is_valid_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && (name.is_empty() || is_name(name)),
        None => is_name(key),
    }
}

/// Whether a key belongs to the protocol: its prefix has `modelcontextprotocol` or `mcp` as second label, or it is one
/// of the keys without a prefix that the protocol names.
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    let Some(slash) = key.bytes().position(|byte| byte == b'/') else {
        return matches!(key, PROGRESS_TOKEN | TRACEPARENT | TRACESTATE | BAGGAGE);
    };
    let mut labels = key.as_bytes()[..slash].split(|byte| *byte == b'.');
    matches!(labels.nth(1), Some(b"modelcontextprotocol" | b"mcp"))
}

fn is_prefix(prefix: &str) -> bool {
    prefix.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    })
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_grammar_of_the_specification() {
        for good in
            ["a", "a1", "1a", "a.b_c-d", "com.example/", "com.example/a", "a-b.c1/x.y", SERVER_INFO, RELATED_TASK]
        {
            assert!(is_valid_key(good), "{good}");
        }
        for bad in ["", "_a", "a_", "a b", "/a", "1a.b/c", "a-/b", "a..b/c", "a_b/c", "a/b/c", "a/-b", "é", "a/é"] {
            assert!(!is_valid_key(bad), "{bad}");
        }
    }

    #[test]
    fn reserved_prefixes_are_recognized_by_their_second_label() {
        for reserved in ["io.modelcontextprotocol/x", "dev.mcp/", "com.mcp.tools/x", "progressToken", "baggage"] {
            assert!(is_reserved_key(reserved), "{reserved}");
        }
        for free in ["com.example.mcp/x", "mcp/x", "modelcontextprotocol.io/x", "mcp", "com.example/progressToken"] {
            assert!(!is_reserved_key(free), "{free}");
        }
    }
}
