//! The credentials of a gateway at its servers: each caller has a token of its own there, and its own token reaches no server.
#![cfg(feature = "oauth")]
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, HostBuilder,
    config::{self, ConfigFile, Environment, Scope, ServerDefinition},
    token_exchange_authorizer,
};
use mcp_client::{Client, Reconnect, Round, http::Http, transport::Connect};
use mcp_protocol::{Challenge, ClientCapabilities, ElicitationCapability, ProtocolVersion, RpcError, auth::grant_type};
use mcp_server::{
    auth::{ApiKeys, AuthRequest, Authenticated, Authenticator, BoxFuture, Chain, Jwt, Rejection},
    prelude::*,
};
use mcp_test::authorization_server::{
    AuthorizationServer, Endpoint, Misbehavior, RegisteredClient, ResponseFault, RunningAuthorizationServer,
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::common::{REVISIONS, SOON, client};

const SECRET: &str = "secret-of-the-gateway";

/// The header of the application in a request, and whether the request has a token.
type Tenant = (Option<String>, bool);

/// The authentication of an upstream server, which keeps the tokens that it receives.
#[derive(Clone)]
struct Seen {
    tokens: Arc<Mutex<Vec<String>>>,
    tenants: Arc<Mutex<Vec<Tenant>>>,
    /// The number of requests that the server rejects.
    rejects: Arc<AtomicUsize>,
    jwt: Arc<Jwt>,
}

impl Authenticator for Seen {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let token = header("authorization");
        self.tenants.lock().unwrap().push((header("x-tenant"), token.is_some()));
        self.tokens.lock().unwrap().extend(token.iter().map(|token| token.trim_start_matches("Bearer ").to_owned()));
        if self.rejects.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Box::pin(std::future::ready(Err(Rejection::Invalid)));
        }
        self.jwt.authenticate(request)
    }

    fn challenges(&self) -> Vec<Challenge> {
        self.jwt.challenges()
    }
}

impl Seen {
    /// Returns the distinct tokens.
    fn distinct(&self) -> Vec<String> {
        let mut tokens = self.tokens.lock().unwrap().clone();
        tokens.sort();
        tokens.dedup();
        tokens
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A server at a URL whose tool returns the identity in the token of the request.
async fn upstream(version: ProtocolVersion, issuer: &str) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let jwt = Arc::new(Jwt::issuer(issuer).unwrap().audience(&url));
    let seen = Seen { tokens: Arc::default(), tenants: Arc::default(), rejects: Arc::default(), jwt };
    serve_upstream(listener, version, &seen);
    (url, seen)
}

/// Serves the tools of an upstream server, and a resource. Returns the task that serves.
fn serve_upstream(listener: TcpListener, version: ProtocolVersion, seen: &Seen) -> JoinHandle<()> {
    let identity = async |caller: Principal| {
        let scopes: Vec<String> = caller.scopes.into_iter().collect();
        format!("{} {} {}", caller.subject, caller.client_id.unwrap_or_default(), scopes.join(","))
    };
    let asks = async |inputs: Inputs| {
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        Ok::<_, ToolError>(name)
    };
    let server = Server::builder("upstream", "1").versions([version]).resource(resource("x:a", async || "a"));
    let server = server.tool(tool("identity", identity)).tool(tool("asks", asks)).build();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let config = HttpConfig::new().public_url(&url).authenticate(seen.clone());
    tokio::spawn(async move { drop(server.serve_http_on(listener, config).await) })
}

/// A gateway over HTTP in front of two servers, with an authorization server for all of them.
struct World {
    issuer: RunningAuthorizationServer,
    host: Host,
    url: String,
    upstreams: [Seen; 2],
}

impl World {
    async fn new(version: ProtocolVersion, scope: Option<&str>) -> Self {
        Self::of(Host::builder("gateway", "1"), version, scope).await
    }

