//! Gives any documents and answers to the OAuth client, and any answer of an issuer to the providers of a server.
//!
//! The first character selects the form. Lines with `===` separate the parts. The first three are the challenge, the metadata of the
//! resource, and the metadata of the authorization server. The answer to the registration, the response of the login, and the answer to
//! the token request follow. The
//! form `d` has the answer of the device flow in place of the response. A part can begin with a line with its status and the target of
//! a redirect. Placeholders: `{base}` is the URL of the server, `{state}` the state of the login, `{host}` the host of the redirect
//! URI, and `{verifier}` the secret of the token request. The forms `i` and `g` have one part: the answer to an introspection, and the
//! answer of GitHub.
//!
//! The client has a token only after a response with the state of the login, and from the issuer that the resource names. It then sends
//! the token of the answer. No text of an error has the secret of the token request. A provider accepts only an active token of its
//! issuer for its resource, or a token of its application.

#![no_main]

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use fuzz::{
    expanded, fuzz_target, isolated_with_sockets,
    loopback::{self, Asked, Reply},
    secret_for,
};
use http::{HeaderMap, Method, StatusCode, header};
use mcp_auth::{GitHub, Introspection, TokenVerifier as _};
use mcp_client_http::{Authorizer as _, Refusal, Target, Verdict};
use mcp_fetch::{Fetch, Resolver, Resolving};
use mcp_oauth::{Answer, DeviceLogin, Error, Login, OAuth, UserAgent};
use mcp_protocol::Challenge;
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use url::{Url, form_urlencoded};

const SEPARATOR: &str = "\n===\n";
const LIMIT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(900);

/// Knows no name, so that no input reaches another machine.
struct NoNames;

impl Resolver for NoNames {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(std::future::ready(Err(io::Error::other("no names"))))
    }
}

fn fetch() -> Fetch {
    // The port is closed.
    Fetch::builder().allow_loopback(true).resolver(NoNames).proxy("http://127.0.0.1:1").unwrap().build()
}

/// The parts of the input, and the values of the run.
#[derive(Default)]
struct Run {
    parts: Vec<String>,
    /// The values of the placeholders.
    base: String,
    state: String,
    host: String,
    verifier: String,
    /// The numbers and the bodies of the sent parts. A placeholder has another value later.
    sent: Vec<(usize, String)>,
    /// The forms of the token requests.
    tokens: Vec<HashMap<String, String>>,
    /// The response of the login.
    response: Option<String>,
}

type Shared = Arc<Mutex<Run>>;

impl Run {
    fn part(&self, number: usize) -> String {
        let part = self.parts.get(number).map_or("", String::as_str);
        let values = [
            ("{base}", &*self.base),
            ("{state}", &*self.state),
            ("{host}", &*self.host),
            ("{verifier}", &*self.verifier),
        ];
        String::from_utf8(expanded(part.as_bytes(), &values)).unwrap()
    }

    /// Returns the sent bodies of a part as JSON.
    fn sent(&self, number: usize) -> Vec<Value> {
        let bodies = self.sent.iter().filter(|(sent, _)| *sent == number);
        bodies.map(|(_, body)| serde_json::from_str(body).unwrap_or_default()).collect()
    }

    /// Returns the last sent body of the first part as JSON.
    fn answered(&self) -> Value {
        self.sent(0).pop().expect("the server sent an answer")
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let path = asked.target.split('?').next().unwrap_or_default();
        let number = match asked.method.as_str() {
            "GET" if is_of_issuer(path) => 2,
            "GET" if path.contains("resource") => 1,
            "POST" if path.contains("issuer") => 0,
            "POST" if path.contains("register") => 3,
            "POST" if path.contains("device") => 4,
            "POST" if path.contains("token") => 5,
            _ => return Reply::response(404, "", ""),
        };
        if number == 5 {
            let form: HashMap<_, _> = form_urlencoded::parse(&asked.body).into_owned().collect();
            self.verifier = form.get("code_verifier").cloned().unwrap_or_default();
            self.tokens.push(form);
        }
        let part = self.part(number);
        let ((status, location), body) = split(&part);
        let location = if location.is_empty() { String::new() } else { format!("Location: {location}\r\n") };
        let headers = format!("Content-Type: application/json\r\n{location}");
        if headers.bytes().filter(|byte| *byte == b'\n').count() > 2 {
            return Reply::response(404, "", "");
        }
        let reply = Reply::response(status, &headers, body);
        self.sent.push((number, body.to_owned()));
        reply
    }
}

