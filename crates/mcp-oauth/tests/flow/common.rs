//! An MCP server that requires tokens, a user, and the loop of the HTTP client.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, Method, StatusCode, header::AUTHORIZATION};
use mcp_auth::jose;
use mcp_client_http::{Authorizer as _, AuthorizerError, Refusal, Target, Verdict};
use mcp_oauth::{Answer, Error, ErrorKind, Login, OAuth, OAuthBuilder, TokenStore, UserAgent};
use mcp_protocol::{
    Challenge,
    auth::{ProtectedResourceMetadata, Secret},
};
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, RunningAuthorizationServer, open_page,
};
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

/// An MCP server with its metadata document.
pub(crate) struct Site {
    pub(crate) endpoint: Url,
    document: Arc<Mutex<Option<ProtectedResourceMetadata>>>,
    /// Tokens that the server rejects.
    revoked: Mutex<Vec<String>>,
    /// The number of next requests that the server rejects.
    rejections: AtomicUsize,
    /// The scopes that the server requires.
    required: Mutex<Vec<String>>,
    /// The check of proofs, if the server accepts bound tokens only.
    proofs: Option<ProofCheck>,
    /// Whether the challenges have the scheme `DPoP`.
    pub(crate) challenges_dpop: bool,
}

/// The check of the proofs of one server (RFC 9449).
#[derive(Default)]
pub(crate) struct ProofCheck {
    /// The nonce that a proof must have.
    pub(crate) nonce: Mutex<Option<String>>,
    /// The ids of all valid proofs.
    pub(crate) ids: Mutex<Vec<String>>,
}

impl ProofCheck {
    /// Returns the challenge for an invalid proof, or for a proof without the nonce.
    fn judge(&self, endpoint: &Url, headers: &HeaderMap, token: &str) -> Option<Challenge> {
        let failed = |error: &str| Some(Challenge::new("DPoP").with_error(error));
        let text = headers.get("dpop").map(|proof| proof.to_str().unwrap()).unwrap_or_default();
        let checked = jose::check_proof(text, &Method::POST, endpoint.as_str(), SECONDS_60, SystemTime::now());
        let Ok(proof) = checked else { return failed("invalid_dpop_proof") };
        let hash = jose::unverified_claims(text).unwrap().remove("ath");
        let is_bound = claims_of(token)["cnf"]["jkt"] == proof.thumbprint;
        if hash != Some(jose::sha256(token.as_bytes()).into())
            || !is_bound
            || self.ids.lock().unwrap().contains(&proof.id)
        {
            return failed("invalid_dpop_proof");
        }
        self.ids.lock().unwrap().push(proof.id);
        let nonce = self.nonce.lock().unwrap();
        if nonce.is_some() && *nonce != proof.nonce { failed("use_dpop_nonce") } else { None }
    }
}

const SECONDS_60: Duration = Duration::from_secs(60);

impl Site {
    /// Starts a server that names this issuer.
    pub(crate) async fn start(issuer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let site = Self::at(Url::parse(&format!("http://{address}/mcp")).unwrap());
        site.publish(ProtectedResourceMetadata::new(site.endpoint.as_str(), [issuer]));
        tokio::spawn(serve(listener, Arc::clone(&site.document)));
        site
    }

    /// Returns a server whose documents another process serves.
    pub(crate) fn at(endpoint: Url) -> Self {
        let (document, revoked, required) = Default::default();
        Self {
            endpoint,
            document,
            revoked,
            rejections: AtomicUsize::new(0),
            required,
            proofs: None,
            challenges_dpop: false,
        }
    }

    /// Accepts tokens with proofs only.
    pub(crate) fn require_proofs(&mut self) {
        (self.proofs, self.challenges_dpop) = (Some(ProofCheck::default()), true);
    }

    pub(crate) fn proofs(&self) -> &ProofCheck {
        self.proofs.as_ref().unwrap()
    }

    /// Returns the headers of each response.
    fn response_headers(&self) -> HeaderMap {
        let nonce = self.proofs.as_ref().and_then(|proofs| proofs.nonce.lock().unwrap().clone());
        nonce.iter().map(|nonce| (HeaderName::from_static("dpop-nonce"), nonce.parse().unwrap())).collect()
    }

    pub(crate) fn publish(&self, document: ProtectedResourceMetadata) {
        *self.document.lock().unwrap() = Some(document);
    }

    /// Removes the metadata document, which servers of 2025-03-26 do not have.
    pub(crate) fn unpublish(&self) {
        *self.document.lock().unwrap() = None;
    }

    pub(crate) fn revoke(&self, token: &str) {
        self.revoked.lock().unwrap().push(token.to_owned());
    }

