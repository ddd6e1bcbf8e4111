//! Refusals with status 403 that name scopes.

use http::StatusCode;
use mcp_oauth::ErrorKind;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior};

use crate::common::World;

#[tokio::test]
async fn a_step_up_requests_the_union_of_the_scopes() {
    let world = World::new().await;
    let auth = world.builder().scopes(["a"]).build();
    world.site.token(&auth).await;
    world.site.require(&["b"]);
    world.site.token(&auth).await;
    world.site.require(&["c", "a"]);
    world.site.token(&auth).await;
    let scopes: Vec<_> = world
        .authorization
        .requests()
        .iter()
        .filter(|request| request.endpoint() == Endpoint::Authorization)
        .map(|request| request.parameter("scope").unwrap().to_owned())
        .collect();
    assert_eq!(scopes, ["a", "a b", "a b c"]);
    // A step-up is a login and never a refresh.
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (3, 3));
}

#[tokio::test]
async fn scopes_that_were_already_requested_end_the_step_up() {
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::NarrowScope)).await;
    let auth = world.builder().scopes(["a"]).build();
    world.site.token(&auth).await;
    world.site.require(&["b"]);
    for _ in 0..3 {
        let error = world.site.error(&auth).await;
        assert_eq!(error.kind(), ErrorKind::InsufficientScope);
        assert_eq!(error.required_scopes(), ["b"]);
    }
    assert_eq!(world.user.count(), 2);
}

#[tokio::test]
async fn other_refusals_with_403_start_no_login() {
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};
    use mcp_protocol::Challenge;

    let world = World::new().await;
    let auth = world.auth();
    for challenges in [vec![], vec![Challenge::bearer().with_scopes(["b"])], vec![Challenge::invalid_token()]] {
        let mut refusal = Refusal::new(world.site.target(), StatusCode::FORBIDDEN);
        refusal.challenges = challenges;
        assert_eq!(auth.refused(&refusal).await.unwrap(), Verdict::GiveUp);
    }
    assert_eq!(world.user.count(), 0);
}
