//! Authorization servers whose metadata differs from their behaviour. Each entry has its source.

use url::Url;

/// The known differences of one authorization server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// The server accepts PKCE with `S256` and does not declare it.
    pub(crate) assumes_s256: bool,
    /// Servers name the issuer with a slash, and the document has none.
    pub(crate) ignores_final_slash: bool,
    /// The server rejects the parameter `resource`.
    pub(crate) omits_resource: bool,
}

const NONE: Quirks = Quirks { assumes_s256: false, ignores_final_slash: false, omits_resource: false };

/// Hosts, each with its differences. The character `*` matches any text.
const TABLE: &[(&str, Quirks)] = &[
    // Microsoft Entra ID. The document has no `code_challenge_methods_supported`:
    // https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration
    // The endpoint accepts `code_challenge_method=S256`:
    // https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-auth-code-flow
    // A `resource` beside a `scope` of another form is the error AADSTS9010010.
    ("login.microsoftonline.com", Quirks { assumes_s256: true, omits_resource: true, ..NONE }),
    ("login.microsoftonline.us", Quirks { assumes_s256: true, omits_resource: true, ..NONE }),
    ("login.partner.microsoftonline.cn", Quirks { assumes_s256: true, omits_resource: true, ..NONE }),
    // Google. Servers name the issuer `https://accounts.google.com/`; the document has no slash:
    // https://accounts.google.com/.well-known/openid-configuration
    ("accounts.google.com", Quirks { ignores_final_slash: true, ..NONE }),
    // Amazon Cognito. The document has no `code_challenge_methods_supported`:
    // https://cognito-idp.us-east-1.amazonaws.com/{pool}/.well-known/openid-configuration
    // The endpoint accepts `S256` only: https://docs.aws.amazon.com/cognito/latest/developerguide/authorization-endpoint.html
    ("cognito-idp.*.amazonaws.com", Quirks { assumes_s256: true, ..NONE }),
];

/// Returns the differences of an issuer.
pub(crate) fn of(issuer: &str) -> Quirks {
    let Some(url) = Url::parse(issuer).ok().filter(|url| url.scheme() == "https") else { return NONE };
    let host = url.host_str().unwrap_or_default();
    let is_named = |pattern: &str| match pattern.split_once('*') {
        Some((start, end)) => host.starts_with(start) && host.ends_with(end),
        None => host == pattern,
    };
    TABLE.iter().find(|(pattern, _)| is_named(pattern)).map_or(NONE, |(_, quirks)| *quirks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_hosts_have_quirks() {
        for (issuer, assumes_s256, ignores_final_slash, omits_resource) in [
            ("https://login.microsoftonline.com/t/v2.0", true, false, true),
            ("https://login.microsoftonline.com.evil.example/t", false, false, false),
            ("https://evil.example/login.microsoftonline.com", false, false, false),
            ("http://login.microsoftonline.com/t", false, false, false),
            ("https://accounts.google.com", false, true, false),
            ("https://accounts.google.com/", false, true, false),
            ("https://cognito-idp.us-east-1.amazonaws.com/p", true, false, false),
            ("https://s3.amazonaws.com/p", false, false, false),
            ("https://cognito-idp.us-east-1.amazonaws.com.evil.example/p", false, false, false),
            ("https://as.example", false, false, false),
            ("", false, false, false),
        ] {
            let expected = Quirks { assumes_s256, ignores_final_slash, omits_resource };
            assert_eq!(of(issuer), expected, "{issuer}");
        }
    }
}
