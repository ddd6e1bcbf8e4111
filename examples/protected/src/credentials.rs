//! The authenticators of the program, and the credentials that it prints.

use std::{
    error::Error,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use mcp_server::{
    auth::{ApiKeys, Basic, BearerTokens, ConfigError, Introspection, Jwt, hash_password},
    http::HttpConfig,
    protocol::Principal,
};
use mcp_test::authorization_server::{AuthorizationServer, RegisteredClient, RunningAuthorizationServer};
use ring::hmac;
use serde_json::{Value, json};

use crate::cli::{Options, Provider};

/// The issuer of the tokens that the program signs.
const ISSUER: &str = "https://protected.example";
/// The client as which the endpoint introspects tokens.
const INTROSPECTION_CLIENT: &str = "protected";
/// The life of all tokens.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// The callers: one without scopes, another one, and one with all scopes.
const CALLERS: [(&str, &[&str]); 3] = [("ann", &[]), ("bob", &[]), ("root", &["admin", "reports"])];

/// The authenticator of the options, and the credentials that it accepts.
pub(crate) struct Authentication {
    pub(crate) config: HttpConfig,
    pub(crate) credentials: Credentials,
    /// The drop of this value stops the built-in authorization server.
    pub(crate) authorization_server: Option<RunningAuthorizationServer>,
}

impl Authentication {
    fn new(config: HttpConfig, credentials: Credentials) -> Self {
        Self { config, credentials, authorization_server: None }
    }
}

/// The credentials of the three callers, as values of a header.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) header: &'static str,
    pub(crate) values: Option<[String; 3]>,
    issuer: Option<String>,
    secret: Option<String>,
}

impl Credentials {
    fn new(header: &'static str, values: [String; 3]) -> Self {
        Self { header, values: Some(values), issuer: None, secret: None }
    }

    /// Returns the line that the program prints.
    pub(crate) fn to_json(&self, url: &str) -> Value {
        let value = |place: usize| self.values.as_ref().map(|values| values[place].clone());
        let mut line = json!({
            "url": url, "issuer": self.issuer, "header": self.header, "value": value(0),
            "others": {"second": value(1), "admin": value(2)},
        });
        if let Some(secret) = &self.secret {
            line["secret"] = json!(secret);
        }
        line
    }
}

fn principals() -> [Principal; 3] {
    CALLERS.map(|(subject, scopes)| {
        Principal::new(subject).with_client_id("protected").with_scopes(scopes.iter().copied())
    })
}

/// Returns three random texts.
fn secrets() -> Result<[String; 3], String> {
    Ok([random()?, random()?, random()?].map(|bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

fn random() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no random numbers: {error}"))?;
    Ok(bytes)
}

/// Adds the authenticator of the options to the configuration.
pub(crate) async fn authenticate(
    config: HttpConfig,
    options: &Options,
    url: &str,
) -> Result<Authentication, Box<dyn Error>> {
    let [ann, bob, root] = secrets()?;
    let principals = principals();
    let (config, credentials) = match &options.provider {
        Provider::OAuth | Provider::Introspection => return built_in(config, options, url).await,
        Provider::Static => {
            let [a, b, r] = principals;
            let tokens = BearerTokens::new().token(&ann, a)?.token(&bob, b)?.token(&root, r)?;
            let values = [ann, bob, root].map(|token| format!("Bearer {token}"));
            (config.authenticate(tokens), Credentials::new("Authorization", values))
        }
        Provider::ApiKey => {
            let [a, b, r] = principals;
            let keys = ApiKeys::new().key(&ann, a)?.key(&bob, b)?.key(&root, r)?;
            (config.authenticate(keys), Credentials::new("x-api-key", [ann, bob, root]))
        }
        Provider::Basic => {
            let passwords = [&ann, &bob, &root];
            let add = |basic: Basic, (principal, password): (Principal, &&String)| -> Result<Basic, ConfigError> {
                let name = principal.subject.clone();
                basic.user(&name, &hash_password(password)?, principal)
            };
            let basic = principals.into_iter().zip(&passwords).try_fold(Basic::new("protected"), add)?;
            let names = CALLERS.map(|(name, _)| name);
            let values = [0, 1, 2].map(|place| {
                let user = format!("{}:{}", names[place], passwords[place]);
                format!("Basic {}", BASE64_STANDARD.encode(user))
            });
            (config.authenticate(basic), Credentials::new("Authorization", values))
        }
        Provider::JwtHs256 => {
            let secret = random()?;
            let values = CALLERS.map(|(subject, scopes)| format!("Bearer {}", token(&secret, subject, scopes, url)));
            let credentials = Credentials::new("Authorization", values);
            let credentials = Credentials { secret: Some(BASE64_URL_SAFE_NO_PAD.encode(secret)), ..credentials };
            (config.authenticate(Jwt::hs256(ISSUER, &secret)), credentials)
        }
        Provider::Issuer(issuer) => {
            let issuer_text = Some(issuer.clone());
            let credentials = Credentials { header: "Authorization", values: None, issuer: issuer_text, secret: None };
            (config.authenticate(Jwt::issuer(issuer)?), credentials)
        }
    };
    Ok(Authentication::new(config, credentials))
}

/// Starts the built-in authorization server, which issues tokens for the endpoint. Its user is the first caller.
async fn built_in(config: HttpConfig, options: &Options, url: &str) -> Result<Authentication, Box<dyn Error>> {
    let [(user, _), .., (_, scopes)] = CALLERS;
    let mut builder = AuthorizationServer::builder()
        .subject(user)
        .scopes(scopes.iter().copied())
        .resources([url])
        .access_token_lifetime(LIFE);
    if options.auto_approve {
        builder = builder.auto_approve();
    }
    let secret = BASE64_URL_SAFE_NO_PAD.encode(random()?);
    let is_opaque = options.provider == Provider::Introspection;
    if is_opaque {
        builder = builder.opaque_tokens().client(RegisteredClient::with_secret(INTROSPECTION_CLIENT, secret.as_str()));
    }
    let server = builder.start().await?;
    let issuer = server.issuer().to_owned();
    let mut values = Vec::new();
    for (subject, scopes) in CALLERS {
        let token = server.issue_token(subject, scopes.iter().copied(), url).await?;
        values.push(format!("Bearer {token}"));
    }
    let config = if is_opaque {
        config.authenticate(Introspection::issuer(&issuer, INTROSPECTION_CLIENT, secret)?)
    } else {
        config.authenticate(Jwt::issuer(&issuer)?)
    };
    let values = values.try_into().ok();
    let credentials = Credentials { header: "Authorization", values, issuer: Some(issuer), secret: None };
    Ok(Authentication { config, credentials, authorization_server: Some(server) })
}

/// Signs a token for the endpoint.
fn token(secret: &[u8], subject: &str, scopes: &[&str], url: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims = json!({
        "iss": ISSUER, "sub": subject, "aud": url, "client_id": "protected", "scope": scopes.join(" "),
        "iat": now, "exp": now + LIFE.as_secs(),
    });
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(json!({"alg": "HS256", "typ": "at+jwt"})), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}
