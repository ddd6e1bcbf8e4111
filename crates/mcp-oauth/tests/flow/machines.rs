//! Clients that act for themselves.

use mcp_auth::jose::SigningKey;
use mcp_fetch::Fetch;
use mcp_oauth::{
    Assertion, AssertionRequest, ClientKey, Error, ErrorKind, IdentityProvider, MemoryStore, OAuthBuilder,
    SubjectTokenType,
};
use mcp_protocol::auth::{Secret, grant_type, token_type};
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, Endpoint, RecordedRequest, RegisteredClient,
};
use mcp_transport::BoxFuture;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use crate::common::{World, claims_of};

/// A key of a client, and its key set.
pub(crate) fn key() -> (ClientKey, Value) {
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let jwk = SigningKey::from_pkcs8(der.as_ref()).unwrap().jwk().clone();
    (ClientKey::from_der(der.as_ref()).unwrap(), json!({"keys": [jwk]}))
}

fn token_requests(world: &World) -> Vec<RecordedRequest> {
    world.authorization.requests().into_iter().filter(|request| request.endpoint() == Endpoint::Token).collect()
}

#[tokio::test]
async fn a_client_authenticates_with_a_secret_or_a_key() {
    let (key, keys) = key();
    for (client, configure) in [
        (
            RegisteredClient::with_secret("service", "hunter2"),
            Box::new(|auth: OAuthBuilder| auth.client_secret("hunter2")) as Box<dyn Fn(OAuthBuilder) -> OAuthBuilder>,
        ),
        (RegisteredClient::with_keys("service", keys), Box::new(move |auth| auth.client_key(key.clone()))),
    ] {
        let world = World::with(AuthorizationServer::builder().client(client)).await;
        let store = MemoryStore::new();
        let auth = configure(world.builder().client_id("service")).client_credentials().scopes(["a"]);
        let auth = auth.issuer(world.authorization.issuer()).store(store.clone()).build();
        let claims = claims_of(&world.site.token(&auth).await);
        assert_eq!((&claims["client_id"], &claims["aud"]), (&json!("service"), &json!(world.site.endpoint.as_str())));
        let first = &token_requests(&world)[0];
        assert_eq!(first.parameter("grant_type"), Some("client_credentials"));
        assert_eq!(
            (first.parameter("resource"), first.parameter("scope")),
            (Some(world.site.endpoint.as_str()), Some("a"))
        );
        assert!(first.parameter("client_secret").is_none());

        // The server requires another scope, and later another token.
        world.site.require(&["b"]);
        let token = world.site.token(&auth).await;
        assert_eq!(token_requests(&world)[1].parameter("scope"), Some("a b"));
        world.site.revoke(&token);
        world.site.token(&auth).await;
        assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (0, 3));
    }
}

#[tokio::test]
async fn wrong_credentials_are_an_error() {
    let (_, keys) = key();
    let (wrong, _) = key();
    let clients = [RegisteredClient::with_secret("a", "hunter2"), RegisteredClient::with_keys("b", keys)];
    let builder = clients.into_iter().fold(AuthorizationServer::builder(), AuthorizationServerBuilder::client);
    let world = World::with(builder).await;
    for (auth, kind) in [
        (world.builder().client_id("a").client_secret("hunter3"), ErrorKind::Token),
        (world.builder().client_id("b").client_key(wrong), ErrorKind::Token),
        (world.builder(), ErrorKind::Configuration),
    ] {
        let auth = auth.issuer(world.authorization.issuer()).client_credentials().build();
        let error = world.site.error(&auth).await;
        assert_eq!(error.kind(), kind, "{error}");
        let code = error.oauth_error().map(|error| error.error.as_str());
        assert_eq!(code, (kind == ErrorKind::Token).then_some("invalid_client"));
    }
    assert_eq!(world.user.count(), 0);
}

/// Signs tokens of an issuer.
pub(crate) struct Issuer(SigningKey);

impl Issuer {
    pub(crate) fn sign(&self, audience: &str, claims: &Value) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut all = json!({
            "iss": "https://issuer.example", "sub": "workload", "aud": audience, "iat": now, "exp": now + 60,
            "jti": mcp_auth::jose::random_text().unwrap()
        });
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "typ": "JWT"});
        self.0.sign(header.as_object().unwrap(), all.as_object().unwrap()).unwrap()
    }
}

impl Assertion for Issuer {
    fn assertion<'a>(&'a self, request: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>> {
        Box::pin(async move { Ok(Secret::new(self.sign(&request.issuer, &json!({})))) })
    }
}

pub(crate) fn issuer() -> (Issuer, Value) {
    let key = SigningKey::generate().unwrap();
    let keys = json!({"keys": [key.jwk()]});
    (Issuer(key), keys)
}

#[tokio::test]
async fn a_workload_sends_its_assertion_and_no_client() {
    let (issuer, keys) = issuer();
    let builder = AuthorizationServer::builder().trust_issuer("https://issuer.example", keys);
    let world = World::with(builder).await;
    let auth = world.builder().assertion(issuer).issuer(world.authorization.issuer()).scopes(["a"]).build();
    let claims = claims_of(&world.site.token(&auth).await);
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("workload"), &json!(world.site.endpoint.as_str())));
    let request = &token_requests(&world)[0];
    assert_eq!(request.parameter("grant_type"), Some(grant_type::JWT_BEARER));
    assert!(request.parameter("client_id").is_none() && request.headers().get("authorization").is_none());

    // A foreign issuer is refused after one request.
    let (foreign, _) = self::issuer();
    let auth = world.builder().assertion(foreign).issuer(world.authorization.issuer()).build();
    let error = world.site.error(&auth).await;
    assert_eq!(error.oauth_error().unwrap().error, "invalid_grant");
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (0, 2));
}

