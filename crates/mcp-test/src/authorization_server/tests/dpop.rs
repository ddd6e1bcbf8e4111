//! Tokens that are bound to a key.

use mcp_auth::jose::{self, SigningKey};
use serde_json::json;

use super::*;
use crate::authorization_server::Misbehavior;

/// Signs a proof for the token endpoint, with some claims in the place of the usual ones.
fn proof(machine: &Machine, key: &SigningKey, changes: &[(&str, Value)]) -> String {
    let mut claims = object(json!({
        "htm": "POST", "htu": format!("{ISSUER}/token"), "iat": clock::seconds(machine.now),
        "jti": jose::random_text().unwrap(),
    }));
    claims.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    key.sign(&object(json!({"typ": "dpop+jwt", "jwk": key.jwk()})), &claims).unwrap()
}

/// Redeems a code with proofs.
async fn redeem(machine: &Machine, code: &str, proofs: &[&str]) -> Answer {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT_URI),
        ("code_verifier", VERIFIER),
        ("client_id", "app"),
    ];
    let headers: Vec<(&str, &str)> = proofs.iter().map(|proof| ("dpop", *proof)).collect();
    machine.post("/token", &form, &headers).await
}

async fn refresh(machine: &Machine, token: &str, proof: Option<&str>) -> Answer {
    let form = [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", "app")];
    let headers: Vec<(&str, &str)> = proof.iter().map(|proof| ("dpop", *proof)).collect();
    machine.post("/token", &form, &headers).await
}

#[tokio::test]
async fn a_proof_binds_the_tokens_to_its_key() {
    let machine = Machine::new(builder());
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let tokens = redeem(&machine, &machine.code().await, &[&proof(&machine, &key, &[])]).await;
    assert_eq!(tokens.member("token_type"), "DPoP");
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!(claims["cnf"]["jkt"], key.thumbprint());
    let form = [("token", tokens.member("access_token")), ("client_id", "service"), ("client_secret", SECRET)];
    let described = machine.post("/introspect", &form, &[]).await.json;
    assert_eq!((&described["cnf"]["jkt"], &described["token_type"]), (&json!(key.thumbprint()), &json!("DPoP")));
    // The refresh token of a client without credentials is bound too.
    let token = tokens.member("refresh_token");
    assert_eq!(refresh(&machine, token, None).await.error(), (400, "invalid_grant"));
    assert_eq!(refresh(&machine, token, Some(&proof(&machine, &other, &[]))).await.error(), (400, "invalid_grant"));
    let refreshed = refresh(&machine, token, Some(&proof(&machine, &key, &[]))).await;
    assert_eq!(refreshed.member("token_type"), "DPoP");
}

#[tokio::test]
async fn invalid_proofs_are_rejected() {
    let machine = Machine::new(builder());
    let key = SigningKey::generate().unwrap();
    let now = clock::seconds(machine.now);
    let code = machine.code().await;
    let invalid = (400, "invalid_dpop_proof");
    for changes in [
        vec![("htm", json!("GET"))],
        vec![("htu", json!(format!("{ISSUER}/other")))],
        vec![("iat", json!(now - 301))],
        vec![("iat", json!(now + 301))],
        vec![("jti", json!(""))],
        vec![("jti", json!(1))],
    ] {
        let proof = proof(&machine, &key, &changes);
        assert_eq!(redeem(&machine, &code, &[&proof]).await.error(), invalid, "{changes:?}");
    }
    let (first, second) = (proof(&machine, &key, &[]), proof(&machine, &key, &[]));
    assert_eq!(redeem(&machine, &code, &[&first, &second]).await.error(), invalid);
    assert_eq!(redeem(&machine, &code, &["x.y.z"]).await.error(), invalid);
    assert_eq!(redeem(&machine, &code, &[&first]).await.status(), StatusCode::OK);
    let replayed = redeem(&machine, &machine.code().await, &[&first]).await;
    assert_eq!(replayed.error(), invalid);
}

#[tokio::test]
async fn a_code_can_be_bound_to_a_key() {
    let machine = Machine::new(builder());
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let code = machine.authorize(&[("dpop_jkt", key.thumbprint())]).await.redirected("code").unwrap();
    assert_eq!(redeem(&machine, &code, &[]).await.error(), (400, "invalid_grant"));
    let wrong = redeem(&machine, &code, &[&proof(&machine, &other, &[])]).await;
    assert_eq!(wrong.error(), (400, "invalid_grant"));
    assert_eq!(redeem(&machine, &code, &[&proof(&machine, &key, &[])]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn proofs_need_a_fresh_nonce_if_the_server_demands_it() {
    let mut machine = Machine::new(builder().dpop_nonces().require_dpop());
    let key = SigningKey::generate().unwrap();
    let code = machine.code().await;
    assert_eq!(redeem(&machine, &code, &[]).await.error(), (400, "invalid_dpop_proof"));
    let answer = redeem(&machine, &code, &[&proof(&machine, &key, &[])]).await;
    assert_eq!(answer.error(), (400, "use_dpop_nonce"));
    let nonce = json!(answer.header("dpop-nonce").unwrap());
    let guessed = proof(&machine, &key, &[("nonce", json!("guessed"))]);
    assert_eq!(redeem(&machine, &code, &[&guessed]).await.error(), (400, "use_dpop_nonce"));
    let tokens = redeem(&machine, &code, &[&proof(&machine, &key, &[("nonce", nonce.clone())])]).await;
    assert_eq!(tokens.status(), StatusCode::OK, "{tokens:?}");
    assert!(tokens.header("dpop-nonce").is_some());
    machine.advance(240);
    let late = proof(&machine, &key, &[("nonce", nonce)]);
    let late = refresh(&machine, tokens.member("refresh_token"), Some(&late)).await;
    assert_eq!(late.error(), (400, "use_dpop_nonce"));
}

#[tokio::test]
async fn a_nonce_loop_accepts_no_proof() {
    let machine = Machine::new(builder().misbehave(Misbehavior::NonceLoop));
    let key = SigningKey::generate().unwrap();
    let code = machine.code().await;
    let mut nonce = json!("first");
    for _ in 0..3 {
        let answer = redeem(&machine, &code, &[&proof(&machine, &key, &[("nonce", nonce.clone())])]).await;
        assert_eq!(answer.error(), (400, "use_dpop_nonce"));
        let next = json!(answer.header("dpop-nonce").unwrap());
        assert_ne!(next, nonce);
        nonce = next;
    }
    machine.server.behave();
    assert_eq!(redeem(&machine, &code, &[&proof(&machine, &key, &[])]).await.status(), StatusCode::OK);
}