    async fn of(host: HostBuilder, version: ProtocolVersion, scope: Option<&str>) -> Self {
        let client = RegisteredClient::with_secret("gateway", SECRET);
        let issuer = AuthorizationServer::builder().client(client).start().await.unwrap();
        let (first, one) = upstream(version, issuer.issuer()).await;
        let (second, two) = upstream(version, issuer.issuer()).await;
        let entry = |url: &str, scope: Option<&str>| {
            let endpoint = format!("{}/token", issuer.issuer());
            let exchange = json!({
                "issuer": issuer.issuer(), "tokenEndpoint": endpoint, "clientId": "gateway", "clientSecret": "${SECRET}",
                "scope": scope,
            });
            json!({ "url": url, "x-mcp": { "tokenExchange": exchange } })
        };
        let text = json!({ "mcpServers": { "one": entry(&first, scope), "two": entry(&second, None) } }).to_string();
        let environment = Environment::default().variable("SECRET", SECRET);
        let config = ConfigFile::parse(Path::new("/p/.mcp.json"), &text, Scope::Named, &environment).unwrap();
        assert!(config.errors.is_empty() && !format!("{config:?}").contains(SECRET), "{config:?}");
        let host = timeout(SOON, host.config_file(&config).start()).await.unwrap().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let jwt = Jwt::issuer(issuer.issuer()).unwrap().audience(&url).keep_subject_token();
        let keys = ApiKeys::new().key("key-of-ci", Principal::new("ci")).unwrap();
        let config = HttpConfig::new().public_url(&url).authenticate(Chain::new().with(keys).with(jwt));
        let server = Gateway::builder(host.clone()).build().unwrap().build();
        tokio::spawn(async move { server.serve_http_on(listener, config).await });
        Self { issuer, host, url, upstreams: [one, two] }
    }

    async fn token(&self, name: &str, scopes: &[&str]) -> String {
        self.issuer.issue_token(name, scopes.iter().copied(), &self.url).await.unwrap()
    }

    async fn user(&self, version: ProtocolVersion, token: &str) -> Client {
        let http = Http::new(&self.url).unwrap().bearer(token).unwrap();
        timeout(SOON, client().versions([version]).connect(http)).await.unwrap().unwrap()
    }

    /// Returns the number of exchanges.
    fn exchanges(&self) -> usize {
        let requests = self.issuer.requests();
        requests.iter().filter(|request| request.parameter("grant_type") == Some(grant_type::TOKEN_EXCHANGE)).count()
    }
}

async fn identity(client: &Client, server: &str) -> Result<String, RpcError> {
    let called = timeout(SOON, client.call_tool(format!("{server}__identity"), json!({}))).await.unwrap();
    called.map(|result| result.text()).map_err(|error| error.rpc().cloned().unwrap())
}

fn reason(error: &RpcError) -> &Value {
    &error.data.as_ref().unwrap()["reason"]
}

#[tokio::test]
async fn each_server_receives_only_the_exchanged_token_of_the_caller() {
    for version in REVISIONS {
        let world = World::new(version, None).await;
        let tokens = [world.token("ada", &["read"]).await, world.token("grace", &["read"]).await];
        for (name, token) in ["ada", "grace"].iter().zip(&tokens) {
            let user = world.user(version, token).await;
            for _ in 0..3 {
                for server in ["one", "two"] {
                    assert_eq!(identity(&user, server).await.unwrap(), format!("{name} gateway read"));
                }
            }
        }
        assert_eq!(world.exchanges(), 4, "one exchange for each caller and server");
        let exchanged = world.upstreams.each_ref().map(Seen::distinct);
        for seen in &exchanged {
            // One token of each caller, and one of the gateway for the lists.
            assert_eq!(seen.len(), 3, "{version}");
            assert!(seen.iter().all(|token| !tokens.contains(token)), "a server received the token of a caller");
        }
        assert!(exchanged[0].iter().all(|token| !exchanged[1].contains(token)), "two servers received one token");
        let shown = format!("{:?} {:?}", world.host, world.host.statuses());
        assert!(!shown.contains(SECRET) && tokens.iter().all(|token| !shown.contains(token.as_str())), "{shown}");
    }
}

/// The names and values of the headers of a request.
type Headers = Vec<(String, String)>;

/// Records the headers of each request, and accepts it.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<Headers>>>);

impl Authenticator for Records {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        let headers = request.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        self.0.lock().unwrap().push(headers.collect());
        Box::pin(std::future::ready(Ok(Authenticated::new(Principal::new("gateway")))))
    }

