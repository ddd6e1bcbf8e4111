//! The stored logins of the user, and the servers that they are for.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mcp_agent::config::{Endpoint, ServerDefinition};
use mcp_client::oauth::{Error, ErrorKind, FileStore, OAuthBuilder, StoreLock, TokenStore};
use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use serde_json::Value;
use url::{Position, Url};

use super::{client::RegisteredClient, store::Tokens, waiting};
use crate::{
    args::Options,
    failure::Failure,
    servers, state,
    target::{VARIABLE, has_credentials, is_url, with_scheme},
    text::line,
};

/// The record with the URLs of the servers.
const INDEX: &str = "servers";
/// The longest wait for another process that writes the index.
const INDEX_LOCK: Duration = Duration::from_secs(10);
/// The largest number of servers in the index. Beyond it, the oldest are removed from the index.
const MAX_SERVERS: usize = 1_000;

/// The stored logins.
#[derive(Clone)]
pub(super) struct Logins {
    /// The records that are not secret: the index of the servers, the clients of logins, and the pages of logins.
    pub(super) index: FileStore,
    pub(super) store: Tokens,
}

impl Logins {
    /// Opens the logins, and creates their directory.
    pub(super) fn open() -> Result<Self, Failure> {
        let directory = state::path("logins");
        let missing = || Failure::local("there is no directory for the tokens: set HOME or XDG_STATE_HOME");
        let index = FileStore::open(directory.ok_or_else(missing)?)?;
        Ok(Self { store: Tokens::over(index.clone())?, index })
    }

    /// Opens the logins. Returns `None` if the user has never logged in.
    pub(super) fn existing() -> Result<Option<Self>, Failure> {
        if state::path("logins").is_some_and(|directory| directory.is_dir()) {
            return Self::open().map(Some);
        }
        Ok(None)
    }

    /// Returns the servers of all logins.
    pub(super) async fn servers(&self) -> Result<Vec<Url>, Error> {
        let Some(record) = self.index.load(INDEX).await? else { return Ok(Vec::new()) };
        serde_json::from_str(record.expose())
            .map(|texts: Vec<String>| texts.iter().filter_map(|text| Url::parse(text).ok()).collect())
            .map_err(|error| Error::new(ErrorKind::Store, format!("the list of the logins is invalid: {error}")))
    }

    /// Adds a server to the index.
    pub(super) async fn remember(&self, server: &Url) -> Result<(), Error> {
        self.edit(|servers| {
            if !servers.contains(server) {
                servers.push(server.clone());
            }
            let surplus = servers.len().saturating_sub(MAX_SERVERS);
            servers.drain(..surplus);
        })
        .await
    }

    /// Returns the client of an earlier login, without its secret.
    pub(super) async fn client_without_secret(&self, server: &Url) -> Result<RegisteredClient, Error> {
        let Some(record) = self.index.load(&client_key(server)).await? else { return Ok(RegisteredClient::default()) };
        serde_json::from_str(record.expose()).map_err(|error| {
            Error::new(ErrorKind::Store, format!("the stored client of the login is invalid: {error}"))
        })
    }

    /// Returns the client of an earlier login.
    pub(super) async fn client(&self, server: &Url) -> Result<RegisteredClient, Error> {
        let mut client = self.client_without_secret(server).await?;
        if client.has_secret {
            client.secret = self.store.load(&secret_key(server)).await?;
        }
        Ok(client)
    }

    /// Stores the client of a login. Later commands renew its tokens with it.
    pub(super) async fn keep_client(&self, server: &Url, client: &RegisteredClient) -> Result<(), Error> {
        match &client.secret {
            Some(secret) => self.store.save(&secret_key(server), secret).await?,
            None => self.store.remove(&secret_key(server)).await?,
        }
        let record = serde_json::json!(client).to_string();
        self.index.save(&client_key(server), &Secret::new(record)).await
    }

    /// Removes a server from the index, with its client.
    pub(super) async fn forget(&self, server: &Url) -> Result<(), Error> {
        self.store.remove(&secret_key(server)).await?;
        self.index.remove(&client_key(server)).await?;
        self.edit(|servers| servers.retain(|known| known != server)).await
    }

    async fn edit(&self, edit: impl FnOnce(&mut Vec<Url>)) -> Result<(), Error> {
        let _lock = self.index.lock(INDEX, INDEX_LOCK).await?;
        let mut servers = self.servers().await?;
        edit(&mut servers);
        let texts: Vec<&str> = servers.iter().map(Url::as_str).collect();
        self.index.save(INDEX, &Secret::new(serde_json::json!(texts).to_string())).await
    }

