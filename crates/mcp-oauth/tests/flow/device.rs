//! Logins with the device flow.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_oauth::{Answer, DeviceLogin, Error, ErrorKind, Login, MemoryStore, OAuth, OAuthBuilder, UserAgent};
use mcp_protocol::auth::grant_type;
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, Endpoint, Misbehavior, RecordedRequest, RegisteredClient,
    ResponseFault,
};
use mcp_transport::BoxFuture;
use serde_json::Value;

use crate::common::{self, Site, User, World, claims_of};

/// The decision of a user who reads the code.
#[derive(Clone, Copy)]
pub(crate) enum Decision {
    Approve,
    Deny,
    /// The user closes the code.
    Decline,
    /// The user does nothing.
    Ignore,
    /// The application shows the code until the login ends.
    ApproveAndShow,
    Panic,
}

/// A user who enters codes.
#[derive(Clone)]
pub(crate) struct Reader {
    server: AuthorizationServer,
    decision: Decision,
    codes: Arc<AtomicUsize>,
    shown: Arc<Mutex<Vec<String>>>,
    /// The number of polls for which the user waits.
    polls: usize,
}

impl Reader {
    /// Returns the codes that the user read.
    pub(crate) fn user_codes(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }
}

impl UserAgent for Reader {
    fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        self.codes.fetch_add(1, Ordering::SeqCst);
        match self.decision {
            Decision::Panic => panic!("a deliberate panic before the future"),
            _ => panic!("the device flow opens no page"),
        }
    }

    fn show_code<'a>(&'a self, login: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.codes.fetch_add(1, Ordering::SeqCst);
            self.shown.lock().unwrap().push(login.user_code.clone());
            let page = format!("{}/device", self.server.issuer());
            assert_eq!(login.verification_uri.as_str(), page);
            let complete = login.verification_uri_complete.as_ref().unwrap().as_str();
            assert_eq!(complete, format!("{page}?user_code={}", login.user_code));
            assert!(!format!("{login:?}").contains(&login.user_code));
            common::until(|| self.server.count(Endpoint::Token) >= self.polls).await;
            match self.decision {
                Decision::Approve => assert!(self.server.approve_device(&login.user_code).await.unwrap()),
                Decision::ApproveAndShow => {
                    assert!(self.server.approve_device(&login.user_code).await.unwrap());
                    std::future::pending::<()>().await;
                }
                Decision::Deny => assert!(self.server.deny_device(&login.user_code).await.unwrap()),
                Decision::Decline => return Err(Error::new(ErrorKind::Denied, "the user declined")),
                Decision::Ignore => {}
                Decision::Panic => panic!("a deliberate panic"),
            }
            Ok(())
        })
    }
}

/// A world whose authorization server asks the user.
pub(crate) async fn world(builder: AuthorizationServerBuilder) -> World {
    let authorization = builder.device_interval(Duration::from_secs(1)).start().await.unwrap();
    let site = Site::start(authorization.issuer()).await;
    World { site, authorization, user: User::default() }
}

pub(crate) fn reader(world: &World, decision: Decision) -> Reader {
    let (codes, shown) = Default::default();
    Reader { server: (*world.authorization).clone(), decision, codes, shown, polls: 0 }
}

pub(crate) fn builder(world: &World, reader: &Reader) -> OAuthBuilder {
    world.builder().user_agent(reader.clone()).device_flow()
}

fn requests(world: &World, endpoint: Endpoint) -> Vec<RecordedRequest> {
    world.authorization.requests().into_iter().filter(|request| request.endpoint() == endpoint).collect()
}

#[tokio::test]
async fn a_user_logs_in_with_a_code() {
    for decision in [Decision::Approve, Decision::ApproveAndShow] {
        let world = world(AuthorizationServer::builder().scopes(["a", "offline_access"])).await;
        world.site.require(&["a"]);
        let (reader, store) = (reader(&world, decision), MemoryStore::new());
        let auth = builder(&world, &reader).authorize_param("audience", "api").store(store.clone()).build();
        let token = world.site.token(&auth).await;
        assert_eq!(world.site.token(&auth).await, token);
        let resource = world.site.endpoint.as_str();
        assert_eq!(claims_of(&token)["aud"], resource);
        let start = &requests(&world, Endpoint::DeviceAuthorization)[0];
        for (name, value) in [("scope", "a offline_access"), ("resource", resource), ("audience", "api")] {
            assert_eq!(start.parameter(name), Some(value), "{name}");
        }
        let polls = requests(&world, Endpoint::Token);
        let poll = &polls[0];
        assert_eq!(poll.parameter("grant_type"), Some(grant_type::DEVICE_CODE));
        assert_eq!(poll.parameter("resource"), Some(resource));
        assert_eq!(poll.parameter("client_id"), start.parameter("client_id"));
        let registration: Value = serde_json::from_slice(requests(&world, Endpoint::Registration)[0].body()).unwrap();
        assert_eq!(registration["grant_types"], serde_json::json!([grant_type::DEVICE_CODE, "refresh_token"]));
        assert!(registration.get("redirect_uris").is_none());

        // The refresh uses the registration of the login.
        world.site.expire(&store).await;
        world.site.token(&builder(&world, &reader).store(store).build()).await;
        let counts = [Endpoint::DeviceAuthorization, Endpoint::Registration, Endpoint::Authorization];
        assert_eq!(counts.map(|endpoint| world.authorization.count(endpoint)), [1, 1, 0]);
        assert_eq!((reader.codes.load(Ordering::SeqCst), polls.len()), (1, 1));
    }
}

