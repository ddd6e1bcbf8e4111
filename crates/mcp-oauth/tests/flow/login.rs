//! Registrations and logins.

use std::time::Duration;

use http::StatusCode;
use mcp_client_http::Authorizer as _;
use mcp_fetch::Fetch;
use mcp_oauth::{ErrorKind, MemoryStore, OAuth, Revocation, TokenStore as _};
use mcp_protocol::auth::ProtectedResourceMetadata;
use mcp_test::authorization_server::{
    AuthorizationServer, Endpoint, Misbehavior, RecordedRequest, RegisteredClient, ResponseFault,
};
use serde_json::{Value, json};
use url::Url;

use crate::common::{Site, User, World, claims_of};

fn requests(world: &World, endpoint: Endpoint) -> Vec<RecordedRequest> {
    world.authorization.requests().into_iter().filter(|request| request.endpoint() == endpoint).collect()
}

#[tokio::test]
async fn a_user_logs_in_once_for_all_requests() {
    for pastes in [false, true] {
        let mut world = World::new().await;
        world.user.pastes = pastes;
        let auth = world.auth();
        let token = world.site.token(&auth).await;
        assert_eq!(world.site.token(&auth).await, token);
        assert_eq!(world.user.count(), 1);
        // The client requested no scopes, and the authorization server did not name the granted ones.
        let login = auth.stored_login(&world.site.endpoint).await.unwrap().unwrap();
        assert_eq!((login.scopes.len(), login.granted_scopes), (0, None));
        let resource = world.site.endpoint.as_str();
        assert_eq!(claims_of(&token)["aud"], resource);

        let registration: Value = serde_json::from_slice(requests(&world, Endpoint::Registration)[0].body()).unwrap();
        let redirect = registration["redirect_uris"][0].as_str().unwrap().to_owned();
        let expected = json!({
            "client_name": "Test", "redirect_uris": [redirect], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "application_type": "native"
        });
        assert_eq!(registration, expected);
        assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"));

        let pages = requests(&world, Endpoint::Authorization);
        let page = &pages[0];
        for (name, value) in [
            ("response_type", "code"),
            ("code_challenge_method", "S256"),
            ("resource", resource),
            ("redirect_uri", &redirect),
        ] {
            assert_eq!(page.parameter(name), Some(value), "{name}");
        }
        assert!(page.parameter("state").unwrap().len() >= 43 && page.parameter("scope").is_none());
        assert!(page.parameter("dpop_jkt").is_none());
        let exchanges = requests(&world, Endpoint::Token);
        let exchange = &exchanges[0];
        assert_eq!((pages.len(), exchanges.len()), (1, 1));
        assert_eq!(exchange.parameter("resource"), Some(resource));
        assert!(exchange.parameter("code_verifier").unwrap().len() >= 43);
    }
}

#[tokio::test]
async fn the_resource_has_the_spelling_of_the_metadata_in_each_request() {
    for (path, from_origin) in [("", true), ("/", true), ("", false), ("/", false)] {
        let world = World::new().await;
        let (origin, endpoint) = (world.site.endpoint.origin().ascii_serialization(), world.site.endpoint.as_str());
        let resource = format!("{}{path}", if from_origin { &origin } else { endpoint });
        world.site.publish(ProtectedResourceMetadata::new(&resource, [world.authorization.issuer()]));
        let store = MemoryStore::new();
        world.site.token(&world.builder().store(store.clone()).build()).await;
        world.site.expire(&store).await;
        world.site.token(&world.builder().store(store).build()).await;
        let sent: Vec<_> = [Endpoint::Authorization, Endpoint::Token]
            .into_iter()
            .flat_map(|endpoint| requests(&world, endpoint))
            .map(|request| request.parameter("resource").map(str::to_owned))
            .collect();
        // The page, the code and the refresh token.
        assert_eq!(sent, vec![Some(resource); 3]);
        assert_eq!(world.user.count(), 1);
    }
}