    /// Rejects the tokens of the next requests.
    pub(crate) fn reject(&self, number: usize) {
        self.rejections.store(number, Ordering::SeqCst);
    }

    pub(crate) fn require(&self, scopes: &[&str]) {
        *self.required.lock().unwrap() = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    }

    pub(crate) fn target(&self) -> Target {
        Target::new(Method::POST, self.endpoint.clone())
    }

    /// Judges a request as a server does: the status and the challenge of a refusal.
    fn judge(&self, headers: &HeaderMap) -> Option<(StatusCode, Challenge)> {
        let metadata = format!("{}/prm", self.endpoint.origin().ascii_serialization());
        let Some(token) = token_of(headers) else {
            let required = self.required.lock().unwrap();
            let challenge = if self.challenges_dpop { Challenge::new("DPoP") } else { Challenge::bearer() };
            let challenge = challenge.with_scopes(required.iter().map(String::as_str));
            return Some((StatusCode::UNAUTHORIZED, challenge.with_resource_metadata(metadata)));
        };
        let is_bound = headers[AUTHORIZATION].to_str().unwrap().starts_with("DPoP ");
        assert_eq!(is_bound, self.proofs.is_some());
        if let Some(challenge) = self.proofs.as_ref().and_then(|proofs| proofs.judge(&self.endpoint, headers, &token)) {
            return Some((StatusCode::UNAUTHORIZED, challenge.with_resource_metadata(metadata)));
        }
        let rejects = |left: usize| left.checked_sub(1);
        let is_rejected = self.rejections.fetch_update(Ordering::SeqCst, Ordering::SeqCst, rejects).is_ok();
        if is_rejected || self.revoked.lock().unwrap().contains(&token) {
            return Some((StatusCode::UNAUTHORIZED, Challenge::invalid_token().with_resource_metadata(metadata)));
        }
        let required = self.required.lock().unwrap();
        let granted = scopes_of(&token);
        let is_granted = required.iter().all(|scope| granted.contains(scope));
        (!is_granted).then(|| {
            let challenge = Challenge::insufficient_scope(required.iter().map(String::as_str));
            (StatusCode::FORBIDDEN, challenge.with_resource_metadata(metadata))
        })
    }

    /// Sends a request with the loop of the HTTP client: it repeats a refused request at most twice with another token, and
    /// at most twice with a fresh proof.
    pub(crate) async fn call(&self, auth: &OAuth) -> Result<(StatusCode, String), Error> {
        let result: Result<(StatusCode, String), AuthorizerError> = async {
            let (mut retries, mut fresh) = (2, 2);
            loop {
                let sent = auth.authorize(&self.target()).await?;
                let Some((status, challenge)) = self.judge(&sent) else {
                    auth.answered(&self.target(), &sent, StatusCode::OK, &self.response_headers());
                    return Ok((StatusCode::OK, token_of(&sent).unwrap()));
                };
                let mut refusal = Refusal::new(self.target(), status);
                refusal.challenges.push(challenge);
                refusal.headers = self.response_headers();
                refusal.sent = sent;
                auth.answered(&self.target(), &refusal.sent, status, &refusal.headers);
                refusal.can_retry = retries > 0;
                let is_left = retries > 0 || fresh > 0;
                let verdict = if is_left { auth.refused(&refusal).await? } else { Verdict::GiveUp };
                let left = match verdict {
                    Verdict::Retry => &mut retries,
                    Verdict::RetryFresh => &mut fresh,
                    _ => return Ok((status, String::new())),
                };
                if *left == 0 {
                    return Ok((status, String::new()));
                }
                *left -= 1;
            }
        }
        .await;
        result.map_err(|error| {
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
            source.expect("each error of an `OAuth` has its error as the source").clone()
        })
    }

    /// Sends a request that must succeed, and returns its token.
    pub(crate) async fn token(&self, auth: &OAuth) -> String {
        let (status, token) = tokio::time::timeout(Duration::from_secs(30), self.call(auth)).await.unwrap().unwrap();
        assert_eq!(status, StatusCode::OK);
        token
    }

    /// Sends a request that must fail.
    pub(crate) async fn error(&self, auth: &OAuth) -> Error {
        let result = tokio::time::timeout(Duration::from_secs(30), self.call(auth)).await.unwrap();
        result.expect_err("the request must fail")
    }

    /// Returns the key of the tokens in a store.
    pub(crate) fn key(&self) -> String {
        format!("tokens/{}", self.endpoint)
    }

    /// Changes the stored tokens.
    pub(crate) async fn edit(&self, store: &dyn TokenStore, edit: impl FnOnce(&mut Value)) {
        let record = store.load(&self.key()).await.unwrap().expect("there are tokens");
        let mut record: Value = serde_json::from_str(record.expose()).unwrap();
        edit(&mut record);
        store.save(&self.key(), &Secret::new(record.to_string())).await.unwrap();
    }

