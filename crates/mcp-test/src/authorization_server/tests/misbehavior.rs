//! Deliberate faults of tokens and of responses.

use serde_json::json;

use super::*;
use crate::authorization_server::{Endpoint, Misbehavior, ResponseFault};

#[tokio::test]
async fn faults_of_token_responses_occur() {
    for (misbehavior, member, expected) in [
        (Misbehavior::WrongTokenType, "token_type", json!("mac")),
        (Misbehavior::NoExpiresIn, "expires_in", Value::Null),
        (Misbehavior::ExpiredTokens, "expires_in", json!(0)),
        (Misbehavior::NarrowScope, "scope", json!("read")),
    ] {
        let machine = Machine::new(builder());
        machine.server.misbehave_times(misbehavior, 1);
        let tokens = machine.log_in().await;
        assert_eq!((tokens.status(), &tokens.json[member]), (StatusCode::OK, &expected), "{member}");
        assert_ne!(machine.log_in().await.json[member], expected, "{member}");
    }
}

#[tokio::test]
async fn faults_of_tokens_occur() {
    let machine = Machine::new(builder().misbehave(Misbehavior::ExpiredTokens));
    let claims = machine.claims(machine.log_in().await.member("access_token")).await;
    assert_eq!(claims["exp"], claims["iat"]);

    let machine = Machine::new(builder().misbehave(Misbehavior::RotatesKeys));
    let first = machine.log_in().await;
    let second = machine.log_in().await;
    let keys = machine.get("/jwks").await.json;
    let verify = |answer: &Answer| mcp_auth::jose::verify(&keys, answer.member("access_token"), None).is_ok();
    assert_eq!((verify(&first), verify(&second)), (false, true));

    let machine = Machine::new(builder().misbehave(Misbehavior::RefreshRejected));
    let tokens = machine.log_in().await;
    assert_eq!(machine.refresh(tokens.member("refresh_token"), &[]).await.error(), (400, "invalid_grant"));
    machine.server.behave();
    assert_eq!(machine.refresh(tokens.member("refresh_token"), &[]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_faulty_response_does_not_use_up_a_code() {
    for (fault, status) in [
        (ResponseFault::Status(500), 500),
        (ResponseFault::Unavailable { retry_after: Duration::from_secs(3) }, 503),
        (ResponseFault::Html, 200),
        (ResponseFault::Redirect("https://other.example/token".to_owned()), 307),
        (ResponseFault::Huge, 200),
    ] {
        let machine = Machine::new(builder());
        let code = machine.code().await;
        machine.server.misbehave_times(Misbehavior::Response(Endpoint::Token, fault.clone()), 1);
        let faulty = machine.redeem(&code, &[]).await;
        assert_eq!((faulty.status().as_u16(), faulty.json.get("access_token")), (status, None), "{fault:?}");
        assert_eq!(machine.redeem(&code, &[]).await.status(), StatusCode::OK, "{fault:?}");
    }
}

#[tokio::test]
async fn a_truncated_response_uses_up_the_refresh_token() {
    let machine = Machine::new(builder());
    let tokens = machine.log_in().await;
    machine.server.misbehave_times(Misbehavior::Response(Endpoint::Token, ResponseFault::Truncated), 1);
    let lost = machine.refresh(tokens.member("refresh_token"), &[]).await;
    // The client can repeat the request, because the successor was not used.
    let repeated = machine.refresh(tokens.member("refresh_token"), &[]).await;
    assert_eq!(repeated.member("refresh_token"), lost.member("refresh_token"));
}
