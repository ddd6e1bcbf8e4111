//! `mcp login`, `mcp logout`, `mcp whoami` and `mcp auth explain`, and the tokens of a login for all commands.

mod authorizer;
mod client;
mod explain;
mod logins;
mod page;
mod store;
mod waiting;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mcp_agent::{config::ServerDefinition, oauth_settings};
use mcp_client::{
    Client,
    http::{Authorizer, mcp_fetch::Fetch},
    oauth::{Error, ErrorKind, OAuth, OAuthBuilder, Revocation, StoredLogin},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::{Host, Url};

use self::{
    authorizer::StoredTokens,
    client::RegisteredClient,
    logins::{Chosen, Logins},
    page::{Page, Way},
};
use crate::{
    args::{Account, Auth, Options},
    connection,
    failure::{self, Failure},
    output::{Output, styled},
    question,
    screen::warn,
    style::{self, Style},
    target::VARIABLE,
    text::line,
};

/// The name of the client on the pages of logins.
const CLIENT_NAME: &str = "mcp, on the command line";

/// Returns the authorizer of a command over HTTP. `None` if the user passes a token or has no login. `definition` is the entry of
/// the server in a configuration file, if it has one.
///
/// Only a command with a terminal may show the page of a login, if `can_ask` permits it.
///
/// # Errors
/// If the OAuth settings of the definition are incomplete, or the stored client of the login cannot be read.
pub(crate) async fn authorizer(
    options: &Options,
    url: &str,
    definition: Option<&ServerDefinition>,
    can_ask: bool,
) -> Result<Option<Arc<dyn Authorizer>>, Failure> {
    if passes_token(options) {
        return Ok(None);
    }
    let can_ask = can_ask && question::is_possible();
    let stored = Logins::existing().unwrap_or_else(|failure| {
        warn(&format!("the stored logins are not used: {failure}"));
        None
    });
    // Without a writable directory, the command runs without tokens, and `mcp login` reports the fault.
    let Some(logins) = stored.or_else(|| if can_ask { Logins::open().ok() } else { None }) else {
        // The settings of the definition are checked without a login too.
        let _ = configured(OAuth::builder(), definition)?;
        return Ok(None);
    };
    let way = if can_ask { Way::Browser } else { Way::Refused };
    let mut builder = configured(builder(&logins, way), definition)?;
    if let Some(server) = logins::server_url(url).filter(|_| !logins::has_own_client(definition)) {
        builder = logins.client(&server).await?.apply(builder);
    }
    let auth = kept(builder.store(logins.store).build());
    Ok(Some(Arc::new(StoredTokens { auth, can_ask })))
}

/// Adds the settings of the entry in a configuration file to those of an authorizer.
fn configured(builder: OAuthBuilder, definition: Option<&ServerDefinition>) -> Result<OAuthBuilder, Failure> {
    let Some(definition) = definition else { return Ok(builder) };
    oauth_settings(definition, builder).map_err(|error| Failure::usage(error.to_string()))
}

/// The authorizers whose renewals the program finishes before its end.
static KEPT: Mutex<Vec<OAuth>> = Mutex::new(Vec::new());

/// Keeps an authorizer for [`finish_renewals`].
fn kept(auth: OAuth) -> OAuth {
    KEPT.lock().push(auth.clone());
    auth
}

/// Waits within the limit until no renewal of tokens runs. Otherwise a refresh token could be lost that the authorization server
/// has replaced already.
pub(crate) async fn finish_renewals(limit: Duration) {
    let kept = KEPT.lock().clone();
    let finished = async {
        for auth in kept {
            auth.finish_renewals(limit).await;
        }
    };
    if tokio::time::timeout(limit, finished).await.is_err() {
        warn("a renewal of tokens did not end in time: the next command may require a login");
    }
}

/// Returns whether a login at the server is stored. Nothing is created and no request is sent.
pub(crate) async fn is_stored(server: &Url) -> bool {
    of(server).await.is_some()
}

/// Returns the stored login at the server. Nothing is created and no request is sent.
pub(crate) async fn of(server: &Url) -> Option<StoredLogin> {
    let logins = Logins::existing().ok()??;
    let auth = builder(&logins, Way::Refused).store(logins.store).build();
    auth.stored_login(server).await.ok()?
}

/// Runs a command about logins.
pub(crate) async fn run(account: &Account, options: &Options, opened: &OnceLock<Client>) -> Result<(), Failure> {
    let out = Output::new(options.json);
    match account {
        Account::Login { server, no_browser, device, scope, client } => {
            let way = match (no_browser, device) {
                (_, true) => Way::Device,
                (true, false) => Way::Url,
                (false, false) => Way::Browser,
            };
            let client = RegisteredClient::of(client)?;
            log_in(server.as_deref(), way, &words(scope), client, options, opened).await
        }
        Account::Logout { server } => log_out(server.as_deref(), options, out).await,
        Account::Auth(Auth::Explain { server, scope, client }) => {
            explain(server.as_deref(), &words(scope), RegisteredClient::of(client)?, options, out).await
        }
        Account::Whoami { server } => {
            let logins = Logins::open()?;
            let server = logins.server(server.as_deref(), options).await?;
            match server {
                Some(server) => show_one(&server, &logins, options, opened).await,
                None if passes_token(options) => Err(no_server()),
                None => show_all(&logins, out).await,
            }
        }
    }
}

/// Returns the scopes of options, each of which may have several.
fn words(scopes: &[String]) -> Vec<String> {
    scopes.iter().flat_map(|scope| scope.split_whitespace()).map(ToOwned::to_owned).collect()
}

async fn log_in(
    server: Option<&str>,
    way: Way,
    scopes: &[String],
    given: RegisteredClient,
    options: &Options,
    opened: &OnceLock<Client>,
) -> Result<(), Failure> {
    if passes_token(options) {
        return Err(Failure::usage("a login replaces --header Authorization; omit the header"));
    }
    let logins = Logins::open()?;
    let chosen = logins.server(server, options).await?.ok_or_else(no_server)?;
    let server = chosen.url.clone();
    let stored = if given.id.is_some() { None } else { Some(chosen.client(&logins).await?) };
    let registered = chosen.with_options(stored.unwrap_or_default(), given)?;
    logins.store.prepare_login().await?;
    let builder = registered.apply(chosen.configure(builder(&logins, way))?);
    let scopes = with_scopes_of_login(scopes, &logins, &server).await;
    let auth = kept(builder.store(logins.without_login(&server, registered.id.clone()).await?).scopes(scopes).build());
    let client = connect(&chosen, options, Some(&auth)).await?.map_err(failed)?;
    opened.get_or_init(|| client);
    if auth.stored_login(&server).await?.is_none() {
        // The server also serves callers without tokens.
        auth.log_in(&server).await.map_err(|error| unneeded(&server, error))?;
    }
    let login = auth.stored_login(&server).await?.ok_or_else(|| Failure::local("the tokens cannot be stored"))?;
    if registered.id.is_some() {
        logins.keep_client(&server, &registered).await?;
    }
    print(&server, &login, Output::new(options.json))
}

/// Adds the scopes of the stored login to those of the command line. Without the option `--scope`, a login has the scopes that
/// the server requires.
async fn with_scopes_of_login(scopes: &[String], logins: &Logins, server: &Url) -> Vec<String> {
    let mut scopes = scopes.to_vec();
    if scopes.is_empty() {
        return scopes;
    }
    // A login replaces tokens that cannot be read.
    let login = stored(logins).stored_login(server).await.ok().flatten();
    for scope in login.map(|login| login.scopes).unwrap_or_default() {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// Returns the failure of a login at a server that answered without one.
fn unneeded(server: &Url, error: Error) -> Failure {
    if error.kind() == ErrorKind::NoLogin {
        return Failure::unusable(format!(
            "{server} answers without a login, and names no authorization server: there is nothing to log in to; \
             `mcp auth explain {server}` shows the details"
        ));
    }
    failed(error)
}

/// Returns the failure of a login, with another way to log in if the authorization server does not support the chosen one.
fn failed<E: std::error::Error + 'static>(error: E) -> Failure
where
    Failure: From<E>,
{
    let is_unsupported = failure::login_error(&error).is_some_and(|error| error.kind() == ErrorKind::Unsupported);
    Failure::from(error).with_hint(if is_unsupported { "; use --no-browser instead of --device" } else { "" })
}

async fn log_out(server: Option<&str>, options: &Options, out: Output) -> Result<(), Failure> {
    let logins = Logins::open()?;
    let auth = stored(&logins);
    let chosen = match logins.server_of_logout(server, options).await? {
        Some(chosen) => chosen,
        None => match &usable(&logins, &auth).await?[..] {
            [(server, _)] => Chosen { url: server.clone(), definition: None },
            [] => return Err(Failure::usage("no login is stored")),
            several => {
                let servers: Vec<&str> = several.iter().map(|(server, _)| server.as_str()).collect();
                return Err(Failure::usage(format!("name one of the servers: {}", servers.join(", "))));
            }
        },
    };
    let server = chosen.url.clone();
    let client = chosen.client(&logins).await.unwrap_or_else(|error| {
        warn(&format!("the stored client of the login is not used: {error}"));
        RegisteredClient::default()
    });
    let revocation = client
        .apply(chosen.configure(builder(&logins, Way::Refused))?)
        .store(logins.store.clone())
        .fetch(fetch(&server, options)?)
        .build()
        .log_out(&server)
        .await?;
    logins.forget(&server).await?;
    let (had_login, is_revoked) = match &revocation {
        Revocation::NoLogin => (false, false),
        Revocation::Revoked => (true, true),
        _ => (true, false),
    };
    match &revocation {
        Revocation::Unsupported => {
            warn("the authorization server cannot revoke tokens: copies of them are valid until their end")
        }
        Revocation::Failed(error) => warn(&format!("copies of the tokens are valid until their end: {error}")),
        _ => {}
    }
    if out.json {
        return out.value(&json!({ "server": server.as_str(), "loggedOut": had_login, "revoked": is_revoked }));
    }
    out.text(&format!("{} {server}", if had_login { "logged out of" } else { "there was no login at" }))
}

/// Explains the steps before a login at a server.
///
/// The command asks no keyring: it reads plain records only, and no secret.
async fn explain(
    server: Option<&str>,
    scopes: &[String],
    given: RegisteredClient,
    options: &Options,
    out: Output,
) -> Result<(), Failure> {
    if !options.header.is_empty() {
        return Err(Failure::usage("`mcp auth explain` sends no credentials; omit --header"));
    }
    let logins = Logins::existing().unwrap_or_else(|failure| {
        warn(&format!("the stored logins are not used: {failure}"));
        None
    });
    let known = match &logins {
        Some(logins) => logins.servers().await?,
        None => Vec::new(),
    };
    let chosen = logins::server(server, &known, options)?.ok_or_else(no_server)?;
    let server = chosen.url.clone();
    let builder = OAuth::builder().client_name(CLIENT_NAME).fetch(fetch(&server, options)?);
    let stored = match &logins {
        Some(logins) if !chosen.has_own_client() => logins.client_without_secret(&server).await?,
        _ => RegisteredClient::default(),
    };
    let client = chosen.with_options(stored, given)?;
    let mut builder = client.apply(chosen.configure(builder)?).scopes(scopes);
    if let Some(logins) = logins {
        builder = builder.store(logins.index);
    }
    explain::print(&server, &builder.build().explain(&server).await?, out)
}

/// Returns the requests to the servers of a login, with the same proxy as those of a connection.
fn fetch(server: &Url, options: &Options) -> Result<Fetch, Failure> {
    let mut builder = Fetch::builder().for_server(server.as_str());
    for host in connection::allowed_hosts(options) {
        builder = builder.allow_host(&host).map_err(|error| Failure::rejected(&error))?;
    }
    if let Some(timeout) = options.timeout {
        builder = builder.timeout(timeout);
    }
    let is_local = match server.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let builder = if is_local { Ok(builder) } else { builder.proxy_of_environment() };
    Ok(builder.map_err(|error| Failure::rejected(&error))?.build())
}

/// Connects to the server of a command line.
async fn connect(
    chosen: &Chosen,
    options: &Options,
    auth: Option<&OAuth>,
) -> Result<Result<Client, mcp_client::Error>, Failure> {
    let authorizer = auth.map(|auth| Arc::new(auth.clone()) as Arc<dyn Authorizer>);
    match &chosen.definition {
        Some(definition) => connection::to_definition(definition, options, authorizer).await,
        None => connection::to_url(&chosen.url, options, authorizer).await,
    }
}

/// Checks that the server accepts the headers of the command line.
async fn show_headers(chosen: &Chosen, options: &Options, opened: &OnceLock<Client>) -> Result<(), Failure> {
    let server = &chosen.url;
    match connect(chosen, options, None).await? {
        Ok(client) => opened.get_or_init(|| client),
        Err(error) if is_refusal(&error) => {
            return Err(Failure::local(format!("{server} does not accept the headers of --header")));
        }
        Err(error) => return Err(error.into()),
    };
    let out = Output::new(options.json);
    if out.json {
        return out.value(&json!({ "server": server.as_str(), "credentials": "header" }));
    }
    out.text(&format!("{server} accepts the headers of --header"))
}

/// Shows the login at one server, which must accept its tokens.
async fn show_one(
    chosen: &Chosen,
    logins: &Logins,
    options: &Options,
    opened: &OnceLock<Client>,
) -> Result<(), Failure> {
    let server = &chosen.url;
    if passes_token(options) {
        return show_headers(chosen, options, opened).await;
    }
    let missing = |reason: &str| Failure::local(format!("not logged in at {server}{reason}; run `mcp login {server}`"));
    let client = chosen.client(logins).await?;
    let builder = client.apply(chosen.configure(builder(logins, Way::Refused))?);
    let auth = kept(builder.store(logins.store.clone()).build());
    if auth.stored_login(server).await?.is_none() {
        if !options.header.is_empty() {
            return show_headers(chosen, options, opened).await;
        }
        return Err(missing(""));
    }
    match connect(chosen, options, Some(&auth)).await? {
        Ok(client) => opened.get_or_init(|| client),
        Err(error) if is_refusal(&error) => {
            return Err(missing(": the server or its authorization server does not accept the stored tokens"));
        }
        Err(error) => return Err(error.into()),
    };
    let login = auth.stored_login(server).await?.filter(StoredLogin::is_usable);
    print(server, &login.ok_or_else(|| missing(": the stored tokens have ended"))?, Output::new(options.json))
}

/// Returns whether the server or its authorization server does not accept the tokens.
fn is_refusal(error: &mcp_client::Error) -> bool {
    let refusals = [ErrorKind::LoginRequired, ErrorKind::Denied, ErrorKind::Token];
    let is_of_tokens = failure::login_error(error).is_none_or(|error| refusals.contains(&error.kind()));
    error.is_unauthorized() && !error.is_retryable() && is_of_tokens
}

/// Shows all stored logins, without requests to their servers.
async fn show_all(logins: &Logins, out: Output) -> Result<(), Failure> {
    let found = usable(logins, &stored(logins)).await?;
    if found.is_empty() {
        return Err(Failure::local("no login is stored; run `mcp login URL`"));
    }
    if out.json {
        return out.value(&found.iter().map(|(server, login)| to_json(server, login)).collect::<Vec<_>>());
    }
    found.iter().try_for_each(|(server, login)| print(server, login, out))
}

/// Returns the logins whose tokens have not ended.
async fn usable(logins: &Logins, auth: &OAuth) -> Result<Vec<(Url, StoredLogin)>, Failure> {
    let mut found = Vec::new();
    for server in logins.servers().await? {
        if let Some(login) = auth.stored_login(&server).await?.filter(StoredLogin::is_usable) {
            found.push((server, login));
        }
    }
    Ok(found)
}

fn stored(logins: &Logins) -> OAuth {
    kept(builder(logins, Way::Refused).store(logins.store.clone()).build())
}

fn builder(logins: &Logins, way: Way) -> OAuthBuilder {
    let builder = OAuth::builder().client_name(CLIENT_NAME).user_agent(Page { logins: logins.clone(), way });
    if way == Way::Device { builder.device_flow() } else { builder }
}

/// Returns whether the user passes a token, which then replaces a login.
fn passes_token(options: &Options) -> bool {
    options.header.iter().flatten().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

fn no_server() -> Failure {
    Failure::usage(format!("no server is given; write a URL, or set {VARIABLE} to a URL"))
}

fn print(server: &Url, login: &StoredLogin, out: Output) -> Result<(), Failure> {
    if out.json {
        return out.value(&to_json(server, login));
    }
    let label = |text| style::out(Style::Dim, text);
    let scopes = match &login.granted_scopes {
        Some(granted) if granted.is_empty() => "none".to_owned(),
        Some(granted) => granted.join(" "),
        // A login of an earlier version has no granted scopes.
        None if !login.scopes.is_empty() => login.scopes.join(" "),
        None => "the default of the authorization server, which did not name it".to_owned(),
    };
    styled(&format!(
        "{}\n{}  {}\n{}  {}\n{}  {}\n{}  {}\n",
        style::out(Style::Name, server.as_str()),
        label("issuer "),
        line(&login.issuer),
        label("client "),
        line(&login.client_id),
        label("scopes "),
        line(&scopes),
        label("expires"),
        end(login)
    ))
}

/// Returns the end of the tokens in words.
fn end(login: &StoredLogin) -> String {
    let left = login.expires_at.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    let time = match left.map(|left| left.as_secs()) {
        None => "unknown".to_owned(),
        Some(seconds @ ..120) => format!("in {seconds} s"),
        Some(seconds @ ..7_200) => format!("in {} min", seconds / 60),
        Some(seconds) => format!("in {} h", seconds / 3_600),
    };
    if login.is_renewable { format!("{time}, renewed automatically") } else { time }
}

fn to_json(server: &Url, login: &StoredLogin) -> Value {
    let end = login.expires_at.and_then(|end| end.duration_since(UNIX_EPOCH).ok()).as_ref().map(Duration::as_secs);
    json!({
        "server": server.as_str(), "issuer": login.issuer, "clientId": login.client_id, "scopes": login.scopes,
        "grantedScopes": login.granted_scopes, "expiresAt": end, "isRenewable": login.is_renewable,
    })
}
