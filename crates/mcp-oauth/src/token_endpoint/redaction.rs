//! The removal of secrets from the refusals of authorization servers, which may repeat the request.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, header};
use mcp_protocol::auth::OAuthError;
use url::form_urlencoded;

use crate::dpop::DPOP;

/// The parameters of requests that are not secret. Each other value is removed.
const PUBLIC: [&str; 11] = [
    "actor_token_type",
    "audience",
    "client_assertion_type",
    "client_id",
    "grant_type",
    "redirect_uri",
    "requested_token_type",
    "resource",
    "scope",
    "subject_token_type",
    "token_type_hint",
];
/// The error codes to which the client reacts (RFC 6749 §5.2, RFC 7009, RFC 8628, RFC 8707, RFC 9449). They keep their
/// meaning, also if a secret is a part of them.
const CODES: [&str; 17] = [
    "access_denied",
    "authorization_pending",
    "expired_token",
    "invalid_client",
    "invalid_dpop_proof",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "invalid_token",
    "server_error",
    "slow_down",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_grant_type",
    "unsupported_token_type",
    "use_dpop_nonce",
];
const REPLACEMENT: &str = "[secret]";

/// Replaces the secrets of a request in its refusal, and escapes characters that change the display of a text.
pub(super) fn redact(refusal: &mut OAuthError, headers: &HeaderMap, body: &[u8]) {
    let mut secrets: Vec<String> = form_urlencoded::parse(body)
        .filter(|(name, _)| !PUBLIC.contains(&&**name))
        .map(|(_, value)| value.into_owned())
        .collect();
    secrets.extend(headers.get(DPOP).and_then(|proof| proof.to_str().ok()).map(str::to_owned));
    let basic = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
    if let Some(basic) = basic {
        secrets.push(basic.to_owned());
        let credentials = BASE64_STANDARD.decode(basic).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((_, secret)) = credentials.as_deref().and_then(|credentials| credentials.split_once(':')) {
            // RFC 6749 §2.3.1 encodes the secret as in a form.
            let decoded = form_urlencoded::parse(secret.as_bytes()).next().map(|(text, _)| text.into_owned());
            secrets.extend(decoded);
        }
    }
    let encoded: Vec<String> =
        secrets.iter().map(|secret| form_urlencoded::byte_serialize(secret.as_bytes()).collect()).collect();
    secrets.extend(encoded);
    secrets.retain(|secret| !secret.is_empty());
    // A secret may contain another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let error = Some(&mut refusal.error).filter(|error| !CODES.contains(&error.as_str()));
    let texts = [error, refusal.error_description.as_mut(), refusal.error_uri.as_mut()];
    for text in texts.into_iter().flatten() {
        for secret in secrets.iter().filter(|secret| !is_word(secret)) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), REPLACEMENT);
            }
        }
        escape(text);
    }
}

/// Escapes control characters, and those of the direction of writing.
fn escape(text: &mut String) {
    let is_hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(is_hidden) {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if is_hidden(c) {
                escaped.extend(c.escape_default());
            } else {
                escaped.push(c);
            }
        }
        *text = escaped;
    }
}

/// Whether a text is so short that its removal would damage texts without secrets.
fn is_word(text: &str) -> bool {
    text.len() < 4
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_refusal_does_not_repeat_secrets() {
        let mut headers = HeaderMap::new();
        let basic = BASE64_STANDARD.encode("app:hunter2+a%2Fb");
        headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Basic {basic}")).unwrap());
        let body = b"grant_type=refresh_token&refresh_token=hunter3%2B&client_secret=abc&code=hunter3%2B5&scope=a\
            &token=hunter4";
        headers.insert(DPOP, HeaderValue::from_static("hunter.5.proof"));
        for (text, expected) in [
            ("refresh_token hunter3+ is unknown", "refresh_token [secret] is unknown"),
            ("hunter3%2B", "[secret]"),
            ("hunter3+5 and hunter3+", "[secret] and [secret]"),
            (&basic, "[secret]"),
            ("the secret hunter2 a/b is wrong", "the secret [secret] is wrong"),
            ("hunter2+a%2Fb", "[secret]"),
            ("grant_type and scope a, abc", "grant_type and scope a, abc"),
            ("hunter4 and hunter.5.proof", "[secret] and [secret]"),
            ("a\r\n\u{1b}[31mb\u{202e}c", "a\\r\\n\\u{1b}[31mb\\u{202e}c"),
            ("plain: äöü", "plain: äöü"),
        ] {
            let mut refusal = OAuthError::new("invalid_grant");
            refusal.error_description = Some(text.to_owned());
            redact(&mut refusal, &headers, body);
            assert_eq!(refusal.error_description.as_deref(), Some(expected), "{text}");
            assert_eq!(refusal.error, "invalid_grant");
        }
        for (code, expected) in [("invalid_grant", "invalid_grant"), ("x_invalid", "x_[secret]")] {
            let mut refusal = OAuthError::new(code);
            redact(&mut refusal, &HeaderMap::new(), b"code=invalid");
            assert_eq!(refusal.error, expected);
        }
    }
}
