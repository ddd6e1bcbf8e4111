//! The removal of secrets from the refusals of authorization servers, which may repeat the request.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, header};
use mcp_protocol::auth::OAuthError;
use url::form_urlencoded;

/// The parameters of token requests that are secret.
const PARAMETERS: [&str; 9] = [
    "actor_token",
    "assertion",
    "client_assertion",
    "client_secret",
    "code",
    "code_verifier",
    "device_code",
    "refresh_token",
    "subject_token",
];
const REPLACEMENT: &str = "[secret]";

/// Replaces the secrets of a token request in its refusal.
pub(super) fn redact(refusal: &mut OAuthError, headers: &HeaderMap, body: &[u8]) {
    let mut secrets: Vec<String> = form_urlencoded::parse(body)
        .filter(|(name, _)| PARAMETERS.contains(&&**name))
        .map(|(_, value)| value.into_owned())
        .collect();
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
    let texts = [Some(&mut refusal.error), refusal.error_description.as_mut(), refusal.error_uri.as_mut()];
    for text in texts.into_iter().flatten() {
        for secret in secrets.iter().filter(|secret| !is_word(secret)) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), REPLACEMENT);
            }
        }
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
        let body = b"grant_type=refresh_token&refresh_token=hunter3%2B&client_secret=abc&code=hunter3%2B5&scope=a";
        for (text, expected) in [
            ("refresh_token hunter3+ is unknown", "refresh_token [secret] is unknown"),
            ("hunter3%2B", "[secret]"),
            ("hunter3+5 and hunter3+", "[secret] and [secret]"),
            (&basic, "[secret]"),
            ("the secret hunter2 a/b is wrong", "the secret [secret] is wrong"),
            ("hunter2+a%2Fb", "[secret]"),
            ("grant_type and scope a, abc", "grant_type and scope a, abc"),
        ] {
            let mut refusal = OAuthError::new("invalid_grant");
            refusal.error_description = Some(text.to_owned());
            redact(&mut refusal, &headers, body);
            assert_eq!(refusal.error_description.as_deref(), Some(expected), "{text}");
            assert_eq!(refusal.error, "invalid_grant");
        }
    }
}
