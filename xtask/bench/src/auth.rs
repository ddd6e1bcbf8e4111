//! Credentials of the cases with authentication: the server issues them, and the generator sends them.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use mcp_server::{
    auth::{ApiKeys, Basic, Dpop, Introspection, Jwt, hash_password},
    http::HttpConfig,
    protocol::Principal,
};
use ring::{
    digest,
    rand::{SecureRandom as _, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::error::Error;

const RESOURCE: &str = "https://bench.example/mcp";
const ISSUER: &str = "https://as.example";
const LIFE: u64 = 24 * 60 * 60;

/// The provider of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    ApiKey,
    /// A token with a signature (ES256). The server remembers the result.
    Jwt,
    /// An opaque token. The server remembers the answer of the issuer.
    Introspection,
    /// A user name and a password. The server remembers the result.
    Basic,
    /// A token that is bound to a key. Each call has a proof of its own, with a signature (ES256).
    Dpop,
}

impl Auth {
    const ALL: [Self; 5] = [Self::ApiKey, Self::Jwt, Self::Introspection, Self::Basic, Self::Dpop];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiKey => "api-key",
            Self::Jwt => "jwt",
            Self::Introspection => "introspection",
            Self::Basic => "basic",
            Self::Dpop => "dpop",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|auth| auth.name() == name);
        found.ok_or_else(|| Error::new(format!("`{name}` is not a provider")))
    }
}

/// Returns the configuration of a server with this provider, and the credential that it accepts.
pub(crate) async fn configured(auth: Auth) -> Result<(HttpConfig, Issued), Error> {
    let config = HttpConfig::new().public_url(RESOURCE);
    let (random, mut secret) = (SystemRandom::new(), [0; 32]);
    random.fill(&mut secret).map_err(no_randomness)?;
    let secret = encode(secret);
    Ok(match auth {
        Auth::ApiKey => {
            let keys = ApiKeys::new().key(&secret, Principal::new("bench"));
            (config.authenticate(keys), Issued::header(format!("X-Api-Key: {secret}")))
        }
        Auth::Basic => {
            let digest = hash_password(&secret).map_err(|error| Error::new(error.to_string()))?;
            let users = Basic::new("bench").user("bench", &digest, Principal::new("bench"));
            let remembered = users.map(|users| users.remember_for(Duration::from_secs(3_600)));
            (config.authenticate(remembered), Issued::header(basic("bench", &secret)))
        }
        Auth::Introspection => {
            let url = issuer().await?;
            let remembered = Introspection::endpoint(ISSUER, &url, "bench", secret.as_str())
                .map(|auth| auth.remember_for(Duration::from_secs(3_600)));
            (config.authenticate(remembered), Issued::header(format!("Authorization: Bearer {secret}")))
        }
        Auth::Jwt | Auth::Dpop => {
            let pkcs8 =
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(no_randomness)?;
            let signer = Signer::new(pkcs8.as_ref())?;
            let keys = json!({ "keys": [signer.jwk] }).to_string();
            let jwt = Jwt::keys(ISSUER, &keys).map(|jwt| jwt.remember_for(Duration::from_secs(3_600)));
            let mut claims = json!({ "iss": ISSUER, "sub": "bench", "aud": RESOURCE, "exp": now() + LIFE });
            if auth == Auth::Jwt {
                let token = signer.sign(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims)?;
                (config.authenticate(jwt), Issued::header(format!("Authorization: Bearer {token}")))
            } else {
                claims["cnf"] = json!({ "jkt": signer.thumbprint });
                let token = signer.sign(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims)?;
                let header = format!("Authorization: DPoP {token}");
                let issued = Issued { header, token: Some(token), key: Some(encode(pkcs8.as_ref())) };
                (config.authenticate(jwt.map(Dpop::new)), issued)
            }
        }
    })
}

/// A credential as the server prints it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Issued {
    header: String,
    token: Option<String>,
    /// The key of the client (PKCS#8).
    key: Option<String>,
}

impl Issued {
    fn header(header: String) -> Self {
        Self { header, token: None, key: None }
    }

