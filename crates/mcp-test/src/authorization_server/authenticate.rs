//! The authentication of clients at the token endpoint (RFC 6749 §2.3).

use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, header};
use mcp_auth::jose;
use mcp_protocol::auth::client_assertion_type;
use url::form_urlencoded;

use super::{Inner, assertion::text, fault::Fault, message::Parameters, state::ClientRecord};

/// Credentials of a client, in the form in which the request has them.
enum Credentials<'p> {
    None { id: &'p str },
    Basic { id: String, secret: String },
    Post { id: &'p str, secret: &'p str },
    Assertion { id: String, assertion: &'p str },
}

impl Inner {
    /// Returns the client that made a request.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        parameters: &Parameters,
        now: SystemTime,
    ) -> Result<ClientRecord, Fault> {
        let unknown = || Fault::invalid_client("the client is unknown or did not authenticate");
        let credentials = credentials(headers, parameters)?;
        let id = match &credentials {
            Credentials::None { id } | Credentials::Post { id, .. } => *id,
            Credentials::Basic { id, .. } | Credentials::Assertion { id, .. } => id.as_str(),
        };
        let client = self.client(id, now).await?.ok_or_else(unknown)?;
        let is_authentic = match &credentials {
            Credentials::None { .. } => client.is_public() && client.may_authenticate_with("none"),
            Credentials::Assertion { assertion, .. } => {
                self.check_client_assertion(&client, assertion, now).await?.map_err(Fault::invalid_client)?;
                client.may_authenticate_with("private_key_jwt")
            }
            Credentials::Basic { secret, .. } => {
                client.may_authenticate_with("client_secret_basic") && client.has_secret(secret)
            }
            Credentials::Post { secret, .. } => {
                client.may_authenticate_with("client_secret_post") && client.has_secret(secret)
            }
        };
        if is_authentic { Ok(client) } else { Err(unknown()) }
    }
}

/// Reads the credentials of a request, which must have one form only.
fn credentials<'p>(headers: &HeaderMap, parameters: &'p Parameters) -> Result<Credentials<'p>, Fault> {
    let client_id = parameters.get("client_id");
    let secret = parameters.get("client_secret");
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (id, basic) = value
            .to_str()
            .ok()
            .and_then(read_basic)
            .ok_or_else(|| Fault::invalid_client("the header `Authorization` is not valid Basic authentication"))?;
        if secret.is_some() || client_id.is_some_and(|other| other != id) {
            return Err(Fault::invalid_request("the request has credentials of two clients or in two forms"));
        }
        return Ok(Credentials::Basic { id, secret: basic });
    }
    if let Some(assertion) = parameters.get("client_assertion") {
        if parameters.get("client_assertion_type") != Some(client_assertion_type::JWT_BEARER) || secret.is_some() {
            return Err(Fault::invalid_request(
                "the type of the assertion is unknown, or the request has a secret too",
            ));
        }
        let claims = jose::unverified_claims(assertion).unwrap_or_default();
        let id = text(&claims, "sub").unwrap_or_default();
        if id.is_empty() || client_id.is_some_and(|other| other != id) {
            return Err(Fault::invalid_client("the assertion names no client, or another client than the request"));
        }
        return Ok(Credentials::Assertion { id: id.to_owned(), assertion });
    }
    match (client_id, secret) {
        (Some(id), Some(secret)) => Ok(Credentials::Post { id, secret }),
        (Some(id), None) => Ok(Credentials::None { id }),
        (None, _) => Err(Fault::invalid_client("the request names no client")),
    }
}

/// Reads the id and the secret of Basic authentication. Both are form-encoded (RFC 6749 §2.3.1).
fn read_basic(value: &str) -> Option<(String, String)> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((decode(id), decode(secret)))
}

fn decode(text: &str) -> String {
    // A pair without `=` has its text as the name. A literal `&` or `=` is kept.
    let escaped = text.replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(text, _)| text.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_credentials_are_form_encoded() {
        for (text, expected) in [
            ("id:secret", Some(("id", "secret"))),
            ("a%3Ab:s%20+%26=&", Some(("a:b", "s  &=&"))),
            ("id:", Some(("id", ""))),
            ("id:a:b", Some(("id", "a:b"))),
            ("id", None),
        ] {
            let header = format!("Basic {}", BASE64_STANDARD.encode(text));
            let read = read_basic(&header);
            assert_eq!(read.as_ref().map(|(id, secret)| (id.as_str(), secret.as_str())), expected, "{text}");
        }
        for header in ["Basic", "Basic %", "Bearer YTpi"] {
            assert_eq!(read_basic(header), None, "{header}");
        }
    }
}