/// Whether a path is that of the metadata of an issuer.
fn is_of_issuer(path: &str) -> bool {
    path.contains("oauth-authorization-server") || path.contains("openid-configuration")
}

/// Returns the status, the target of a redirect, and the body of a part.
fn split(part: &str) -> ((u16, &str), &str) {
    let line = part.split_once('\n').and_then(|(line, body)| {
        let (status, location) = line.split_once(' ').unwrap_or((line, ""));
        let status = status.parse::<u16>().ok().filter(|status| (200..600).contains(status))?;
        Some(((status, location), body))
    });
    line.unwrap_or(((200, ""), part))
}

/// Returns the response of the login.
struct Agent {
    run: Shared,
    /// The browser sends the response to the redirect URI.
    is_redirected: bool,
}

impl UserAgent for Agent {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        let state = login.url.query_pairs().find(|(name, _)| name == "state");
        let response = {
            let mut run = self.run.lock().unwrap();
            run.state = state.map(|(_, state)| state.into_owned()).unwrap_or_default();
            run.host = Url::parse(&login.redirect_uri).unwrap().authority().to_owned();
            let response = run.part(4);
            run.response = Some(response.clone());
            response
        };
        Box::pin(async move {
            if !self.is_redirected {
                return Ok(Answer::Pasted(response));
            }
            let url = Url::parse(&login.redirect_uri).unwrap();
            let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap();
            let _ = stream.write_all(response.as_bytes()).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
            Ok(Answer::Redirect)
        })
    }

    fn show_code<'a>(&'a self, login: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
        assert!(login.user_code.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{:?}", login.user_code);
        assert!(["http", "https"].contains(&login.verification_uri.scheme()));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The texts of an error and of its causes.
fn texts(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

async fn login(form: &str, run: Shared) {
    let endpoint = Url::parse(&format!("{}/mcp", run.lock().unwrap().base)).unwrap();
    let agent = Agent { run: Arc::clone(&run), is_redirected: form == "b" };
    let mut builder = OAuth::builder().user_agent(agent).fetch(fetch()).login_limit(LIMIT);
    builder = match form {
        "b" => builder.client_id("client"),
        "d" => builder.client_id("client").device_flow(),
        "m" => builder.client_id("client").client_secret("a secret").dangerous_any_issuer().client_credentials(),
        _ => builder.redirect_uri("https://app.example/callback"),
    };
    let auth = builder.build();
    let target = Target::new(Method::POST, endpoint);
    let mut refusal = Refusal::new(target.clone(), StatusCode::UNAUTHORIZED);
    let challenge = run.lock().unwrap().part(0);
    refusal.challenges = Challenge::parse(challenge.lines());
    let verdict = timeout(LONGEST, auth.refused(&refusal)).await.expect("the login ends in bounded time");
    let authorized = timeout(LONGEST, auth.authorize(&target)).await.expect("the request ends in bounded time");
    let run = run.lock().unwrap();
    match &verdict {
        Ok(Verdict::Retry) => check_login(&run, form, authorized.as_ref().ok()),
        Ok(_) => {}
        Err(error) => {
            let text = texts(error);
            assert!(run.verifier.is_empty() || !text.contains(&run.verifier), "{text}");
        }
    }
    if let Err(error) = &authorized {
        let text = texts(error);
        assert!(run.verifier.is_empty() || !text.contains(&run.verifier), "{text}");
    }
}

/// Checks the reasons for a token.
fn check_login(run: &Run, form: &str, headers: Option<&HeaderMap>) {
    assert!(!run.tokens.is_empty(), "a token needs a request");
    let answers = run.sent(5);
    assert!(answers.iter().any(|answer| answer["access_token"].is_string()), "no answer has a token: {answers:?}");
    let sent = headers.and_then(|headers| headers.get(header::AUTHORIZATION)).and_then(|value| value.to_str().ok());
    if let Some((scheme, sent)) = sent.and_then(|value| value.split_once(' ')) {
        let is_received = answers.iter().any(|answer| answer["access_token"] == sent);
        assert!(["Bearer", "DPoP"].contains(&scheme) && is_received, "{scheme} {sent}");
    }
    // A challenge can name the document of the issuer as that of the resource.
    let has_documents = [1, 2].iter().all(|part| run.part(*part).starts_with('{')) && !is_of_issuer(&run.part(0));
    let (resources, servers) = (run.sent(1), run.sent(2));
    let issuers: Vec<&Value> =
        resources.iter().filter_map(|one| one["authorization_servers"].as_array()).flatten().collect();
    if has_documents && !issuers.is_empty() {
        let is_named = |server: &Value| issuers.contains(&&server["issuer"]);
        assert!(servers.iter().any(is_named), "{servers:?} is not named by {resources:?}");
    }
    if form == "d" || form == "m" {
        return;
    }
    let response = run.response.as_deref().expect("a token needs a response of the login");
    assert!(response.contains(&run.state), "{response}");
    let request = run.tokens.iter().find(|form| form.contains_key("code")).expect("a request has the code");
    assert!(request["code_verifier"].len() >= 43);
    if form == "b" {
        return;
    }
    let text = response.trim();
    let url = Url::parse(text);
    let query = url.as_ref().map_or_else(|_| text.trim_start_matches('?'), |url| url.query().unwrap_or_default());
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let values = |name: &str| pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(values("state"), [&run.state]);
    assert_eq!(values("code"), [&request["code"]]);
    assert!(values("error").is_empty(), "{response}");
}

async fn introspected(run: Shared, input: &[u8]) {
    const RESOURCE: &str = "https://mcp.example.com/mcp";
    const ISSUER: &str = "https://as.example";
    let (base, secret) = (run.lock().unwrap().base.clone(), secret_for(input, 0));
    let provider = Introspection::endpoint(ISSUER, format!("{base}/issuer"), "id", secret.as_str()).unwrap();
    let checked = timeout(LONGEST, provider.verify_token("opaque", RESOURCE)).await.expect("the check ends");
    let Ok(accepted) = checked else { return };
    let claims = run.lock().unwrap().answered();
    assert_eq!(claims["active"], true);
    let audience = &claims["aud"];
    assert!(*audience == RESOURCE || audience.as_array().is_some_and(|all| all.iter().any(|one| *one == RESOURCE)));
    assert!(claims.get("iss").is_none_or(|issuer| *issuer == ISSUER || issuer.is_null()), "{claims}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(claims["exp"].as_f64().is_none_or(|end| end > now - 120.0), "{claims}");
    assert!(!accepted.principal.subject.is_empty() && !format!("{accepted:?}").contains(&secret));
}

async fn known_to_github(run: Shared, input: &[u8]) {
    let (base, secret) = (run.lock().unwrap().base.clone(), secret_for(input, 0));
    let provider = GitHub::new("app", secret.as_str()).unwrap().enterprise(base.as_str(), format!("{base}/issuer"));
    let provider = provider.unwrap();
    let checked = timeout(LONGEST, provider.verify_token("opaque", "https://mcp.example.com/mcp")).await;
    let Ok(accepted) = checked.expect("the check ends") else { return };
    let answer = run.lock().unwrap().answered();
    assert_eq!(answer["app"]["client_id"], "app");
    assert_eq!(answer["user"]["id"].to_string(), accepted.principal.subject);
}

async fn start(form: &str, input: &str) {
    let parts = input.split(SEPARATOR).map(str::to_owned).collect();
    let run: Shared = Arc::new(Mutex::new(Run { parts, ..Run::default() }));
    let answering = Arc::clone(&run);
    let address = loopback::serve(move |asked| answering.lock().unwrap().answer(&asked)).await;
    run.lock().unwrap().base = format!("http://{address}");
    match form {
        "i" => introspected(run, input.as_bytes()).await,
        "g" => known_to_github(run, input.as_bytes()).await,
        _ => login(form, run).await,
    }
}

fuzz_target!(|data: &str| {
    let (form, input) = data.split_at(data.floor_char_boundary(1));
    isolated_with_sockets(start(form, input));
});