#[tokio::test]
async fn an_identity_provider_exchanges_the_token_of_a_user() {
    let (issuer, keys) = issuer();
    let builder = AuthorizationServer::builder().trust_issuer("https://issuer.example", keys);
    let provider = builder.client(RegisteredClient::public("mcp-client")).start().await.unwrap();
    let request = http::Request::get("/jwks").body(Default::default()).unwrap();
    let keys = provider.respond(request, std::time::SystemTime::now()).await;
    let keys: Value = serde_json::from_slice(keys.body()).unwrap();
    let builder = AuthorizationServer::builder().trust_issuer(provider.issuer(), keys);
    let world = World::with(builder.client(RegisteredClient::with_secret("mcp-client", "hunter2"))).await;

    let id_token = issuer.sign("mcp-client", &json!({"sub": "alice"}));
    let url = format!("{}/token", provider.issuer());
    let exchange = IdentityProvider::new(url, "mcp-client", SubjectTokenType::IdToken, id_token.as_str());
    let exchange = exchange.fetch(Fetch::builder().allow_loopback(true).build());
    assert!(!format!("{exchange:?}").contains(&id_token));
    let auth = world.builder().client_id("mcp-client").client_secret("hunter2").assertion(exchange).scopes(["a"]);
    let claims = claims_of(&world.site.token(&auth.issuer(world.authorization.issuer()).build()).await);
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("alice"), &json!(world.site.endpoint.as_str())));

    let requests = provider.requests();
    let request = requests.iter().find(|request| request.endpoint() == Endpoint::Token).unwrap();
    for (name, value) in [
        ("grant_type", grant_type::TOKEN_EXCHANGE),
        ("requested_token_type", token_type::ID_JAG),
        ("subject_token_type", token_type::ID_TOKEN),
        ("audience", world.authorization.issuer()),
        ("resource", world.site.endpoint.as_str()),
        ("client_id", "mcp-client"),
    ] {
        assert_eq!(request.parameter(name), Some(value), "{name}");
    }
    let redemption = &token_requests(&world)[0];
    assert_eq!(redemption.parameter("grant_type"), Some(grant_type::JWT_BEARER));
    assert!(redemption.headers().contains_key("authorization") && redemption.parameter("client_secret").is_none());
    // No page of the authorization server is shown.
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Authorization)), (0, 0));
}

#[tokio::test]
async fn credentials_are_sent_to_the_configured_issuer_alone() {
    type Configure = Box<dyn Fn(OAuthBuilder) -> OAuthBuilder>;
    let (key, _) = key();
    let (assertions, _) = issuer();
    let assertions = std::sync::Arc::new(assertions);
    let cases: [(&str, Configure); 4] = [
        ("a secret", Box::new(|auth| auth.client_id("service").client_secret("hunter2"))),
        (
            "a secret for itself",
            Box::new(|auth| auth.client_id("service").client_secret("hunter2").client_credentials()),
        ),
        ("a key", Box::new(move |auth| auth.client_id("service").client_key(key.clone()).client_credentials())),
        ("an assertion", Box::new(move |auth| auth.assertion(Shared(std::sync::Arc::clone(&assertions))))),
    ];
    for (name, configure) in cases {
        // The server names its own authorization server.
        let world = World::new().await;
        let builder = || world.builder().login_limit(std::time::Duration::from_millis(500));
        let counts = || [Endpoint::Authorization, Endpoint::Token].map(|endpoint| world.authorization.count(endpoint));
        let error = world.site.error(&configure(world.builder()).build()).await;
        assert_eq!(error.kind(), ErrorKind::Configuration, "{name}: {error}");
        assert!(error.to_string().contains("set `issuer`"), "{name}: {error}");
        let error = world.site.error(&configure(world.builder()).issuer("https://as.example").build()).await;
        assert_eq!(error.kind(), ErrorKind::Registration, "{name}: {error}");
        assert_eq!(counts(), [0, 0], "{name}");
        let error = world.site.error(&configure(builder()).dangerous_any_issuer().build()).await;
        assert!(!matches!(error.kind(), ErrorKind::Configuration | ErrorKind::Registration), "{name}: {error}");
        assert_ne!(counts(), [0, 0], "{name}");
    }
    let world = World::new().await;
    let error = world.site.error(&world.builder().client_secret("hunter2").build()).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
}

struct Shared(std::sync::Arc<Issuer>);

impl Assertion for Shared {
    fn assertion<'a>(&'a self, request: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>> {
        self.0.assertion(request)
    }
}

/// A platform that does not answer.
struct Silent;

impl Assertion for Silent {
    fn assertion<'a>(&'a self, _: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_assertion_has_the_time_limit_of_a_login() {
    let world = World::new().await;
    let auth = world.builder().assertion(Silent).issuer(world.authorization.issuer());
    let error = world.site.error(&auth.login_limit(std::time::Duration::from_millis(100)).build()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(world.authorization.count(Endpoint::Token), 0);
}

#[tokio::test]
async fn a_login_may_have_the_largest_time_limit() {
    let world = World::new().await;
    world.site.token(&world.builder().login_limit(std::time::Duration::MAX).build()).await;
}
