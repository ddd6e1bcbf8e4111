//! The checks of the claims of a token (RFC 7519 §4.1, RFC 9068 §4), and the principal that they describe.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_protocol::{Principal, auth::Confirmation};
use serde_json::{Map, Value};

use super::Fault;

/// The claims that become fields of the principal.
const KNOWN: [&str; 13] =
    ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "client_id", "azp", "cnf", "act"];
/// The largest depth of `act`: the number of parties that act for the caller.
const MAX_ACTORS: usize = 4;
/// Claims that no access token has: they belong to ID tokens and logout tokens of OpenID Connect.
const FOREIGN: [&str; 3] = ["at_hash", "c_hash", "events"];
/// Values of the claim `typ` by which some issuers mark tokens of other purposes.
const FOREIGN_TYPES: [&str; 5] = ["id", "serialized-id", "refresh", "offline", "logout"];
/// The values of the claim `token_use` for access tokens.
const USES: [&str; 2] = ["access", "access_token"];

/// The rules for the claims of an issuer.
pub(crate) struct Rules<'a> {
    /// The allowed issuers.
    pub(crate) issuers: &'a [String],
    /// The allowed audiences. At least one must be in the token.
    pub(crate) audiences: &'a [&'a str],
    /// The largest difference between the clocks.
    pub(crate) skew: Duration,
    /// The claims with scopes.
    pub(crate) scope_claims: &'a [String],
    /// Whether a token without issuer and expiry time is accepted. Its issuer is then the first of the allowed ones.
    pub(crate) is_lenient: bool,
    /// Whether a token without audience is accepted.
    pub(crate) may_omit_audience: bool,
    /// The clients whose tokens are accepted without an audience.
    pub(crate) clients_without_audience: &'a [String],
    /// The claims with the id of the client. The first one in the token counts.
    pub(crate) client_claims: &'a [String],
}

/// Returns the standard claims with the id of the client (RFC 9068 §2.2, OpenID Connect).
pub(crate) fn client_claims() -> Vec<String> {
    ["client_id", "azp"].map(str::to_owned).to_vec()
}

impl Rules<'_> {
    /// Checks the claims and returns the principal.
    #[cfg(feature = "oauth")]
    pub(crate) fn check(&self, claims: &Map<String, Value>, now: SystemTime) -> Result<Principal, Fault> {
        let principal = self.check_without_expiry(claims, now)?;
        check_expiry(&principal, self.skew, now)?;
        Ok(principal)
    }

    /// Checks all claims, but accepts an expiry time in the past.
    pub(crate) fn check_without_expiry(
        &self,
        claims: &Map<String, Value>,
        now: SystemTime,
    ) -> Result<Principal, Fault> {
        let issuer = match claims.get("iss") {
            None if self.is_lenient => self.issuers.first().map(String::as_str),
            None => None,
            Some(issuer) => Some(issuer.as_str().ok_or(Fault::Invalid("the issuer is not a text"))?),
        };
        let issuer = issuer.ok_or(Fault::Invalid("the token has no issuer"))?;
        if !self.issuers.iter().any(|allowed| allowed == issuer) {
            return Err(Fault::Invalid("the issuer is not allowed"));
        }
        check_purpose(claims)?;
        let audience = self.audience(claims)?;
        let expires_at = self.times(claims, now)?;
        let client_id = self.client_id(claims)?;
        // The client id must not become the subject: a client could otherwise have the name of a user.
        let subject = text(claims, "sub")?.filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(Fault::Invalid("the token has no subject"))?;
        let mut principal =
            Principal::new(subject).with_issuer(issuer).with_audience(audience).with_scopes(self.scopes(claims)?);
        principal.expires_at = expires_at;
        principal.client_id = client_id.map(str::to_owned);
        principal.token_id = text(claims, "jti")?.map(str::to_owned);
        principal.confirmation = confirmation(claims)?;
        let is_dpop = principal.confirmation.as_ref().is_some_and(|confirmation| confirmation.jkt.is_some());
        principal.scheme = Some(if is_dpop { "DPoP" } else { "Bearer" }.to_owned());
        principal.actor = actor(present(claims, "act"), MAX_ACTORS)?.map(Box::new);
        let other = claims.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
        Ok(principal.with_claims(other.map(|(name, value)| (name.clone(), value.clone()))))
    }

    fn audience(&self, claims: &Map<String, Value>) -> Result<Vec<String>, Fault> {
        if !claims.contains_key("aud") && (self.may_omit_audience || self.is_client_without_audience(claims)?) {
            return Ok(Vec::new());
        }
        let audience = claims.get("aud").ok_or(Fault::Invalid("the token has no audience"))?;
        let audience = strings(Some(audience)).ok_or(Fault::Invalid("the audience is not a list of texts"))?;
        if audience.iter().any(|name| self.audiences.contains(&name.as_str())) {
            Ok(audience)
        } else {
            Err(Fault::Invalid("the token is for another audience"))
        }
    }

    /// Whether the token is for one of the clients that need no audience. Only `client_id` counts, because other claims with
    /// clients have other meanings at some issuers.
    fn is_client_without_audience(&self, claims: &Map<String, Value>) -> Result<bool, Fault> {
        let client_id = text(claims, "client_id")?;
        Ok(client_id.is_some_and(|id| self.clients_without_audience.iter().any(|allowed| allowed == id)))
    }

    fn client_id<'c>(&self, claims: &'c Map<String, Value>) -> Result<Option<&'c str>, Fault> {
        let mut first = None;
        for name in self.client_claims {
            first = first.or(text(claims, name)?);
        }
        Ok(first)
    }

    /// Checks `nbf`, `iat` and the form of `exp`, and returns the expiry time.
    fn times(&self, claims: &Map<String, Value>, now: SystemTime) -> Result<Option<SystemTime>, Fault> {
        if claims.get("exp").is_some_and(Value::is_null) {
            return Err(Fault::Invalid("the expiry time is null"));
        }
        let expires_at = time(claims, "exp")?;
        match expires_at {
            Some(at) if at.checked_add(self.skew).is_none() => {
                return Err(Fault::Invalid("the expiry time is out of range"));
            }
            None if !self.is_lenient => return Err(Fault::Invalid("the token has no expiry time")),
            _ => {}
        }
        let latest = now.checked_add(self.skew).unwrap_or(now);
        if time(claims, "nbf")?.is_some_and(|not_before| not_before > latest) {
            return Err(Fault::Invalid("the token is not valid yet"));
        }
        if time(claims, "iat")?.is_some_and(|issued_at| issued_at > latest) {
            return Err(Fault::Invalid("the token was issued in the future"));
        }
        Ok(expires_at)
    }

    fn scopes(&self, claims: &Map<String, Value>) -> Result<Vec<String>, Fault> {
        let mut scopes = Vec::new();
        for name in self.scope_claims {
            let Some(value) = present(claims, name) else { continue };
            if let Value::String(text) = value {
                scopes.extend(text.split_ascii_whitespace().map(str::to_owned));
                continue;
            }
            let list =
                strings(Some(value)).ok_or(Fault::Invalid("the scopes are neither a text nor a list of texts"))?;
            // A part of a name such as `Help admin` must not become a scope.
            let (dropped, list): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|item| item.is_empty() || item.contains(char::is_whitespace));
            if !dropped.is_empty() {
                let items = dropped.len();
                tracing::debug!(claim = name, items, "ignored scopes of a list that are empty or contain white space");
            }
            scopes.extend(list);
        }
        Ok(scopes)
    }
}