    /// Returns the store for a new login at a server, with this client if it is given.
    pub(super) async fn without_login(&self, server: &Url, client_id: Option<String>) -> Result<NewLogin, Error> {
        let key = format!("{}{server}", waiting::TOKENS);
        // The record may be sealed. Its bytes show whether another process replaced it.
        let former = self.index.load(&key).await?;
        let is_stored = AtomicBool::new(false);
        let (store, files) = (self.store.clone(), self.index.clone());
        Ok(NewLogin { store, files, key, client_id, former, start: waiting::unix_time(), is_stored })
    }

    /// Returns the server of a command line.
    pub(super) async fn server(&self, word: Option<&str>, options: &Options) -> Result<Option<Chosen>, Failure> {
        server(word, &self.servers().await?, options)
    }

    /// Returns the server of a logout. The logout removes the tokens of the user, so an entry needs no approval.
    pub(super) async fn server_of_logout(
        &self,
        word: Option<&str>,
        options: &Options,
    ) -> Result<Option<Chosen>, Failure> {
        server_with(word, &self.servers().await?, options, |name| servers::declared(name, options))
    }
}

/// Returns the key of the client of a login.
fn client_key(server: &Url) -> String {
    format!("login-client/{server}")
}

/// Returns the key of the secret of such a client.
fn secret_key(server: &Url) -> String {
    format!("login-secret/{server}")
}

/// Returns the URL under which the store has the login at a server.
pub(super) fn server_url(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// Returns whether an entry names a client. The client of an earlier login then has no effect.
pub(super) fn has_own_client(definition: Option<&ServerDefinition>) -> bool {
    let Some(Endpoint::Http(http)) = definition.map(|definition| &definition.endpoint) else { return false };
    http.oauth_client_id.is_some()
}

/// The server of a command line.
pub(super) struct Chosen {
    pub(super) url: Url,
    /// The entry of the configuration file, if the command line names one.
    pub(super) definition: Option<ServerDefinition>,
}

impl Chosen {
    /// Adds the settings of the entry to those of an authorizer.
    pub(super) fn configure(&self, builder: OAuthBuilder) -> Result<OAuthBuilder, Failure> {
        super::configured(builder, self.definition.as_ref())
    }

    /// Returns whether the entry names a client.
    pub(super) fn has_own_client(&self) -> bool {
        has_own_client(self.definition.as_ref())
    }

    /// Returns the client of an earlier login, unless the entry names one.
    pub(super) async fn client(&self, logins: &Logins) -> Result<RegisteredClient, Error> {
        if self.has_own_client() { Ok(RegisteredClient::default()) } else { logins.client(&self.url).await }
    }

    /// Returns a client with the options of a command line.
    ///
    /// # Errors
    /// If both the entry and the command line name a client.
    pub(super) fn with_options(
        &self,
        client: RegisteredClient,
        given: RegisteredClient,
    ) -> Result<RegisteredClient, Failure> {
        if given.id.is_some() && self.has_own_client() {
            return Err(Failure::usage(
                "the entry of the server names a client; change the entry, or omit --client-id",
            ));
        }
        Ok(client.with(given))
    }
}

/// Returns the server of a command line: a URL, the host of a stored login, an address without a scheme, or a server of the
/// configuration file. Without a word this is the server of `--server`, and then the URL in the variable.
pub(super) fn server(word: Option<&str>, known: &[Url], options: &Options) -> Result<Option<Chosen>, Failure> {
    server_with(word, known, options, |name| servers::definition(name, options))
}

/// Returns the server of a command line. `configured` returns the entry with a name.
fn server_with(
    word: Option<&str>,
    known: &[Url],
    options: &Options,
    configured: impl FnOnce(&str) -> Result<Option<ServerDefinition>, Failure>,
) -> Result<Option<Chosen>, Failure> {
    if let (None, Some(name)) = (word, &options.config_server) {
        return configured(name)?.map(of_definition).transpose();
    }
    let variable = std::env::var(VARIABLE).ok().filter(|text| is_url(text));
    word.or(variable.as_deref()).map(|word| named(word, known, configured)).transpose()
}

/// Returns the server of an entry.
fn of_definition(definition: ServerDefinition) -> Result<Chosen, Failure> {
    let name = line(&definition.name);
    let Endpoint::Http(http) = &definition.endpoint else {
        return Err(Failure::usage(format!("the server `{name}` is a command, which has no login")));
    };
    if http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        let text = format!("the entry of the server `{name}` has a header Authorization, which replaces a login");
        return Err(Failure::usage(text));
    }
    let url = parse(&http.url)?;
    Ok(Chosen { url, definition: Some(definition) })
}

