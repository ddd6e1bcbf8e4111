//! The tokens of one server, as they are stored.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_protocol::auth::{Secret, TokenResponse};
use serde::{Deserialize, Serialize};

use crate::dpop::DpopKey;

/// The least time before the end of a token at which the client renews it, in seconds.
const LEAST_MARGIN: u64 = 30;

/// How the client got a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grant {
    Login,
    Refresh,
}

/// The tokens of one server. All times are absolute, in seconds since 1970, so a stored record keeps its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    /// The identity of the authorization server that issued the tokens.
    pub(crate) issuer: String,
    /// Whether the authorization server is the MCP server itself, as in 2025-03-26.
    #[serde(default)]
    pub(crate) is_legacy: bool,
    /// The client to which the tokens were issued.
    pub(crate) client_id: String,
    /// The parameter `resource` of the first request. Each refresh sends the same bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    /// The key to which the tokens are bound. Without it they are bearer tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dpop_key: Option<DpopKey>,
    pub(crate) access_token: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<Secret>,
    /// Whether the authorization server rejected the refresh token. It is kept, and not sent again.
    #[serde(default)]
    pub(crate) is_revoked: bool,
    pub(crate) obtained_at: u64,
    /// The time of the login. 0 if the record has none.
    #[serde(default)]
    pub(crate) logged_in_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    /// The scopes that the client requested.
    #[serde(default)]
    pub(crate) requested: Vec<String>,
    /// The scopes that the authorization server granted, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) granted: Option<Vec<String>>,
    pub(crate) grant: Grant,
}

impl Tokens {
    /// Returns the tokens of a refresh. An answer without a refresh token keeps the old one.
    pub(crate) fn renewed(&self, answer: TokenResponse, now: u64) -> Self {
        let expires_at = end(&answer, now);
        let granted = granted(&answer).or_else(|| self.granted.clone());
        Self {
            granted,
            access_token: answer.access_token,
            refresh_token: answer.refresh_token.or_else(|| self.refresh_token.clone()),
            is_revoked: false,
            obtained_at: now,
            expires_at,
            grant: Grant::Refresh,
            ..self.clone()
        }
    }

    /// Whether the access token has ended.
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether the client should renew the access token: 30 seconds or a tenth of its life before its end, and at most half
    /// of its life before its end. A token without an end is renewed after a 401.
    pub(crate) fn needs_renewal(&self, now: u64) -> bool {
        let Some(end) = self.expires_at else { return false };
        let life = end.saturating_sub(self.obtained_at);
        let margin = LEAST_MARGIN.max(life / 10).min(life / 2);
        end.saturating_sub(margin) <= now
    }

    /// Whether both records have the same tokens.
    pub(crate) fn has_same_secrets(&self, other: &Self) -> bool {
        self.access_token == other.access_token && self.refresh_token == other.refresh_token
    }

    /// Returns the refresh token, if the authorization server may accept it.
    pub(crate) fn refresh_token(&self) -> Option<&Secret> {
        self.refresh_token.as_ref().filter(|_| !self.is_revoked)
    }
}