#[tokio::test]
async fn a_login_without_a_response_forgets_its_stored_registration() {
    let world = World::new().await;
    let store = MemoryStore::new();
    world.site.token(&world.builder().store(store.clone()).build()).await;
    // The authorization server forgot the client. It shows an error page, and the user closes it.
    store.remove(&world.site.key()).await.unwrap();
    let absent = User { delay: Duration::from_secs(60), ..world.user.clone() };
    let auth = world.builder().user_agent(absent).login_limit(Duration::from_millis(50)).store(store.clone()).build();
    assert_eq!(world.site.error(&auth).await.kind(), ErrorKind::LoginRequired);
    assert_eq!(world.authorization.count(Endpoint::Registration), 1);
    world.site.token(&world.builder().store(store).build()).await;
    assert_eq!(world.authorization.count(Endpoint::Registration), 2);
}

#[tokio::test]
async fn requested_scopes_are_those_of_the_challenge_then_of_the_metadata() {
    for (offered, challenged, documented, own, expected) in [
        (&[][..], &[][..], &[][..], &[][..], None),
        (&["a", "b"], &[], &["a"], &[], Some("a")),
        (&["a", "b"], &["b"], &["a"], &[], Some("b")),
        (&["a", "b"], &[], &["a"], &["b", "a"], Some("a b")),
        (&["a", "offline_access"], &[], &["a"], &[], Some("a offline_access")),
        (&["a", "offline_access"], &[], &[], &[], None),
    ] {
        let world = World::with(AuthorizationServer::builder().scopes(offered.iter().copied())).await;
        let document = ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [world.authorization.issuer()]);
        world.site.publish(document.with_scopes(documented.iter().copied()));
        world.site.require(challenged);
        world.site.token(&world.builder().scopes(own.iter().copied()).build()).await;
        assert_eq!(requests(&world, Endpoint::Authorization)[0].parameter("scope"), expected, "{offered:?}");
    }
}

#[tokio::test]
async fn redirect_uris_of_applications_have_https_or_this_machine() {
    for (uri, is_valid) in [
        ("http://127.0.0.1:9/cb", true),
        ("http://localhost:9/cb", true),
        ("https://app.example/cb", true),
        ("http://app.example/cb", false),
        ("com.example:/cb", false),
        ("javascript:alert(1)", false),
        ("https://app.example/cb#f", false),
        ("/cb", false),
    ] {
        let mut world = World::new().await;
        world.user.pastes = true;
        let result = world.site.call(&world.builder().redirect_uri(uri).build()).await;
        match result {
            Ok(_) => assert!(is_valid, "{uri}"),
            Err(error) => assert!(!is_valid && error.kind() == ErrorKind::Configuration, "{uri}: {error}"),
        }
        assert_eq!(world.user.count(), usize::from(is_valid), "{uri}");
    }
}

#[tokio::test]
async fn a_registered_client_needs_no_registration() {
    let client = || RegisteredClient::with_secret("app", "hunter2").redirect_uri("http://127.0.0.1/callback");
    let world = World::with(AuthorizationServer::builder().no_registration().client(client())).await;
    let auth = world.builder().client_id("app").client_secret("hunter2").issuer(world.authorization.issuer()).build();
    assert_eq!(claims_of(&world.site.token(&auth).await)["client_id"], "app");

    let error = world.site.error(&world.auth()).await;
    assert_eq!(error.kind(), ErrorKind::Registration, "{error}");
    let foreign = world.builder().client_id("app").issuer("https://as.example").build();
    assert_eq!(world.site.error(&foreign).await.kind(), ErrorKind::Registration);
    let wrong = world.builder().client_id("app").client_secret("hunter3").issuer(world.authorization.issuer()).build();
    let error = world.site.error(&wrong).await;
    assert_eq!(error.oauth_error().unwrap().error, "invalid_client");
    assert!(!error.to_string().contains("hunter3"));
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    let authorization = AuthorizationServer::builder().auto_approve().start().await.unwrap();
    let user = User::default();
    let mut site = Site::start(authorization.issuer()).await;
    site.endpoint = Url::parse(&format!("{}/mcp", authorization.issuer())).unwrap();
    let auth = OAuth::builder().user_agent(user.clone()).build();
    site.token(&auth).await;
    assert_eq!(user.count(), 1);
}