/// Rejects a principal whose authentication has ended.
pub(crate) fn check_expiry(principal: &Principal, skew: Duration, now: SystemTime) -> Result<(), Fault> {
    let end = principal.expires_at.and_then(|at| at.checked_add(skew));
    if end.is_some_and(|end| now >= end) { Err(Fault::Expired) } else { Ok(()) }
}

/// Returns a text or a list of texts as a list. `None` if the value is neither.
pub(crate) fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Returns the value of a claim. `null` counts as no value, except where its use would weaken a check: in `iss`, `aud`,
/// `exp` and `cnf`.
fn present<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    claims.get(name).filter(|value| !value.is_null())
}

/// Rejects tokens of other purposes, which the same issuer signs with the same keys.
fn check_purpose(claims: &Map<String, Value>) -> Result<(), Fault> {
    let is_one_of = |name: &str, values: &[&str]| {
        let text = present(claims, name).map(|value| value.as_str().unwrap_or_default().to_ascii_lowercase());
        text.map(|text| values.contains(&text.as_str()))
    };
    if FOREIGN.iter().any(|name| present(claims, name).is_some())
        || is_one_of("typ", &FOREIGN_TYPES) == Some(true)
        || is_one_of("token_use", &USES) == Some(false)
    {
        return Err(Fault::Invalid("the token is not an access token"));
    }
    Ok(())
}

fn text<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<Option<&'c str>, Fault> {
    match present(claims, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::Invalid("a claim that must be a text is not a text")),
    }
}

/// Returns a time in seconds since 1970, which may have a fraction.
pub(crate) fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, Fault> {
    let Some(value) = present(claims, name) else { return Ok(None) };
    let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(seconds));
    time.map(Some).ok_or(Fault::Invalid("a time is not a number of seconds since 1970"))
}

/// Returns the key to which the token is bound. A form of binding that this library does not know is an error, because the
/// token would otherwise be accepted without it.
fn confirmation(claims: &Map<String, Value>) -> Result<Option<Confirmation>, Fault> {
    let Some(value) = claims.get("cnf") else { return Ok(None) };
    let confirmation: Confirmation =
        serde_json::from_value(value.clone()).map_err(|_| Fault::Invalid("the claim `cnf` is invalid"))?;
    if confirmation.jkt.is_none() && confirmation.x5t_s256.is_none() {
        return Err(Fault::Invalid("the token is bound to a key in an unknown form"));
    }
    Ok(Some(confirmation))
}

fn actor(value: Option<&Value>, depth: usize) -> Result<Option<Principal>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let invalid = Fault::Invalid("the claim `act` is invalid");
    let claims = value.as_object().filter(|_| depth > 0).ok_or(invalid)?;
    let subject = text(claims, "sub")?.ok_or(Fault::Invalid("the claim `act` is invalid"))?;
    let mut principal = Principal::new(subject);
    principal.issuer = text(claims, "iss")?.map(str::to_owned);
    principal.client_id = text(claims, "client_id")?.map(str::to_owned);
    principal.actor = actor(present(claims, "act"), depth - 1)?.map(Box::new);
    Ok(Some(principal))
}