    /// Ends the life of the stored access token. The server rejects it then.
    pub(crate) async fn expire(&self, store: &dyn TokenStore) {
        let expire = |record: &mut Value| {
            self.revoke(record["access_token"].as_str().unwrap());
            record["expires_at"] = 1.into();
        };
        self.edit(store, expire).await;
    }
}

async fn serve(listener: TcpListener, document: Arc<Mutex<Option<ProtectedResourceMetadata>>>) {
    let origin = format!("http://{}", listener.local_addr().unwrap());
    while let Ok((mut stream, _)) = listener.accept().await {
        let (document, origin) = (Arc::clone(&document), origin.clone());
        tokio::spawn(async move {
            let head = read_request(&mut stream).await;
            let path = head.split(' ').nth(1).unwrap_or_default();
            let is_document = path == "/prm" || path == "/.well-known/oauth-protected-resource/mcp";
            let document = document.lock().unwrap().clone().filter(|_| is_document);
            let challenge = format!("www-authenticate: Bearer resource_metadata=\"{origin}/prm\"\r\n");
            let (status, header, body) = match document {
                Some(document) => (200, "", serde_json::to_string(&document).unwrap()),
                None if path == "/mcp" => {
                    assert!(!head.to_ascii_lowercase().contains("\r\nauthorization:"), "{head}");
                    (401, challenge.as_str(), String::new())
                }
                None => (404, "", String::new()),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        });
    }
}

/// Starts a server, and returns its origin. The function receives the method and the path of a request, and the origin. It
/// returns the status line without the version, the headers, an empty line and the body.
pub(crate) async fn pages(mut page: impl FnMut(&str, &str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let own = origin.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = read_request(&mut stream).await;
            let page = page(head.split(" HTTP").next().unwrap_or_default(), &own);
            let (status, rest) = page.split_once("\r\n").unwrap();
            let (headers, body) = rest.split_once("\r\n").unwrap();
            let end = if headers.is_empty() { "" } else { "\r\n" };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n");
            let _ = stream.write_all(format!("{head}{headers}{end}\r\n{body}").as_bytes()).await;
        }
    });
    origin
}

/// Reads a request, and returns its head.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    let _ = stream.read_exact(&mut body).await;
    head
}

pub(crate) fn token_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?;
    assert!(value.is_sensitive());
    Some(value.to_str().unwrap().split_once(' ').unwrap().1.to_owned())
}

pub(crate) fn claims_of(token: &str) -> Value {
    let payload = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

fn scopes_of(token: &str) -> Vec<String> {
    claims_of(token)["scope"].as_str().unwrap_or_default().split(' ').map(str::to_owned).collect()
}

/// A user who approves each login at once.
#[derive(Clone, Default)]
pub(crate) struct User {
    pub(crate) logins: Arc<AtomicUsize>,
    /// The user copies the URL of the response instead of opening it.
    pub(crate) pastes: bool,
    /// The time that the user takes.
    pub(crate) delay: Duration,
    /// The user closes the page.
    pub(crate) declines: bool,
    /// The time at which the user closed the latest page.
    pub(crate) declined_at: Arc<Mutex<Option<Instant>>>,
}

impl User {
    pub(crate) fn count(&self) -> usize {
        self.logins.load(Ordering::SeqCst)
    }
}

impl UserAgent for User {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            self.logins.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.delay).await;
            if self.declines {
                *self.declined_at.lock().unwrap() = Some(Instant::now());
                return Err(Error::new(ErrorKind::Denied, "the user declined"));
            }
            let Some(location) = open_page(login.url.as_str()).await.unwrap() else { return Ok(Answer::Redirect) };
            assert!(location.starts_with(&login.redirect_uri));
            if self.pastes {
                return Ok(Answer::Pasted(location));
            }
            open_page(&location).await.unwrap();
            Ok(Answer::Redirect)
        })
    }
}

/// A server, its authorization server and a user.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) authorization: RunningAuthorizationServer,
    pub(crate) user: User,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(AuthorizationServer::builder()).await
    }

    pub(crate) async fn with(builder: AuthorizationServerBuilder) -> Self {
        let authorization = builder.auto_approve().start().await.unwrap();
        let site = Site::start(authorization.issuer()).await;
        Self { site, authorization, user: User::default() }
    }

    pub(crate) fn builder(&self) -> OAuthBuilder {
        OAuth::builder().client_name("Test").user_agent(self.user.clone())
    }

    pub(crate) fn auth(&self) -> OAuth {
        self.builder().build()
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(is_met: impl Fn() -> bool) {
    let met = async {
        while !is_met() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), met).await.expect("the condition holds within 30 seconds");
}
