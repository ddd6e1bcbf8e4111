//! Our client at servers of other projects that trust our authorization server: it logs in, calls a tool, renews an expired and
//! a revoked token, and logs in again for a further scope.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::{
    Request,
    header::{CONTENT_TYPE, LOCATION},
};
use mcp_client::{
    Client,
    oauth::{Answer, Error as OAuthError, ErrorKind, Login, MemoryStore, OAuth, TokenStore as _, UserAgent},
    protocol::ProtocolVersion,
};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, RegisteredClient, RunningAuthorizationServer};
use mcp_transport::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use crate::{
    Era,
    checks::{Outcome, error_text},
    report,
};

/// The life of access tokens. The check of the refresh waits for its end.
const TOKEN_LIFE: Duration = Duration::from_secs(6);
/// The time until the server listens.
const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// No check takes longer.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// The client as which the server asks about tokens.
const CLIENT_ID: &str = "resource-server";
const CLIENT_SECRET: &str = "interop-secret-of-the-resource-server";
const READ: &str = "notes:read";
const WRITE: &str = "notes:write";

/// The server and its start.
#[derive(Debug, Deserialize)]
pub(crate) struct Program {
    command: String,
    args: Vec<String>,
    env: Map<String, Value>,
    url: String,
}

/// A user who approves each login at once.
#[derive(Clone)]
struct Approval {
    server: AuthorizationServer,
    logins: Arc<AtomicUsize>,
}

impl UserAgent for Approval {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, OAuthError>> {
        Box::pin(async move {
            self.logins.fetch_add(1, Ordering::SeqCst);
            let failed = |text: &'static str| OAuthError::new(ErrorKind::Denied, text);
            let request = Request::get(login.url.as_str()).body(Default::default());
            let request = request.map_err(|_| failed("the page of the login is not a URL"))?;
            let response = self.server.respond(request, SystemTime::now()).await;
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.ok_or_else(|| failed("the authorization server did not approve the login"))?;
            Ok(Answer::Pasted(location.to_owned()))
        })
    }
}

/// A running server. The drop of this value kills it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers, the user and the tokens of all checks.
struct World<'a> {
    program: &'a Program,
    subject: &'a str,
    era: Era,
    authorization: RunningAuthorizationServer,
    logins: Arc<AtomicUsize>,
    auth: OAuth,
    store: MemoryStore,
    server: Option<Running>,
    client: Option<Client>,
}

/// Runs all checks. A failed check ends them, because the later ones need its result.
pub(crate) async fn run(subject: &str, era: Era, program: &Program) {
    let mut world = match World::start(subject, era, program).await {
        Ok(world) => world,
        Err(problem) => return report("challenge", &Outcome::Failed(problem)),
    };
    for check in ["challenge", "login", "call", "refresh", "revoked", "step-up"] {
        let checked = async {
            match check {
                "challenge" => world.challenge().await,
                "login" => world.login().await,
                "call" => world.call().await,
                "refresh" => world.refresh().await,
                "revoked" => world.revoked().await,
                _ => world.step_up().await,
            }
        };
        let result =
            tokio::time::timeout(CHECK_LIMIT, checked).await.unwrap_or_else(|_| Err("no answer in time".into()));
        let has_failed = result.is_err();
        report(check, &result.into());
        if has_failed {
            break;
        }
    }
    world.disconnect().await;
}

impl<'a> World<'a> {
    async fn start(subject: &'a str, era: Era, program: &'a Program) -> Result<Self, String> {
        let authorization = AuthorizationServer::builder()
            .auto_approve()
            .subject("ann")
            .scopes([READ, WRITE])
            .resources([program.url.as_str()])
            .access_token_lifetime(TOKEN_LIFE)
            .client(RegisteredClient::with_secret(CLIENT_ID, CLIENT_SECRET))
            .start()
            .await
            .map_err(|error| error.to_string())?;
        let approval = Approval { server: AuthorizationServer::clone(&authorization), logins: Arc::default() };
        let logins = Arc::clone(&approval.logins);
        let store = MemoryStore::new();
        let auth = OAuth::builder().client_name("interop").user_agent(approval).store(store.clone()).build();
        let mut world = Self { program, subject, era, authorization, logins, auth, store, server: None, client: None };
        world.serve(READ).await?;
        Ok(world)
    }

    /// Starts the server, in place of the running one. Each request requires the scopes.
    async fn serve(&mut self, scopes: &str) -> Result<(), String> {
        self.disconnect().await;
        drop(self.server.take());
        let Program { command, args, env, url } = self.program;
        let mut server = Command::new(command);
        server.args(args).envs(env.iter().filter_map(|(name, value)| Some((name, value.as_str()?))));
        server.env("ISSUER", self.authorization.issuer()).env("RESOURCE", url).env("SCOPES", scopes);
        server.env("CLIENT_ID", CLIENT_ID).env("CLIENT_SECRET", CLIENT_SECRET);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let running = server.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let running = self.server.insert(Running(running));
        let address: SocketAddr = Url::parse(url)
            .ok()
            .and_then(|url| format!("{}:{}", url.host_str()?, url.port()?).parse().ok())
            .ok_or_else(|| format!("{url} has no address"))?;
        let listening = async {
            while TcpStream::connect(address).await.is_err() {
                if let Ok(Some(status)) = running.0.try_wait() {
                    return Err(format!("the server exited ({status})"));
                }
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        };
        let started = tokio::time::timeout(START_LIMIT, listening).await;
        started.unwrap_or_else(|_| Err("the server did not listen in time".into()))
    }

    async fn connect(&self, auth: Option<OAuth>) -> Result<Client, mcp_client::Error> {
        let builder = Client::builder("interop", "1.0.0");
        let legacy = ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake());
        let builder = match self.era {
            Era::Legacy => builder.versions(legacy),
            Era::Modern => builder.versions([ProtocolVersion::LATEST]),
            Era::Auto => builder,
        };
        let builder = match auth {
            Some(auth) => builder.auth(auth),
            None => builder,
        };
        let client = builder.connect(self.program.url.as_str()).await?;
        // A pinned revision may send its first request here.
        client.list_tools().await?;
        Ok(client)
    }

