//! The credentials in the headers of a request.

#[cfg(feature = "providers")]
use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, HeaderName, header};
#[cfg(feature = "providers")]
use mcp_protocol::auth::Secret;

use crate::authenticator::Rejection;

/// The longest value of a header with credentials, in bytes. The endpoint of `mcp-server-http` has the same limit.
const MAX_LENGTH: usize = 16 << 10;

/// Returns the credentials of a scheme from `Authorization` (RFC 9110 §11.6.2). `None` if there is no such header, or it
/// has another scheme.
pub(crate) fn authorization<'h>(headers: &'h HeaderMap, scheme: &str) -> Result<Option<&'h str>, Rejection> {
    let Some(value) = single(headers, &header::AUTHORIZATION)? else { return Ok(None) };
    let Some((found, credentials)) = value.split_at_checked(scheme.len()) else { return Ok(None) };
    if !found.eq_ignore_ascii_case(scheme) || !(credentials.is_empty() || credentials.starts_with(' ')) {
        return Ok(None);
    }
    let credentials = credentials.trim_ascii();
    if credentials.is_empty() {
        return Err(malformed("there are no credentials behind the scheme"));
    }
    Ok(Some(credentials))
}

/// Returns the token of `Authorization: Bearer …` (RFC 6750 §2.1), or of another scheme with a token.
#[cfg(feature = "providers")]
pub(crate) fn token<'h>(headers: &'h HeaderMap, scheme: &str) -> Result<Option<&'h str>, Rejection> {
    let token = authorization(headers, scheme)?;
    token.map_or(Ok(()), check_token)?;
    Ok(token)
}

/// Returns the result for the token of `Authorization: Bearer …` if it is known without a wait. The characters of an accepted
/// token are not checked again.
#[cfg(feature = "providers")]
pub(crate) fn bearer_now<T>(
    headers: &HeaderMap,
    known: impl FnOnce(&str) -> Option<Result<T, Rejection>>,
) -> Option<Result<T, Rejection>> {
    match authorization(headers, "Bearer") {
        Ok(Some(token)) => match known(token) {
            Some(Ok(accepted)) => Some(Ok(accepted)),
            other => check_token(token).map_or_else(|malformed| Some(Err(malformed)), |()| other),
        },
        Ok(None) => Some(Err(Rejection::Missing)),
        Err(rejection) => Some(Err(rejection)),
    }
}

#[cfg(feature = "providers")]
fn check_token(token: &str) -> Result<(), Rejection> {
    if is_token(token) { Ok(()) } else { Err(malformed("the token contains an invalid character")) }
}

/// Whether a text has only the characters of a token (RFC 6750 §2.1).
#[cfg(feature = "providers")]
pub(crate) fn is_token(text: &str) -> bool {
    // `-`, `.`, `/` and the digits are neighbours in ASCII. The upper and lower case of a letter differ in one bit.
    all(text.as_bytes(), |byte| {
        ((byte | 0x20).wrapping_sub(b'a') < 26)
            | (byte.wrapping_sub(b'-') < 13)
            | (byte == b'_')
            | (byte == b'~')
            | (byte == b'+')
            | (byte == b'=')
    })
}

/// Whether a text has only characters that the header of an API key may have.
#[cfg(feature = "providers")]
pub(crate) fn is_key(text: &str) -> bool {
    all(text.as_bytes(), |byte| (byte.wrapping_sub(b' ') < 95) | (byte == b'\t'))
}

/// Whether all bytes pass a test. There is no early end, so that the compiler can test several bytes at once.
#[cfg(feature = "providers")]
fn all(bytes: &[u8], test: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(0, |failed, byte| failed | u8::from(!test(*byte))) == 0
}

/// Returns the key from a header of its own, or from `Authorization: ApiKey …`.
#[cfg(feature = "providers")]
pub(crate) fn api_key<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Rejection> {
    match single(headers, name)? {
        Some(key) => match key.trim_ascii() {
            "" => Err(malformed("the key is empty")),
            key => Ok(Some(key)),
        },
        None => authorization(headers, "ApiKey"),
    }
}

/// Returns the user and the password of `Authorization: Basic …` (RFC 7617). The password may be empty.
#[cfg(feature = "providers")]
pub(crate) fn basic(headers: &HeaderMap) -> Result<Option<(String, Secret)>, Rejection> {
    let Some(encoded) = authorization(headers, "Basic")? else { return Ok(None) };
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| malformed("the user and the password are not Base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| malformed("the user and the password are not UTF-8"))?;
    let (user, password) =
        text.split_once(':').ok_or_else(|| malformed("there is no colon between the user and the password"))?;
    Ok(Some((user.to_owned(), password.into())))
}

/// Returns the value of a header that may occur once.
pub(crate) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed("the header with the credentials is given twice"));
    }
    if value.len() > MAX_LENGTH {
        return Err(malformed("the header with the credentials is too long"));
    }
    // The value of a header has no control characters but the tab. `HeaderValue::to_str` checks each byte alone, which is slow for
    // a token.
    let text = std::str::from_utf8(value.as_bytes()).ok().filter(|text| text.is_ascii());
    text.map(Some).ok_or_else(|| malformed("the header with the credentials is not ASCII"))
}

/// Logs the reason for which credentials cannot be read. The client receives no reason.
fn malformed(reason: &'static str) -> Rejection {
    tracing::debug!(reason, "rejected malformed credentials");
    Rejection::Malformed
}