    fn challenges(&self) -> Vec<Challenge> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_server_without_an_exchange_receives_no_credentials_of_a_client() {
    for version in REVISIONS {
        let records = Records::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}/mcp", listener.local_addr().unwrap());
        let upstream = Server::builder("upstream", "1").versions([version]).tool(tool("t", async || "called")).build();
        let config = HttpConfig::new().public_url(&server).authenticate(records.clone());
        tokio::spawn(async move { upstream.serve_http_on(listener, config).await });
        let own = json!({ "url": server, "headers": { "Authorization": "Bearer of-the-configuration" } });
        let text = json!({ "mcpServers": { "own": own, "none": { "url": server } } }).to_string();
        let config =
            ConfigFile::parse(Path::new("/p/.mcp.json"), &text, Scope::Named, &Environment::default()).unwrap();
        let host = timeout(SOON, Host::builder("gateway", "1").config_file(&config).start()).await.unwrap().unwrap();

        let issuer = AuthorizationServer::builder().start().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let jwt = Jwt::issuer(issuer.issuer()).unwrap().audience(&url).keep_subject_token();
        let keys = ApiKeys::new().key("key-of-ci", Principal::new("ci")).unwrap();
        let config = HttpConfig::new().public_url(&url).authenticate(Chain::new().with(keys).with(jwt));
        let gateway = Gateway::builder(host).build().unwrap().build();
        tokio::spawn(async move { gateway.serve_http_on(listener, config).await });
        let token = issuer.issue_token("ada", ["read"], &url).await.unwrap();
        for (http, credentials) in [
            (Http::new(&url).unwrap().bearer(&token).unwrap(), &*token),
            (Http::new(&url).unwrap().header("x-api-key", "key-of-ci").unwrap(), "key-of-ci"),
        ] {
            let http = http.header("cookie", "session-of-the-client").unwrap();
            let user = timeout(SOON, client().versions([version]).connect(http)).await.unwrap().unwrap();
            for tool in ["own__t", "none__t"] {
                assert_eq!(
                    timeout(SOON, user.call_tool(tool, ()).into_future()).await.unwrap().unwrap().text(),
                    "called"
                );
            }
            let received = std::mem::take(&mut *records.0.lock().unwrap());
            let is_of_client = |value: &str| value.contains(credentials) || value.contains("session-of-the-client");
            assert!(!received.iter().flatten().any(|(_, value)| is_of_client(value)), "{version}: {received:?}");
            let authorization = |headers: &Vec<(String, String)>| {
                let header = headers.iter().find(|(name, _)| name == "authorization");
                header.map(|(_, value)| value.clone())
            };
            let authorizations: BTreeSet<_> = received.iter().map(authorization).collect();
            let expected = BTreeSet::from([None, Some("Bearer of-the-configuration".to_owned())]);
            assert_eq!(authorizations, expected, "{version}");
        }
    }
}

#[tokio::test]
async fn a_token_with_fewer_scopes_does_not_use_the_token_of_another_one() {
    let world = World::new(ProtocolVersion::LATEST, None).await;
    for (scopes, expected) in [(&["read", "write"][..], "read,write"), (&["read"], "read")] {
        let user = world.user(ProtocolVersion::LATEST, &world.token("ada", scopes).await).await;
        assert_eq!(identity(&user, "one").await.unwrap(), format!("ada gateway {expected}"));
    }
    assert_eq!(world.exchanges(), 2);
}

