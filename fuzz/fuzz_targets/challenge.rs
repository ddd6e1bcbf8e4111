//! Parses any lines as values of `WWW-Authenticate`.
//!
//! A parsed challenge has the same scheme and the same text after a second parse.

#![no_main]

use fuzz::fuzz_target;
use mcp_protocol::Challenge;

fuzz_target!(|data: &str| {
    for challenge in Challenge::parse(data.lines()) {
        let text = challenge.to_string();
        assert!(!text.contains(['\r', '\n', '\0']), "{text:?}");
        let _ = (challenge.scopes().count(), challenge.is_scheme("bearer"));
        // The text replaces characters that RFC 6750 does not allow.
        let again = Challenge::parse([text.as_str()]);
        assert_eq!(again.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
        assert_eq!(again[0].scheme, challenge.scheme);
    }
});