    async fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            client.close().await;
        }
    }

    /// The number of logins and of refreshes.
    fn counts(&self) -> (usize, usize) {
        let requests = self.authorization.requests();
        let is_refresh = |request: &&mcp_test::authorization_server::RecordedRequest| {
            request.endpoint() == Endpoint::Token && request.parameter("grant_type") == Some("refresh_token")
        };
        (self.logins.load(Ordering::SeqCst), requests.iter().filter(is_refresh).count())
    }

    /// A client without tokens is refused, and the challenge names the metadata.
    async fn challenge(&mut self) -> Result<(), String> {
        let Err(error) = self.connect(None).await else {
            return Err("the server accepts requests without a token".into());
        };
        expect(error.is_unauthorized(), format!("the error is {error}"))?;
        let metadata = error.challenges().iter().find_map(|challenge| challenge.resource_metadata.as_deref());
        expect(metadata.is_some(), "the challenge names no metadata".into())
    }

    async fn login(&mut self) -> Result<(), String> {
        let client = self.connect(Some(self.auth.clone())).await.map_err(error_text)?;
        self.client = Some(client);
        let requests = self.authorization.requests();
        let page = requests.iter().find(|request| request.endpoint() == Endpoint::Authorization);
        let page = page.ok_or("the client opened no page")?;
        for (name, expected) in
            [("resource", self.program.url.as_str()), ("scope", READ), ("code_challenge_method", "S256")]
        {
            let found = page.parameter(name);
            expect(found == Some(expected), format!("{name} is {found:?} instead of {expected:?}"))?;
        }
        expect(self.counts().0 == 1, format!("the user logged in {} times", self.counts().0))
    }

    /// Calls a tool that returns the identity in the token.
    async fn caller(&self, tool: &str, scopes: &[&str]) -> Result<(), String> {
        let client = self.client.as_ref().ok_or("there is no connection")?;
        let result = client.call_tool(tool, serde_json::json!({})).await.map_err(error_text)?;
        let text = result.text();
        expect(!result.is_error(), format!("the tool {tool} failed: {text}"))?;
        let caller: Value = serde_json::from_str(&text).map_err(|_| format!("{tool} returns {text:?}"))?;
        let granted: Vec<&str> = caller["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_expected = caller["subject"] == "ann" && scopes.iter().all(|scope| granted.contains(scope));
        expect(is_expected, format!("{tool} returns the caller {text}"))
    }

    async fn call(&mut self) -> Result<(), String> {
        self.caller("whoami", &[READ]).await
    }

    /// The token ends, and the client renews it without the user.
    async fn refresh(&mut self) -> Result<(), String> {
        let (_, before) = self.counts();
        tokio::time::sleep(TOKEN_LIFE + Duration::from_secs(1)).await;
        self.caller("whoami", &[READ]).await?;
        let (logins, refreshes) = self.counts();
        expect(refreshes > before && logins == 1, format!("{logins} logins, {} refreshes", refreshes - before))
    }

    /// The server rejects a token before its end, and the client renews it without the user.
    async fn revoked(&mut self) -> Result<(), String> {
        let (_, before) = self.counts();
        self.revoke().await?;
        self.caller("whoami", &[READ]).await?;
        let (logins, refreshes) = self.counts();
        expect(refreshes == before + 1 && logins == 1, format!("{logins} logins, {} refreshes", refreshes - before))
    }

    /// Revokes the access token of the client (RFC 7009).
    async fn revoke(&self) -> Result<(), String> {
        let record =
            self.store.load(&format!("tokens/{}", self.program.url)).await.map_err(|error| error.to_string())?;
        let record = record.and_then(|record| serde_json::from_str::<Value>(record.expose()).ok());
        let text = |member: &str| record.as_ref().and_then(|record| record[member].as_str());
        let (token, client) = text("access_token").zip(text("client_id")).ok_or("the store has no token")?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("client_id", client)
            .finish();
        let request = Request::post(format!("{}/revoke", self.authorization.issuer()))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.into())
            .map_err(|error| error.to_string())?;
        let status = self.authorization.respond(request, SystemTime::now()).await.status();
        expect(status.is_success(), format!("the status of the revocation is {status}"))
    }

    /// The server demands a further scope. The SDK for Python has scopes of the whole server alone, so that server starts again
    /// with one more scope.
    async fn step_up(&mut self) -> Result<(), String> {
        if self.subject == "python-v2" {
            self.serve(&format!("{READ} {WRITE}")).await?;
            self.client = Some(self.connect(Some(self.auth.clone())).await.map_err(error_text)?);
            self.caller("whoami", &[READ, WRITE]).await?;
        } else {
            self.caller("write", &[READ, WRITE]).await?;
        }
        let requests = self.authorization.requests();
        let page = requests.iter().rev().find(|request| request.endpoint() == Endpoint::Authorization);
        let scope = page.and_then(|page| page.parameter("scope"));
        expect(scope == Some("notes:read notes:write"), format!("the last login requested {scope:?}"))?;
        expect(self.counts().0 == 2, format!("the user logged in {} times", self.counts().0))
    }
}

fn expect(is_right: bool, problem: String) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(problem) }
}
