//! The providers that the file describes.

use std::path::Path;

use mcp_fetch::Fetch;
use mcp_protocol::{Principal, auth::Secret};
use mcp_server::auth::{ApiKeys, Basic, BearerTokens, Chain, ConfigError, GitHub, Introspection, Jwt};

use super::{
    Fault,
    file::{self, AuthFile, IntrospectionTable, JwtTable},
    secret::SecretSource,
};

/// The realm of passwords, which programs show to the user.
const REALM: &str = "mcp gateway";

/// The shortest token or key of a caller, in bytes.
const SHORTEST: usize = 8;

/// Returns the names of the callers of a file. `None`: a provider gets them from another service.
pub(super) fn identities(file: &AuthFile) -> Option<Vec<&str>> {
    if !(file.jwt.is_empty() && file.introspection.is_empty() && file.github.is_empty()) {
        return None;
    }
    let keys = file.api_key.iter().map(|table| &*table.principal);
    let users = file.basic.iter().map(|table| table.principal.as_deref().unwrap_or(&table.user));
    Some(keys.chain(users).chain(file.fixed.iter().map(|table| &*table.principal)).collect())
}

/// Returns the providers of the file as one authenticator.
///
/// `keeps_tokens`: the tokens of clients are kept for token exchanges.
pub(super) fn chain(file: &AuthFile, directory: &Path, keeps_tokens: bool) -> Result<Chain, Fault> {
    let mut chain = Chain::new();
    let mut is_empty = true;
    if let Some(keys) = api_keys(file, directory)? {
        (chain, is_empty) = (chain.with(keys), false);
    }
    if !file.fixed.is_empty() {
        let mut tokens = BearerTokens::new();
        for (at, table) in file.fixed.iter().enumerate() {
            let place = format!("static[{at}].token");
            let token = credential(&table.token, directory, &place)?;
            let caller = principal(&table.principal, &table.scopes, &format!("static[{at}].principal"))?;
            tokens = at_place(&place, tokens.token(token.expose(), caller))?;
        }
        (chain, is_empty) = (chain.with(tokens), false);
    }
    if !file.basic.is_empty() {
        let mut basic = Basic::new(REALM);
        for (at, table) in file.basic.iter().enumerate() {
            let digest = table.digest.read(directory, &format!("basic[{at}].digest"))?;
            let name = table.principal.as_ref().unwrap_or(&table.user);
            let member = if table.principal.is_some() { "principal" } else { "user" };
            let caller = principal(name, &table.scopes, &format!("basic[{at}].{member}"))?;
            let added = basic.user(&table.user, digest.expose(), caller);
            basic = at_place(&format!("basic[{at}]"), added)?;
        }
        (chain, is_empty) = (chain.with(basic), false);
    }
    for (at, table) in file.jwt.iter().enumerate() {
        let provider = jwt(table, directory, &format!("jwt[{at}]"))?;
        (chain, is_empty) = (chain.with(if keeps_tokens { provider.keep_subject_token() } else { provider }), false);
    }
    for (at, table) in file.introspection.iter().enumerate() {
        let provider = introspection(table, directory, &format!("introspection[{at}]"))?;
        (chain, is_empty) = (chain.with(if keeps_tokens { provider.keep_subject_token() } else { provider }), false);
    }
    for (at, table) in file.github.iter().enumerate() {
        let place = format!("github[{at}]");
        let secret = table.client_secret.read(directory, &format!("{place}.client_secret"))?;
        (chain, is_empty) = (chain.with(at_place(&place, GitHub::new(&table.client_id, secret))?), false);
    }
    if is_empty {
        let kinds = "`[[jwt]]`, `[[introspection]]`, `[[github]]`, `[[api_key]]`, `[[basic]]` or `[[static]]`";
        return Err(Fault::new("", format!("the file has no provider: add {kinds}")));
    }
    Ok(chain)
}

fn api_keys(file: &AuthFile, directory: &Path) -> Result<Option<ApiKeys>, Fault> {
    if file.api_key.is_empty() {
        return match (&file.api_keys.header, &file.api_keys.pepper) {
            (None, None) => Ok(None),
            _ => Err(Fault::new("api_keys", "the file has settings for keys and no key: add `[[api_key]]`")),
        };
    }
    let mut keys = ApiKeys::new();
    if let Some(header) = &file.api_keys.header {
        keys = at_place("api_keys.header", keys.header(header))?;
    }
    if let Some(pepper) = &file.api_keys.pepper {
        let place = "api_keys.pepper";
        keys = at_place(place, keys.pepper(pepper.read(directory, place)?.expose().as_bytes()))?;
    }
    for (at, table) in file.api_key.iter().enumerate() {
        let caller = principal(&table.principal, &table.scopes, &format!("api_key[{at}].principal"))?;
        keys = match (&table.key, &table.hash) {
            (Some(key), None) => {
                let place = format!("api_key[{at}].key");
                at_place(&place, keys.key(credential(key, directory, &place)?.expose(), caller))?
            }
            (None, Some(hash)) => at_place(&format!("api_key[{at}].hash"), keys.hashed_key(hash, caller))?,
            _ => return Err(Fault::new(format!("api_key[{at}]"), "a key has either `key` or `hash`")),
        };
    }
    Ok(Some(keys))
}

