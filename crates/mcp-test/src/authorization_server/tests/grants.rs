//! Client credentials, token exchange, and assertions of trusted issuers.

use mcp_auth::jose::SigningKey;
use mcp_protocol::auth::{grant_type, token_type};
use serde_json::json;

use super::*;
use crate::authorization_server::issue::Issue;

const IDP: &str = "http://127.0.0.1:8100";
const CREDENTIALS: [(&str, &str); 2] = [("client_id", "service"), ("client_secret", SECRET)];

impl Machine {
    async fn token(&self, usual: &[(&str, &str)], changes: &[(&str, &str)]) -> Answer {
        self.post("/token", &changed(usual, changes), &[]).await
    }
}

#[tokio::test]
async fn a_client_with_credentials_receives_a_token_for_itself() {
    let machine = Machine::new(builder());
    let usual = [("grant_type", "client_credentials"), CREDENTIALS[0], CREDENTIALS[1], ("resource", RESOURCE)];
    let tokens = machine.token(&usual, &[("scope", "read")]).await;
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!(tokens.json.get("refresh_token"), None);
    assert_eq!(
        (&claims["sub"], &claims["aud"], &claims["scope"]),
        (&json!("service"), &json!(RESOURCE), &json!("read"))
    );
    for (changes, expected) in [
        (vec![("client_secret", "wrong")], (401, "invalid_client")),
        (vec![("client_id", "app"), ("client_secret", "")], (400, "unauthorized_client")),
        (vec![("scope", "admin")], (400, "invalid_scope")),
        (vec![("resource", "x")], (400, "invalid_target")),
    ] {
        assert_eq!(machine.token(&usual, &changes).await.error(), expected, "{changes:?}");
    }
}

#[tokio::test]
async fn an_access_token_is_exchanged_for_another_audience() {
    let machine = Machine::new(builder());
    let subject = machine.log_in().await.member("access_token").to_owned();
    let usual = [
        ("grant_type", grant_type::TOKEN_EXCHANGE),
        CREDENTIALS[0],
        CREDENTIALS[1],
        ("subject_token", subject.as_str()),
        ("subject_token_type", token_type::ACCESS_TOKEN),
        ("audience", "https://upstream.example"),
        ("scope", "read"),
    ];
    let tokens = machine.token(&usual, &[]).await;
    assert_eq!(tokens.member("issued_token_type"), token_type::ACCESS_TOKEN);
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("alice"), &json!("https://upstream.example")));
    assert_eq!((&claims["client_id"], &claims["scope"]), (&json!("service"), &json!("read")));
    for (changes, expected) in [
        (vec![("subject_token", "unknown")], (400, "invalid_request")),
        (vec![("subject_token", "")], (400, "invalid_request")),
        (vec![("subject_token_type", token_type::SAML2)], (400, "invalid_request")),
        (vec![("requested_token_type", token_type::SAML2)], (400, "invalid_request")),
        (vec![("actor_token", "x")], (400, "invalid_request")),
        (vec![("scope", "read admin")], (400, "invalid_scope")),
        (vec![("client_id", "app"), ("client_secret", "")], (400, "unauthorized_client")),
    ] {
        assert_eq!(machine.token(&usual, &changes).await.error(), expected, "{changes:?}");
    }
}

#[tokio::test]
async fn an_id_token_becomes_an_id_jag_and_then_a_token() {
    let idp = builder().build(IDP).unwrap();
    let machine = Machine::new(builder().resources([RESOURCE]).trust_issuer(IDP, idp.key_set()));
    let id_token = idp.inner.id_token("alice", "service", machine.now).unwrap();
    let idp = Machine { server: idp, now: machine.now };
    let exchange = [
        ("grant_type", grant_type::TOKEN_EXCHANGE),
        CREDENTIALS[0],
        CREDENTIALS[1],
        ("requested_token_type", token_type::ID_JAG),
        ("subject_token", id_token.as_str()),
        ("subject_token_type", token_type::ID_TOKEN),
        ("audience", ISSUER),
        ("resource", RESOURCE),
        ("scope", "read"),
    ];
    let id_jag = idp.token(&exchange, &[]).await;
    assert_eq!((id_jag.member("token_type"), id_jag.member("issued_token_type")), ("N_A", token_type::ID_JAG));
    let app = [("client_id", "app"), ("client_secret", "")];
    assert_eq!(idp.token(&exchange, &app).await.error(), (400, "invalid_request"));
    let assertion = id_jag.member("access_token");
    let redeem = [("grant_type", grant_type::JWT_BEARER), CREDENTIALS[0], CREDENTIALS[1], ("assertion", assertion)];
    assert_eq!(machine.token(&redeem, &app).await.error(), (400, "invalid_grant"));
    let without_client = [("client_id", ""), ("client_secret", "")];
    assert_eq!(machine.token(&redeem, &without_client).await.error(), (401, "invalid_client"));
    let other = [("resource", "https://other.example")];
    assert_eq!(machine.token(&redeem, &other).await.error(), (400, "invalid_target"));
    let tokens = machine.token(&redeem, &[("resource", RESOURCE)]).await;
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!((&claims["sub"], &claims["aud"], &claims["scope"]), (&json!("alice"), &json!(RESOURCE), &json!("read")));
    assert_eq!(tokens.json.get("refresh_token"), None);
    // An assertion is valid once.
    assert_eq!(machine.token(&redeem, &[]).await.error(), (400, "invalid_grant"));
}

#[tokio::test]
async fn a_workload_redeems_its_assertion_without_a_client_id() {
    let key = SigningKey::generate().unwrap();
    let keys = json!({"keys": [key.jwk()]});
    let machine = Machine::new(builder().trust_issuer("https://cluster.example", keys));
    let now = clock::seconds(machine.now);
    let sign = |changes: Value| {
        let mut claims = object(json!({
            "iss": "https://cluster.example", "sub": "workload", "aud": format!("{ISSUER}/token"), "exp": now + 60,
            "iat": now, "jti": mcp_auth::jose::random_text().unwrap(),
        }));
        claims.extend(object(changes));
        key.sign(&object(json!({"typ": "JWT"})), &claims).unwrap()
    };
    let usual = [("grant_type", grant_type::JWT_BEARER), ("resource", RESOURCE)];
    let redeem = async |assertion: &str| machine.token(&usual, &[("assertion", assertion)]).await;
    let tokens = redeem(&sign(json!({}))).await;
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!((&claims["sub"], &claims["client_id"]), (&json!("workload"), &json!("workload")));
    for changes in [
        json!({"iss": "https://other.example"}),
        json!({"iss": ISSUER}),
        json!({"aud": "https://other.example"}),
        json!({"exp": now - 60}),
        json!({"exp": null}),
        json!({"iat": now + 61}),
        json!({"sub": null}),
        json!({"jti": null}),
    ] {
        assert_eq!(redeem(&sign(changes.clone())).await.error(), (400, "invalid_grant"), "{changes}");
    }
    // An access token of this server is not an assertion.
    let issue = Issue {
        grant: None,
        client_id: "app".to_owned(),
        subject: "alice".to_owned(),
        scopes: Vec::new(),
        audience: vec![ISSUER.to_owned()],
        jkt: None,
    };
    let token = machine.server.inner.issue(issue, machine.now).await.unwrap().token;
    let answer = redeem(&token).await;
    assert_eq!(answer.member("error_description"), "an access token is not an assertion");
}