#[tokio::test]
async fn a_token_with_fewer_scopes_does_not_continue_the_call_of_another_one() {
    // A server of the session era asks, so the gateway parks the call.
    let world = World::new(REVISIONS[0], None).await;
    let send = async |scopes: &[&str], params: Value| {
        let user = world.user(ProtocolVersion::LATEST, &world.token("ada", scopes).await).await;
        let capabilities = ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form());
        let call = user.request_raw("tools/call", params).raw_result().capabilities(capabilities).raw_inputs();
        timeout(SOON, call.into_future()).await.unwrap()
    };
    let first = json!({ "name": "one__asks", "arguments": {} });
    let Round::InputRequired(asked) = send(&["read", "write"], first).await.unwrap() else { panic!("the tool asks") };
    let asked = asked.into_result();
    let key = asked.input_requests.unwrap().keys().next().unwrap().clone();
    let answer = json!({ "action": "accept", "content": { "name": "ada" } });
    let next = json!({
        "name": "one__asks", "arguments": {}, "requestState": asked.request_state, "inputResponses": { key: answer },
    });
    let refused = send(&["read"], next.clone()).await.unwrap_err();
    assert_eq!(reason(refused.rpc().unwrap()), "request_state_expired");
    // Another token with the same scopes continues the call.
    assert!(matches!(send(&["read", "write"], next).await.unwrap(), Round::Complete(_)));
}

#[tokio::test]
async fn a_fault_of_an_exchange_is_an_error_of_its_caller_alone() {
    let version = ProtocolVersion::LATEST;
    let world = World::new(version, Some("read")).await;
    let ada = world.user(version, &world.token("ada", &["read"]).await).await;
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");

    // The token endpoint grants no scope that the caller lacks.
    let grace = world.user(version, &world.token("grace", &["write"]).await).await;
    for _ in 0..3 {
        assert_eq!(reason(&identity(&grace, "one").await.unwrap_err()), "token_refused");
    }
    assert_eq!(world.exchanges(), 2, "a refused token is not sent again at once");
    assert_eq!(identity(&grace, "two").await.unwrap(), "grace gateway write");

    // A caller with another kind of credentials has no token.
    let http = Http::new(&world.url).unwrap().header("x-api-key", "key-of-ci").unwrap();
    let ci = timeout(SOON, client().connect(http)).await.unwrap().unwrap();
    let error = identity(&ci, "one").await.unwrap_err();
    assert_eq!((reason(&error), &error.data.as_ref().unwrap()["retryable"]), (&json!("token_missing"), &json!(false)));

    let outage = ResponseFault::Unavailable { retry_after: Duration::from_secs(7) };
    world.issuer.misbehave(Misbehavior::Response(Endpoint::Token, outage));
    let alan = world.user(version, &world.token("alan", &["read"]).await).await;
    let error = identity(&alan, "one").await.unwrap_err();
    let data = error.data.as_ref().unwrap();
    assert_eq!((reason(&error), &data["retryable"]), (&json!("token_endpoint_unavailable"), &json!(true)));
    assert_eq!(data["retryAfterMs"], 7000);
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");
    world.issuer.behave();
    assert_eq!(identity(&alan, "one").await.unwrap(), "alan gateway read");
}

#[tokio::test]
async fn a_rejected_token_is_exchanged_again_once() {
    let version = ProtocolVersion::LATEST;
    let world = World::new(version, None).await;
    let ada = world.user(version, &world.token("ada", &["read"]).await).await;
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");
    world.upstreams[0].rejects.store(1, Ordering::SeqCst);
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");
    assert_eq!(world.exchanges(), 2);
}