fn jwt(table: &JwtTable, directory: &Path, place: &str) -> Result<Jwt, Fault> {
    let mut provider = match (&table.jwks, &table.secret) {
        (None, None) => at_place(place, Jwt::issuer(&table.issuer))?,
        (Some(url), None) => at_place(&format!("{place}.jwks"), Jwt::jwks(&table.issuer, url))?,
        (None, Some(secret)) => {
            let place = format!("{place}.secret");
            let secret = secret.read(directory, &place)?;
            at_place(&place, Jwt::hs256(&table.issuer, secret.expose().as_bytes()))?
        }
        (Some(_), Some(_)) => return Err(Fault::new(place, "an issuer has either `jwks` or `secret`")),
    };
    for audience in &table.audience {
        provider = provider.audience(audience);
    }
    if !table.algorithms.is_empty() {
        let names = table.algorithms.iter().map(String::as_str);
        provider = at_place(&format!("{place}.algorithms"), provider.algorithms(names))?;
    }
    if let Some(claim) = &table.scope_claim {
        provider = provider.scope_claim(claim);
    }
    let url = table.jwks.as_ref().unwrap_or(&table.issuer);
    let requests = Requests { allow_hosts: &table.allow_hosts, root_certificates: table.root_certificates.as_deref() };
    Ok(match requests.fetch(url, directory, place)? {
        Some(fetch) => provider.fetch(fetch),
        None => provider,
    })
}

fn introspection(table: &IntrospectionTable, directory: &Path, place: &str) -> Result<Introspection, Fault> {
    let secret = table.client_secret.read(directory, &format!("{place}.client_secret"))?;
    let id = table.client_id.clone();
    let provider = match &table.endpoint {
        Some(url) => Introspection::endpoint(&table.issuer, url, id, secret),
        None => Introspection::issuer(&table.issuer, id, secret),
    };
    let mut provider = at_place(place, provider)?;
    for audience in &table.audience {
        provider = provider.audience(audience);
    }
    if let Some(claim) = &table.scope_claim {
        provider = provider.scope_claim(claim);
    }
    let url = table.endpoint.as_ref().unwrap_or(&table.issuer);
    let requests = Requests { allow_hosts: &table.allow_hosts, root_certificates: table.root_certificates.as_deref() };
    Ok(match requests.fetch(url, directory, place)? {
        Some(fetch) => provider.fetch(fetch),
        None => provider,
    })
}

/// The settings of the requests to an issuer.
struct Requests<'t> {
    allow_hosts: &'t [String],
    root_certificates: Option<&'t Path>,
}

impl Requests<'_> {
    /// Returns `None` for the default settings of the provider.
    fn fetch(&self, url: &str, directory: &Path, place: &str) -> Result<Option<Fetch>, Fault> {
        if self.allow_hosts.is_empty() && self.root_certificates.is_none() {
            return Ok(None);
        }
        let mut builder = Fetch::builder().for_server(url);
        let own = url::Url::parse(url).ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
        for host in self.allow_hosts.iter().chain(&own) {
            let invalid = |error| Fault::new(format!("{place}.allow_hosts"), format!("`{host}`: {error}"));
            builder = builder.allow_host(host).map_err(invalid)?;
        }
        if let Some(path) = self.root_certificates {
            let place = format!("{place}.root_certificates");
            let path = directory.join(path);
            let failed = |error: String| Fault::new(&*place, format!("{}: {error}", path.display()));
            let pem = file::read_text(&path).map_err(failed)?;
            builder = builder.root_certificates(pem.as_bytes()).map_err(|error| failed(error.to_string()))?;
        }
        Ok(Some(builder.build()))
    }
}

fn principal(name: &str, scopes: &[String], place: &str) -> Result<Principal, Fault> {
    if name.trim().is_empty() {
        return Err(Fault::new(place, "the name of the principal is empty: write the name of the caller"));
    }
    Ok(Principal::new(name).with_scopes(scopes))
}

/// Reads a secret that alone authenticates a caller. A short one could be guessed.
fn credential(source: &SecretSource, directory: &Path, place: &str) -> Result<Secret, Fault> {
    let secret = source.read(directory, place)?;
    if secret.expose().len() < SHORTEST {
        let text = format!("the secret has less than {SHORTEST} bytes: use the output of `openssl rand -hex 32`");
        return Err(Fault::new(place, text));
    }
    Ok(secret)
}

fn at_place<T>(place: &str, result: Result<T, ConfigError>) -> Result<T, Fault> {
    result.map_err(|error| Fault::new(place, error.to_string()))
}