#[tokio::test]
async fn the_client_polls_until_the_user_decides() {
    let world = world(AuthorizationServer::builder()).await;
    let mut reader = reader(&world, Decision::Approve);
    reader.polls = 1;
    let started = Instant::now();
    world.site.token(&builder(&world, &reader).build()).await;
    let polls = requests(&world, Endpoint::Token);
    let statuses: Vec<u16> = polls.iter().map(|poll| poll.status().as_u16()).collect();
    assert_eq!(statuses, [400, 200]);
    assert!(started.elapsed() >= Duration::from_secs(2));
}

/// A user agent that shows the code and waits.
struct Shown;

impl UserAgent for Shown {
    fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        unreachable!("the device flow opens no page")
    }

    fn show_code<'a>(&'a self, _: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn slow_down_extends_the_interval() {
    let polls = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&polls);
    // The number of the poll decides its answer, so the speed of the machine has no influence.
    let issuer = common::pages(move |request, origin| {
        let json = |status: &str, body: &str| format!("{status}\r\n\r\n{body}");
        match request {
            "GET /.well-known/oauth-authorization-server" => {
                let metadata = serde_json::json!({
                    "issuer": origin, "token_endpoint": format!("{origin}/token"),
                    "device_authorization_endpoint": format!("{origin}/device"),
                });
                json("200 OK", &metadata.to_string())
            }
            "POST /device" => {
                let codes = serde_json::json!({
                    "device_code": "hunter2", "user_code": "A", "verification_uri": format!("{origin}/page"), "interval": 1,
                });
                json("200 OK", &codes.to_string())
            }
            "POST /token" => {
                let mut polls = recorded.lock().unwrap();
                polls.push(tokio::time::Instant::now());
                match polls.len() {
                    1 => json("400 Bad Request", r#"{"error":"authorization_pending"}"#),
                    2 => json("400 Bad Request", r#"{"error":"slow_down"}"#),
                    3 => json("400 Bad Request", r#"{"error":"authorization_pending"}"#),
                    _ => json("200 OK", r#"{"access_token":"a.e30.a","token_type":"Bearer"}"#),
                }
            }
            _ => json("404 Not Found", ""),
        }
    });
    let site = Site::start(&issuer.await).await;
    let auth = OAuth::builder().user_agent(Shown).device_flow().client_id("app").build();
    let expected = [1, 6, 6].map(Duration::from_secs);
    let clock = async {
        for (number, wait) in expected.into_iter().enumerate() {
            common::until(|| polls.lock().unwrap().len() > number).await;
            // The client receives the response and begins its wait.
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::time::pause();
            tokio::time::advance(wait - Duration::from_millis(100)).await;
            tokio::time::resume();
        }
    };
    let (token, ()) = tokio::join!(site.token(&auth), clock);
    assert_eq!(token, "a.e30.a");
    let polls = polls.lock().unwrap();
    let waits: Vec<_> = polls.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.len(), expected.len());
    assert!(waits.iter().zip(expected).all(|(wait, least)| *wait >= least), "{waits:?}");
}

#[tokio::test]
async fn a_failed_login_with_a_code_has_one_error_and_one_code() {
    for (decision, kind, text) in [
        (Decision::Deny, ErrorKind::Denied, "access_denied"),
        (Decision::Decline, ErrorKind::Denied, "the user declined"),
        (Decision::Ignore, ErrorKind::LoginRequired, "did not complete the login in 2 seconds"),
        (Decision::Panic, ErrorKind::Panic, "the user agent panicked"),
    ] {
        let world = world(AuthorizationServer::builder()).await;
        let reader = reader(&world, decision);
        let limit = Duration::from_secs(if matches!(decision, Decision::Ignore) { 2 } else { 60 });
        let auth = builder(&world, &reader).login_limit(limit).build();
        let error = world.site.error(&auth).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(reader.codes.load(Ordering::SeqCst), 1, "{text}");
    }
}

#[tokio::test]
async fn a_panic_of_the_user_agent_is_its_own_error() {
    let world = World::new().await;
    let reader = reader(&world, Decision::Panic);
    let auth = world.builder().user_agent(reader.clone()).build();
    let error = world.site.error(&auth).await;
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Panic, false));
    assert_eq!(error.to_string(), "the user agent panicked");
    // The panic did not break the session.
    world.site.error(&auth).await;
    assert_eq!(reader.codes.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn faults_of_the_device_flow_are_errors_or_delays() {
    use Misbehavior::Response;
    for (misbehavior, times, expected) in [
        (Response(Endpoint::Token, ResponseFault::Status(503)), 1, None),
        (Response(Endpoint::Token, ResponseFault::Truncated), 1, Some((ErrorKind::Token, "invalid_grant"))),
        (Response(Endpoint::Token, ResponseFault::Status(404)), 1, Some((ErrorKind::Token, "404"))),
        (
            Response(Endpoint::DeviceAuthorization, ResponseFault::Html),
            1,
            Some((ErrorKind::Token, "the answer of the device authorization endpoint is not valid")),
        ),
        (
            Response(Endpoint::DeviceAuthorization, ResponseFault::Status(502)),
            1,
            Some((ErrorKind::Unavailable, "the device authorization endpoint answered with the status 502")),
        ),
        (Misbehavior::ResourceRejected, 1, Some((ErrorKind::Token, "invalid_target"))),
    ] {
        let world = world(AuthorizationServer::builder()).await;
        let reader = reader(&world, Decision::Approve);
        world.authorization.misbehave_times(misbehavior.clone(), times);
        match (world.site.call(&builder(&world, &reader).build()).await, expected) {
            (Ok(_), None) => {}
            (Err(error), Some((kind, text))) => {
                assert_eq!(error.kind(), kind, "{misbehavior:?}: {error}");
                assert!(error.to_string().contains(text), "{misbehavior:?}: {error}");
            }
            (result, _) => panic!("{misbehavior:?}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn the_device_flow_needs_its_endpoint_and_a_user_agent_that_shows_codes() {
    let world = world(AuthorizationServer::builder()).await;
    let reader = reader(&world, Decision::Approve);
    let error = world.site.error(&world.builder().device_flow().build()).await;
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    // A server of 2025-03-26 without metadata has no device flow.
    world.site.unpublish();
    let error = world.site.error(&builder(&world, &reader).build()).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("has no `device_authorization_endpoint`"), "{error}");
    assert_eq!((reader.codes.load(Ordering::SeqCst), world.user.count()), (0, 0));
}

#[tokio::test]
async fn tokens_of_the_device_flow_are_bound_to_a_key() {
    let mut world = world(AuthorizationServer::builder().require_dpop().dpop_nonces()).await;
    world.site.require_proofs();
    let reader = reader(&world, Decision::Approve);
    let token = world.site.token(&builder(&world, &reader).build()).await;
    assert!(claims_of(&token)["cnf"]["jkt"].is_string());
    let start = &requests(&world, Endpoint::DeviceAuthorization)[0];
    assert!(!start.headers().contains_key("dpop"));
}

#[tokio::test]
async fn each_flow_has_its_own_stored_registration() {
    use mcp_oauth::TokenStore as _;

    let world = World::new().await;
    let (reader, store) = (reader(&world, Decision::Ignore), MemoryStore::new());
    for _ in 0..2 {
        for auth in [builder(&world, &reader), world.builder()] {
            world.site.token(&auth.store(store.clone()).build()).await;
            store.remove(&world.site.key()).await.unwrap();
        }
    }
    assert_eq!(world.authorization.count(Endpoint::Registration), 2);
    // An authorization server that forgot the client registers it again, once.
    world.authorization.misbehave_times(Misbehavior::ForgetsClients, 1);
    world.site.token(&builder(&world, &reader).store(store).build()).await;
    assert_eq!(world.authorization.count(Endpoint::Registration), 3);
}

#[tokio::test]
async fn a_registered_client_authenticates_each_request_of_the_device_flow() {
    type Configure = Box<dyn Fn(OAuthBuilder) -> OAuthBuilder>;
    let (key, keys) = crate::machines::key();
    let cases: [(RegisteredClient, Configure); 2] = [
        (RegisteredClient::with_secret("app", "hunter2"), Box::new(|auth| auth.client_secret("hunter2"))),
        (RegisteredClient::with_keys("app", keys), Box::new(move |auth| auth.client_key(key.clone()))),
    ];
    for (client, configure) in cases {
        let world = world(AuthorizationServer::builder().no_registration().client(client)).await;
        let mut reader = reader(&world, Decision::Approve);
        reader.polls = 1;
        let build = |issuer: &str| configure(builder(&world, &reader)).client_id("app").issuer(issuer).build();
        let token = world.site.token(&build(world.authorization.issuer())).await;
        assert_eq!(claims_of(&token)["client_id"], "app");
        let polls = requests(&world, Endpoint::Token);
        assert_eq!(polls.iter().map(|poll| poll.status().as_u16()).collect::<Vec<_>>(), [400, 200]);
        let mut all = requests(&world, Endpoint::DeviceAuthorization);
        all.extend(polls);
        let mut assertions: Vec<_> = all.iter().filter_map(|request| request.parameter("client_assertion")).collect();
        let number = assertions.len();
        assertions.sort_unstable();
        assertions.dedup();
        // Each request has an assertion of its own, or each has the secret.
        assert!([0, 3].contains(&number) && assertions.len() == number, "{number}");
        // Another issuer receives no request.
        let error = world.site.error(&build("https://as.example")).await;
        assert_eq!(error.kind(), ErrorKind::Registration, "{error}");
        assert_eq!(world.authorization.count(Endpoint::DeviceAuthorization), 1);
    }
}