#[tokio::test]
async fn a_server_that_does_not_accept_the_token_of_a_caller_needs_no_login_of_the_operator() {
    for version in REVISIONS {
        let world = World::new(version, None).await;
        let rejects = &world.upstreams[0].rejects;
        let ada = world.user(version, &world.token("ada", &["read"]).await).await;
        let grace = world.user(version, &world.token("grace", &["read"]).await).await;
        assert_eq!(identity(&grace, "one").await.unwrap(), "grace gateway read", "{version}");
        rejects.store(usize::MAX, Ordering::SeqCst);
        // Only the connection of `grace` is open.
        for (user, name) in [(&ada, "ada"), (&grace, "grace")] {
            for _ in 0..2 {
                let error = identity(user, "one").await.unwrap_err();
                let text = "the server did not accept the token of the caller";
                assert_eq!((error.code.0, &*error.message), (-32600, text), "{version} {name}");
                let data = json!({ "server": "one", "reason": "token_not_accepted", "retryable": false });
                assert_eq!(error.data, Some(data), "{version} {name}");
            }
            assert_eq!(identity(user, "two").await.unwrap(), format!("{name} gateway read"), "{version}");
        }
        rejects.store(0, Ordering::SeqCst);
        let accepted = async {
            while identity(&ada, "one").await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(SOON, accepted).await.unwrap();
    }
}

#[tokio::test]
async fn an_outage_of_the_token_endpoint_after_a_rejection_is_temporary() {
    let version = ProtocolVersion::LATEST;
    let world = World::new(version, None).await;
    let ada = world.user(version, &world.token("ada", &["read"]).await).await;
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");
    let outage = ResponseFault::Unavailable { retry_after: Duration::from_secs(7) };
    world.issuer.misbehave(Misbehavior::Response(Endpoint::Token, outage));
    world.upstreams[0].rejects.store(1, Ordering::SeqCst);
    let error = identity(&ada, "one").await.unwrap_err();
    let data = error.data.as_ref().unwrap();
    assert_eq!((reason(&error), &data["retryable"]), (&json!("token_endpoint_unavailable"), &json!(true)));
    assert_eq!(data["retryAfterMs"], 7000);
    world.issuer.behave();
    assert_eq!(identity(&ada, "one").await.unwrap(), "ada gateway read");
}

#[tokio::test]
async fn the_token_of_another_issuer_is_not_sent_to_the_token_endpoint() {
    let version = ProtocolVersion::LATEST;
    let world = World::new(version, None).await;
    let other = AuthorizationServer::builder().start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let jwt = Jwt::issuer(other.issuer()).unwrap().audience(&url).keep_subject_token();
    let config = HttpConfig::new().public_url(&url).authenticate(jwt);
    let server = Gateway::builder(world.host.clone()).build().unwrap().build();
    tokio::spawn(async move { server.serve_http_on(listener, config).await });
    let token = other.issue_token("ada", ["read"], &url).await.unwrap();
    let http = Http::new(&url).unwrap().bearer(&token).unwrap();
    let ada = timeout(SOON, client().connect(http)).await.unwrap().unwrap();
    assert_eq!(reason(&identity(&ada, "one").await.unwrap_err()), "token_of_other_issuer");
    assert_eq!(world.exchanges(), 0);
}

#[tokio::test]
async fn a_lost_subscription_uses_the_newest_token_of_its_subscribers() {
    let version = ProtocolVersion::LATEST;
    let world = World::of(Host::builder("gateway", "1").reconnect(Reconnect::never()), version, None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/mcp");
    let jwt = Arc::new(Jwt::issuer(world.issuer.issuer()).unwrap().audience(&url));
    let seen = Seen { jwt, rejects: Arc::default(), ..world.upstreams[0].clone() };
    let serving = serve_upstream(listener, version, &seen);
    let mut definition = ServerDefinition::http("three", &url);
    if let config::Endpoint::Http(http) = &mut definition.endpoint {
        http.token_exchange = Some(config::TokenExchange::new(world.issuer.issuer(), "gateway", SECRET).into());
    }
    world.host.add_definition(&definition).unwrap();
    timeout(SOON, world.host.catalog_changes().wait_for(|catalog| catalog.tool("three__identity").is_ok()))
        .await
        .unwrap();
    let (former, newest) = (world.token("ada", &["read"]).await, world.token("ada", &["read"]).await);
    assert_ne!(former, newest);
    let subscribe = |user: Client| async move { (user.subscribe(["mcp://three/x:a"]).await.map_err(drop), user) };
    let subscribed = timeout(SOON, subscribe(world.user(version, &former).await)).await.unwrap();
    assert!(subscribed.0.is_ok());
    // The server returns, and rejects each token.
    serving.abort();
    drop(serving.await);
    seen.rejects.store(usize::MAX, Ordering::SeqCst);
    let _serving = serve_upstream(TcpListener::bind(address).await.unwrap(), version, &seen);
    let _waiting = tokio::spawn(subscribe(world.user(version, &newest).await));
    let is_exchanged = || {
        let requests = world.issuer.requests();
        requests.iter().any(|request| request.parameter("subject_token") == Some(&newest))
    };
    let exchanged = async {
        while !is_exchanged() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, exchanged).await.unwrap();
}

#[tokio::test]
async fn an_application_builds_the_connectors_of_callers() {
    let world = World::new(ProtocolVersion::LATEST, None).await;
    let (url, seen) = upstream(ProtocolVersion::LATEST, world.issuer.issuer()).await;
    let endpoint = format!("{}/token", world.issuer.issuer());
    let mut exchange = config::TokenExchange::new(world.issuer.issuer(), "gateway", SECRET);
    exchange.token_endpoint = Some(endpoint);
    let mut definition = ServerDefinition::http("three", &url);
    if let config::Endpoint::Http(http) = &mut definition.endpoint {
        http.token_exchange = Some(exchange.into());
    }
    let of_host = token_exchange_authorizer(&definition).unwrap().unwrap();
    let http = Http::new(&url).unwrap().header("x-tenant", "7").unwrap();
    let of_callers = http.clone();
    let connector = Arc::new(http.authorizer(of_host));
    let of_caller = move |own| Arc::new(of_callers.clone().authorizer(own)) as Arc<dyn Connect>;
    world.host.add_definition_with_connectors(&definition, connector, of_caller).unwrap();
    timeout(SOON, world.host.catalog_changes().wait_for(|catalog| catalog.tool("three__identity").is_ok()))
        .await
        .unwrap();
    let ada = world.user(ProtocolVersion::LATEST, &world.token("ada", &["read"]).await).await;
    assert_eq!(identity(&ada, "three").await.unwrap(), "ada gateway read");
    let tenants = seen.tenants.lock().unwrap().clone();
    assert!(tenants.iter().all(|tenant| *tenant == (Some("7".to_owned()), true)), "{tenants:?}");
    assert_eq!(seen.distinct().len(), 2, "the token of the gateway, and that of the caller");
}

#[tokio::test]
async fn the_token_endpoint_is_that_of_the_metadata_of_the_issuer() {
    let world = World::new(ProtocolVersion::LATEST, None).await;
    let (url, seen) = upstream(ProtocolVersion::LATEST, world.issuer.issuer()).await;
    let add = |name: &str, issuer: &str| {
        let mut definition = ServerDefinition::http(name, &url);
        if let config::Endpoint::Http(http) = &mut definition.endpoint {
            http.token_exchange = Some(config::TokenExchange::new(issuer, "gateway", SECRET).into());
        }
        world.host.add_definition(&definition).unwrap();
    };
    add("three", world.issuer.issuer());
    timeout(SOON, world.host.catalog_changes().wait_for(|catalog| catalog.tool("three__identity").is_ok()))
        .await
        .unwrap();
    for name in ["ada", "grace"] {
        let token = world.token(name, &["read"]).await;
        let user = world.user(ProtocolVersion::LATEST, &token).await;
        assert_eq!(identity(&user, "three").await.unwrap(), format!("{name} gateway read"));
        assert!(!seen.distinct().contains(&token), "the server received the token of a caller");
    }
    assert_eq!(world.exchanges(), 2);

    // The metadata of another issuer is not that of the entry, so no request has a token.
    add("four", &format!("{}/other", world.issuer.issuer()));
    let failed = |host: &Host| host.start_error("four").is_some();
    let mut events = world.host.status_events();
    let waited = async {
        while !failed(&world.host) {
            events.next().await.unwrap();
        }
    };
    timeout(SOON, waited).await.unwrap();
    assert_eq!(world.exchanges(), 2);
}