#[cfg(feature = "providers")]
#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
        let parse = |(name, value): &(&str, &[u8])| (name.parse().unwrap(), HeaderValue::from_bytes(value).unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(parse) {
            let name: HeaderName = name;
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn tokens_are_read_from_the_header() {
        for (value, expected) in [
            (&b"Bearer abc"[..], Ok(Some("abc"))),
            (b"bearer abc", Ok(Some("abc"))),
            (b"BEARER   abc  ", Ok(Some("abc"))),
            (b"Basic abc", Ok(None)),
            (b"BearerX abc", Ok(None)),
            (b"Bearer\tabc", Ok(None)),
            (b"Bear", Ok(None)),
            (b"Bearer", Err(Rejection::Malformed)),
            (b"Bearer ", Err(Rejection::Malformed)),
            (b"Bearer a b", Err(Rejection::Malformed)),
            (b"Bearer a,b", Err(Rejection::Malformed)),
            (b"Bearer \xff", Err(Rejection::Malformed)),
            (b"", Ok(None)),
        ] {
            let headers = headers(&[("authorization", value)]);
            assert_eq!(token(&headers, "Bearer"), expected, "{value:?}");
        }
        assert_eq!(token(&HeaderMap::new(), "Bearer"), Ok(None));
        let twice = headers(&[("authorization", b"Bearer a"), ("authorization", b"Bearer b")]);
        assert_eq!(token(&twice, "Bearer"), Err(Rejection::Malformed));
        for (length, is_accepted) in [(MAX_LENGTH, true), (MAX_LENGTH + 1, false)] {
            let long = format!("Bearer {}", "a".repeat(length - "Bearer ".len()));
            assert_eq!(token(&headers(&[("authorization", long.as_bytes())]), "Bearer").is_ok(), is_accepted);
        }
    }

    #[test]
    fn the_characters_of_a_token_are_checked_unless_it_is_accepted() {
        let accepted = |token: &str| Some(Ok(token.to_owned()));
        for (value, known, expected) in [
            (&b"Bearer a,b"[..], Some(true), Some(Ok("a,b"))),
            (b"Bearer a,b", Some(false), Some(Err(Rejection::Malformed))),
            (b"Bearer a,b", None, Some(Err(Rejection::Malformed))),
            (b"Bearer ab", Some(true), Some(Ok("ab"))),
            (b"Bearer ab", Some(false), Some(Err(Rejection::Invalid))),
            (b"Bearer ab", None, None),
            (b"Bearer", Some(true), Some(Err(Rejection::Malformed))),
            (b"Basic ab", Some(true), Some(Err(Rejection::Missing))),
        ] {
            let headers = headers(&[("authorization", value)]);
            let result = bearer_now(&headers, |token| match known? {
                true => accepted(token),
                false => Some(Err(Rejection::Invalid)),
            });
            assert_eq!(result, expected.map(|result| result.map(str::to_owned)), "{value:?} {known:?}");
        }
    }

    #[test]
    fn each_character_of_a_token_and_a_key_is_checked() {
        for byte in 0..=u8::MAX {
            let is_part = matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=');
            let text = char::from(byte).to_string();
            assert_eq!(is_token(&text), is_part, "{byte}");
            assert_eq!(is_key(&text), matches!(byte, b'\t' | b' '..=b'~'), "{byte}");
            assert_eq!(is_token(&format!("{}{text}", "a".repeat(40))), is_part, "{byte}");
            let Ok(value) = HeaderValue::from_bytes(&[b'a', byte, b'a']) else { continue };
            let mut headers = HeaderMap::new();
            headers.insert("x-api-key", value);
            let name = HeaderName::from_static("x-api-key");
            assert_eq!(single(&headers, &name).is_ok(), matches!(byte, b'\t' | b' '..=b'~'), "{byte}");
        }
    }

    #[test]
    fn users_are_read_from_the_header() {
        for (value, expected) in [
            ("u:p", Ok(("u", "p"))),
            ("u:", Ok(("u", ""))),
            (":p", Ok(("", "p"))),
            ("u:p:q", Ok(("u", "p:q"))),
            ("\u{fc}:\u{e9}", Ok(("\u{fc}", "\u{e9}"))),
            ("u", Err(Rejection::Malformed)),
        ] {
            let encoded = format!("Basic {}", BASE64_STANDARD.encode(value));
            let read = basic(&headers(&[("authorization", encoded.as_bytes())])).map(Option::unwrap);
            assert_eq!(read, expected.map(|(user, password)| (user.to_owned(), password.into())), "{value}");
        }
        for invalid in [&b"Basic ?"[..], b"Basic /w==", b"Basic"] {
            assert_eq!(basic(&headers(&[("authorization", invalid)])), Err(Rejection::Malformed), "{invalid:?}");
        }
        assert_eq!(basic(&headers(&[("authorization", b"Bearer a")])), Ok(None));
    }

    #[test]
    fn api_keys_are_read_from_two_headers() {
        let name = HeaderName::from_static("x-api-key");
        for (lines, expected) in [
            (&[("x-api-key", &b" abc "[..])][..], Ok(Some("abc"))),
            (&[("x-api-key", b"")], Err(Rejection::Malformed)),
            (&[("x-api-key", b"a"), ("x-api-key", b"b")], Err(Rejection::Malformed)),
            (&[("authorization", b"ApiKey abc")], Ok(Some("abc"))),
            (&[("authorization", b"apikey abc")], Ok(Some("abc"))),
            (&[("authorization", b"Bearer abc")], Ok(None)),
            (&[("authorization", b"ApiKey a"), ("x-api-key", b"b")], Ok(Some("b"))),
            (&[], Ok(None)),
        ] {
            assert_eq!(api_key(&headers(lines), &name), expected, "{lines:?}");
        }
    }
}