#[tokio::test]
async fn a_stored_registration_is_used_again() {
    let world = World::new().await;
    let store = MemoryStore::new();
    for _ in 0..2 {
        world.site.token(&world.builder().store(store.clone()).build()).await;
        store.remove(&world.site.key()).await.unwrap();
    }
    assert_eq!((world.authorization.count(Endpoint::Registration), world.user.count()), (1, 2));
}

#[tokio::test]
async fn a_later_registration_keeps_that_of_the_tokens() {
    let world = World::new().await;
    let store = MemoryStore::new();
    world.site.token(&world.builder().store(store.clone()).build()).await;
    let tokens = store.load(&world.site.key()).await.unwrap().unwrap();
    let id = |record: &str| serde_json::from_str::<Value>(record).unwrap()["client_id"].clone();
    let first = id(tokens.expose());
    let key = format!("client/{}", world.authorization.issuer());
    let own = format!("{key} {}", first.as_str().unwrap());
    assert_eq!(id(store.load(&own).await.unwrap().unwrap().expose()), first);
    // A login with another redirect URI needs a registration of its own.
    store.remove(&world.site.key()).await.unwrap();
    let mut other = world.user.clone();
    other.pastes = true;
    let auth = world.builder().user_agent(other).redirect_uri("http://127.0.0.1:9/cb").store(store.clone()).build();
    world.site.token(&auth).await;
    let latest = id(store.load(&key).await.unwrap().unwrap().expose());
    assert!(latest != first && store.load(&own).await.unwrap().is_some());
    assert_eq!(world.authorization.count(Endpoint::Registration), 2);
    // The refresh of the first tokens authenticates with the first registration.
    store.save(&world.site.key(), &tokens).await.unwrap();
    let mut record: Value = serde_json::from_str(store.load(&own).await.unwrap().unwrap().expose()).unwrap();
    record["method"] = "client_secret_post".into();
    record["client_secret"] = "hunter2".into();
    store.save(&own, &record.to_string().as_str().into()).await.unwrap();
    world.site.expire(&store).await;
    let _ = world.site.call(&world.builder().store(store.clone()).build()).await;
    let refreshes: Vec<_> = requests(&world, Endpoint::Token)
        .into_iter()
        .filter(|request| request.parameter("grant_type") == Some("refresh_token"))
        .collect();
    assert_eq!(refreshes[0].parameter("client_id"), first.as_str());
    assert_eq!(refreshes[0].parameter("client_secret"), Some("hunter2"));
}

#[tokio::test]
async fn the_fragment_of_a_url_is_not_a_part_of_its_session() {
    let mut world = World::new().await;
    let auth = world.auth();
    let plain = world.site.endpoint.clone();
    let mut tokens = Vec::new();
    for fragment in [None, Some("a"), Some("b"), None] {
        world.site.endpoint = plain.clone();
        world.site.endpoint.set_fragment(fragment);
        tokens.push(world.site.token(&auth).await);
        assert!(auth.stored_login(&world.site.endpoint).await.unwrap().is_some());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), world.user.count()), (1, 1));
    assert_eq!(format!("{auth:?}"), "OAuth { servers: 1, .. }");
}

#[tokio::test]
async fn a_new_issuer_gets_a_new_registration() {
    let world = World::new().await;
    let second = AuthorizationServer::builder().auto_approve().start().await.unwrap();
    let auth = world.auth();
    let first = world.site.token(&auth).await;
    world.site.publish(ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [second.issuer()]));
    world.site.revoke(&first);
    let token = world.site.token(&auth).await;
    assert_eq!(claims_of(&token)["iss"], second.issuer());
    assert_eq!((second.count(Endpoint::Registration), second.count(Endpoint::Token)), (1, 1));
    // The refresh token of the first issuer is not sent to any issuer.
    assert_eq!(world.authorization.count(Endpoint::Token), 1);
}