/// Whether an access token has visible ASCII characters alone, so a header can contain it (RFC 6750 §2.1 allows fewer).
pub(crate) fn is_valid(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the scopes that an answer names.
fn granted(answer: &TokenResponse) -> Option<Vec<String>> {
    Some(answer.scope.as_deref()?.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Returns the scopes that a login was granted. An answer without scopes grants the requested ones (RFC 6749 §5.1). `None` if
/// neither names scopes.
pub(crate) fn granted_of_login(answer: &TokenResponse, requested: &[String]) -> Option<Vec<String>> {
    granted(answer).or_else(|| Some(requested).filter(|requested| !requested.is_empty()).map(<[String]>::to_vec))
}

/// Returns the end of an access token.
pub(crate) fn end(answer: &TokenResponse, now: u64) -> Option<u64> {
    now.checked_add(answer.expires_in?)
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(obtained_at: u64, expires_at: Option<u64>) -> Tokens {
        Tokens {
            issuer: "https://as.example".into(),
            is_legacy: false,
            client_id: "c".into(),
            resource: Some("https://a.example/mcp".into()),
            dpop_key: None,
            access_token: "hunter1".into(),
            refresh_token: Some("hunter2".into()),
            is_revoked: false,
            obtained_at,
            logged_in_at: obtained_at,
            expires_at,
            requested: vec!["a".into()],
            granted: Some(vec!["a".into()]),
            grant: Grant::Login,
        }
    }

    #[test]
    fn tokens_are_renewed_before_their_end() {
        for (life, now, needs_renewal, is_expired) in [
            (Some(3600), 1_000, false, false),
            (Some(3600), 1_000 + 3239, false, false),
            (Some(3600), 1_000 + 3240, true, false),
            (Some(3600), 1_000 + 3600, true, true),
            (Some(100), 1_000 + 69, false, false),
            (Some(100), 1_000 + 70, true, false),
            (Some(10), 1_000 + 4, false, false),
            (Some(10), 1_000 + 5, true, false),
            (Some(0), 1_000, true, true),
            (None, u64::MAX, false, false),
        ] {
            let tokens = tokens(1_000, life.map(|life| 1_000 + life));
            assert_eq!(
                (tokens.needs_renewal(now), tokens.is_expired(now)),
                (needs_renewal, is_expired),
                "{life:?} {now}"
            );
        }
    }

    #[test]
    fn a_refresh_keeps_what_its_answer_omits() {
        let old = tokens(1_000, Some(2_000));
        let mut answer = TokenResponse::new("hunter3", "Bearer");
        answer.expires_in = Some(60);
        let renewed = old.renewed(answer.clone(), 5_000);
        assert_eq!(renewed.refresh_token, old.refresh_token);
        assert_eq!((renewed.obtained_at, renewed.expires_at, renewed.grant), (5_000, Some(5_060), Grant::Refresh));
        answer.refresh_token = Some("hunter4".into());
        answer.expires_in = None;
        let rotated = renewed.renewed(answer, 6_000);
        assert_eq!(rotated.refresh_token().unwrap().expose(), "hunter4");
        assert_eq!((rotated.expires_at, rotated.resource), (None, old.resource));
    }

    #[test]
    fn tokens_have_visible_ascii_characters() {
        for (token, expected) in [
            ("eyJhbGciOiJIUzI1NiJ9.e30.a-_~+/=", true),
            ("a:b", true),
            ("", false),
            ("a b", false),
            ("a\tb", false),
            ("a\r\nb", false),
            ("a\u{7f}", false),
            ("a\u{e9}", false),
            ("a\u{80}", false),
        ] {
            assert_eq!(is_valid(token), expected, "{token:?}");
        }
    }

    #[test]
    fn stored_tokens_round_trip_and_print_no_secrets() {
        let bound = Tokens { dpop_key: Some(DpopKey::generate().unwrap()), ..tokens(1_000, None) };
        for tokens in [tokens(1_000, Some(2_000)), tokens(1_000, None), bound] {
            let json = serde_json::to_string(&tokens).unwrap();
            assert_eq!(serde_json::from_str::<Tokens>(&json).unwrap(), tokens);
            assert!(!format!("{tokens:?}").contains("hunter"));
        }
        let revoked = Tokens { is_revoked: true, ..tokens(1, None) };
        assert_eq!(revoked.refresh_token(), None);
    }

    #[test]
    fn granted_scopes_are_those_of_the_answer_or_of_the_request() {
        let answer = |scope: Option<&str>| {
            let mut answer = TokenResponse::new("hunter1", "Bearer");
            answer.scope = scope.map(str::to_owned);
            answer
        };
        for (scope, requested, expected) in [
            (Some("a  b"), &["c"][..], Some(&["a", "b"][..])),
            (Some(""), &["c"], Some(&[])),
            (None, &["c"], Some(&["c"])),
            (None, &[], None),
        ] {
            let requested: Vec<String> = requested.iter().map(|scope| (*scope).to_owned()).collect();
            let granted = granted_of_login(&answer(scope), &requested);
            let expected = expected.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect());
            assert_eq!(granted, expected, "{scope:?} {requested:?}");
        }
        // A refresh keeps the scopes unless its answer names others.
        let old = tokens(1, None);
        assert_eq!(old.renewed(answer(None), 2).granted, old.granted);
        assert_eq!(old.renewed(answer(Some("b")), 2).granted, Some(vec!["b".to_owned()]));
    }
}