    pub(crate) fn to_line(&self) -> String {
        json!({ "header": self.header, "token": self.token, "key": self.key }).to_string()
    }

    pub(crate) fn from_line(line: &str) -> Result<Self, Error> {
        let line: Value = serde_json::from_str(line)?;
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let header = text("header").ok_or_else(|| Error::new("a server printed no credential"))?;
        Ok(Self { header, token: text("token"), key: text("key") })
    }
}

/// A credential for requests.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    header: String,
    prover: Option<Arc<Prover>>,
}

impl Credential {
    pub(crate) fn new(issued: &Issued) -> Result<Self, Error> {
        let prover = match (&issued.key, &issued.token) {
            (Some(key), Some(token)) => Some(Arc::new(Prover::new(key, token)?)),
            _ => None,
        };
        Ok(Self { header: issued.header.clone(), prover })
    }

    /// A user name and a password.
    pub(crate) fn basic(user: &str, password: &str) -> Self {
        Self { header: basic(user, password), prover: None }
    }

    /// Returns the lines of the headers.
    pub(crate) fn lines(&self) -> Result<String, Error> {
        Ok(match &self.prover {
            Some(prover) => format!("{}\r\nDPoP: {}\r\n", self.header, prover.proof()?),
            None => format!("{}\r\n", self.header),
        })
    }

    pub(crate) fn prover(&self) -> Option<&Arc<Prover>> {
        self.prover.as_ref()
    }
}

/// Makes proofs. All proofs have the same length.
pub(crate) struct Prover {
    signer: Signer,
    /// The digest of the token.
    ath: String,
}

impl Prover {
    fn new(key: &str, token: &str) -> Result<Self, Error> {
        let key = BASE64_URL_SAFE_NO_PAD.decode(key).map_err(|error| Error::new(error.to_string()))?;
        let ath = encode(digest::digest(&digest::SHA256, token.as_bytes()));
        Ok(Self { signer: Signer::new(&key)?, ath })
    }

    pub(crate) fn proof(&self) -> Result<String, Error> {
        let mut id = [0; 16];
        self.signer.random.fill(&mut id).map_err(no_randomness)?;
        let claims = json!({ "jti": encode(id), "htm": "POST", "htu": RESOURCE, "iat": now(), "ath": self.ath });
        self.signer.sign(&json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.signer.jwk }), &claims)
    }
}

impl fmt::Debug for Prover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prover")
    }
}

struct Signer {
    random: SystemRandom,
    key: EcdsaKeyPair,
    jwk: Value,
    thumbprint: String,
}

impl Signer {
    fn new(pkcs8: &[u8]) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|error| Error::new(error.to_string()))?;
        let point = key.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let thumbprint = encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
        Ok(Self { random, key, jwk: json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y }), thumbprint })
    }

    fn sign(&self, header: &Value, claims: &Value) -> Result<String, Error> {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.key.sign(&self.random, message.as_bytes()).map_err(no_randomness)?;
        Ok(format!("{message}.{}", encode(signature)))
    }
}

/// Starts an issuer on this machine that accepts each token.
async fn issuer() -> Result<String, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let body = json!({ "active": true, "iss": ISSUER, "sub": "bench", "aud": RESOURCE, "exp": now() + LIFE });
    let body = body.to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // The request is small, and the answer does not depend on it.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Ok(url)
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn no_randomness(_: ring::error::Unspecified) -> Error {
    Error::new("the system has no random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_credential_is_read_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for auth in Auth::ALL {
            let (_, issued) = runtime.block_on(configured(auth)).unwrap();
            let credential = Credential::new(&Issued::from_line(&issued.to_line()).unwrap()).unwrap();
            assert_eq!(credential.prover().is_some(), auth == Auth::Dpop);
            let (first, second) = (credential.lines().unwrap(), credential.lines().unwrap());
            assert_eq!((first.len(), first == second), (second.len(), auth != Auth::Dpop), "{auth:?}");
            assert_eq!(Auth::parse(auth.name()).unwrap(), auth);
        }
    }
}