#[tokio::test]
async fn a_configured_issuer_is_used_without_a_registered_client() {
    let world = World::new().await;
    let second = AuthorizationServer::builder().auto_approve().start().await.unwrap();
    let issuers = [world.authorization.issuer(), second.issuer()];
    world.site.publish(ProtectedResourceMetadata::new(world.site.endpoint.as_str(), issuers));
    let token = world.site.token(&world.builder().issuer(second.issuer()).build()).await;
    assert_eq!(claims_of(&token)["iss"], second.issuer());
    let error = world.site.error(&world.builder().issuer("https://as.example").build()).await;
    assert_eq!(error.kind(), ErrorKind::Registration, "{error}");
    assert_eq!(world.authorization.count(Endpoint::Registration), 0);
}

#[tokio::test]
async fn an_outage_of_the_own_issuer_does_not_replace_it() {
    let world = World::new().await;
    let second = AuthorizationServer::builder().auto_approve().start().await.unwrap();
    let auth = world.auth();
    let first = world.site.token(&auth).await;
    let issuers = [second.issuer(), world.authorization.issuer()];
    world.site.publish(ProtectedResourceMetadata::new(world.site.endpoint.as_str(), issuers));
    world.site.revoke(&first);
    world.authorization.misbehave(Misbehavior::Response(Endpoint::Metadata, ResponseFault::Status(503)));
    assert_eq!(world.site.error(&auth).await.kind(), ErrorKind::Unavailable);
    world.authorization.behave();
    assert_eq!(claims_of(&world.site.token(&auth).await)["iss"], world.authorization.issuer());
    assert_eq!(second.count(Endpoint::Registration), 0);
}

#[tokio::test]
async fn the_list_of_issuers_is_read_up_to_a_limit() {
    let world = World::new().await;
    let wrong = AuthorizationServer::builder().misbehave(Misbehavior::WrongIssuer).start().await.unwrap();
    for (number, is_found) in [(4, true), (5, false)] {
        // Each entry has another path, and none has metadata.
        let mut issuers: Vec<_> = (0..number).map(|tenant| format!("{}/{tenant}", wrong.issuer())).collect();
        issuers.push(world.authorization.issuer().to_owned());
        world.site.publish(ProtectedResourceMetadata::new(world.site.endpoint.as_str(), issuers));
        match world.site.call(&world.auth()).await {
            Ok(_) => assert!(is_found, "{number}"),
            Err(error) => assert!(!is_found && error.kind() == ErrorKind::Discovery, "{number}: {error}"),
        }
    }
}

#[tokio::test]
async fn the_end_of_a_session_starts_no_login() {
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};

    let world = World::new().await;
    let mut target = world.site.target();
    target.method = http::Method::DELETE;
    let verdict = world.auth().refused(&Refusal::new(target, StatusCode::UNAUTHORIZED)).await.unwrap();
    assert_eq!((verdict, world.user.count()), (Verdict::GiveUp, 0));
}

#[tokio::test]
async fn the_requests_of_an_http_client_replace_the_default_ones() {
    let world = World::new().await;
    let endpoint = &world.site.endpoint;
    for number in 0..4 {
        let auth = world.auth();
        match number {
            0 => {}
            1 => assert!(auth.stored_login(endpoint).await.unwrap().is_none()),
            2 => assert!(matches!(auth.log_out(endpoint).await.unwrap(), Revocation::NoLogin)),
            _ => assert!(auth.explain(endpoint).await.unwrap().error.is_none()),
        }
        let count = world.authorization.requests().len();
        // The default requests reach this machine, and those of the HTTP client do not.
        auth.attach(endpoint, &Fetch::builder().build());
        world.site.error(&auth).await;
        assert_eq!(world.authorization.requests().len(), count, "{number}");
        // The first HTTP client decides.
        auth.attach(endpoint, &Fetch::builder().allow_loopback(true).build());
        world.site.error(&auth).await;
        // The setting of the application has precedence.
        let auth = world.builder().fetch(Fetch::builder().allow_loopback(true).build()).build();
        auth.attach(endpoint, &Fetch::builder().build());
        world.site.token(&auth).await;
    }
}