/// Returns the server that a word names.
fn named(
    word: &str,
    known: &[Url],
    configured: impl FnOnce(&str) -> Result<Option<ServerDefinition>, Failure>,
) -> Result<Chosen, Failure> {
    let of_url = |url| Chosen { url, definition: None };
    let has_name = |url: &&Url| {
        [&url[Position::BeforeHost..Position::AfterHost], &url[Position::BeforeHost..Position::AfterPort]]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(word))
    };
    let text = match &known.iter().filter(has_name).collect::<Vec<_>>()[..] {
        [] if is_url(word) => word.to_owned(),
        [] => match (with_scheme(word), configured) {
            (Some(url), _) => url,
            (None, configured) => match configured(word)? {
                Some(definition) => return of_definition(definition),
                None => bare_host(word).ok_or_else(|| unknown(word))?,
            },
        },
        [url] => return Ok(of_url((*url).clone())),
        urls => {
            let urls: Vec<&str> = urls.iter().map(|url| url.as_str()).collect();
            return Err(Failure::usage(format!("`{word}` is the host of several logins: {}", urls.join(", "))));
        }
    };
    parse(&text).map(of_url)
}

/// Returns the URL of a host name without a path and a port. Such a name has a dot.
fn bare_host(word: &str) -> Option<String> {
    if !word.contains('.') || word.contains('/') {
        return None;
    }
    // With a path, the rules for addresses apply.
    with_scheme(&format!("{word}/"))
}

fn unknown(word: &str) -> Failure {
    Failure::usage(format!(
        "`{word}` is neither an http or https URL nor the host of a stored login nor a server of a configuration file"
    ))
}

/// Returns the URL of a login.
fn parse(text: &str) -> Result<Url, Failure> {
    let mut url =
        Url::parse(text).map_err(|error| Failure::usage(format!("the URL of the server is invalid: {error}")))?;
    if has_credentials(url.as_str()) {
        return Err(Failure::usage(
            "a URL with a user has credentials of its own; log in with the URL without the user",
        ));
    }
    url.set_fragment(None);
    Ok(url)
}

/// A store that hides the tokens of one server until a new login replaces them. That login is the one of this process, or one
/// that another process completes later. A failed login keeps the old tokens.
pub(super) struct NewLogin {
    store: Tokens,
    files: FileStore,
    key: String,
    /// The client of the login, if the user chose it.
    client_id: Option<String>,
    /// The record at the start.
    former: Option<Secret>,
    /// The time of the start, in seconds since 1970.
    start: u64,
    is_stored: AtomicBool,
}

impl NewLogin {
    /// Returns whether another process has logged in since the start. A renewal of the old tokens is not a login.
    async fn has_other_login(&self) -> bool {
        if self.files.load(&self.key).await.is_ok_and(|record| record == self.former) {
            return false;
        }
        let Ok(Some(record)) = self.store.load(&self.key).await else { return false };
        let record: Value = serde_json::from_str(record.expose()).unwrap_or_default();
        let is_of_client = self.client_id.as_deref().is_none_or(|id| record["client_id"] == *id);
        is_of_client && record["logged_in_at"].as_u64().is_some_and(|time| time >= self.start)
    }
}

impl TokenStore for NewLogin {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        if key == self.key && !self.is_stored.load(Ordering::Acquire) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.store.load(key)
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.store.save(key, record).await?;
            if key == self.key {
                self.is_stored.store(true, Ordering::Release);
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.store.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        Box::pin(async move {
            let lock = self.store.lock(key, limit).await?;
            if key == self.key && !self.is_stored.load(Ordering::Acquire) && self.has_other_login().await {
                self.is_stored.store(true, Ordering::Release);
            }
            Ok(lock)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_urls_hosts_and_addresses() {
        let known = ["https://a.example/mcp", "https://b.example/1", "https://b.example/2", "http://127.0.0.1:81/mcp"];
        let known: Vec<Url> = known.iter().map(|url| Url::parse(url).unwrap()).collect();
        for (word, expected) in [
            ("https://c.example/mcp#f", Ok("https://c.example/mcp")),
            ("a.example", Ok("https://a.example/mcp")),
            ("A.example", Ok("https://a.example/mcp")),
            ("127.0.0.1:81", Ok("http://127.0.0.1:81/mcp")),
            ("127.0.0.1", Ok("http://127.0.0.1:81/mcp")),
            ("c.example/mcp", Ok("https://c.example/mcp")),
            ("b.example", Err("several logins: https://b.example/1, https://b.example/2")),
            ("c.example", Ok("https://c.example/")),
            ("c", Err("neither an http or https URL nor the host of a stored login")),
            ("http://[x/", Err("the URL of the server is invalid")),
            ("https://ann:hunter2@a.example/mcp", Err("a URL with a user has credentials of its own")),
            ("ann@c.example/mcp", Err("neither an http or https URL nor the host of a stored login")),
        ] {
            let found = named(word, &known, |_| Ok(None)).map_err(|failure| failure.to_string());
            let found = found.map(|chosen| chosen.url);
            match expected {
                Ok(url) => assert_eq!(found.as_ref().map(Url::as_str), Ok(url), "{word}"),
                Err(part) => assert!(found.is_err_and(|text| text.contains(part)), "{word}"),
            }
        }
    }
}
