//! Introspection and revocation, and clients with assertions.

use mcp_auth::jose::SigningKey;
use mcp_protocol::auth::client_assertion_type;
use serde_json::json;

use super::*;

impl Machine {
    /// Introspects a token as `service`.
    async fn introspect(&self, token: &str) -> Value {
        let form = [("token", token), ("client_id", "service"), ("client_secret", SECRET)];
        self.post("/introspect", &form, &[]).await.json
    }

    async fn revoke(&self, token: &str, client: &[(&str, &str)]) -> Answer {
        let mut form = vec![("token", token)];
        form.extend(client);
        self.post("/revoke", &form, &[]).await
    }
}

#[tokio::test]
async fn introspection_describes_valid_access_tokens() {
    for is_opaque in [false, true] {
        let builder = if is_opaque { builder().opaque_tokens() } else { builder() };
        let mut machine = Machine::new(builder);
        let tokens = machine.log_in().await;
        let token = tokens.member("access_token");
        assert_eq!(token.contains('.'), !is_opaque);
        let now = clock::seconds(machine.now);
        let mut described = object(machine.introspect(token).await);
        assert_eq!(described.remove("jti").is_some(), !is_opaque);
        let expected = json!({
            "active": true, "iss": ISSUER, "sub": "alice", "aud": [RESOURCE], "client_id": "app", "scope": "read write",
            "token_type": "Bearer", "iat": now, "exp": now + 3_600,
        });
        assert_eq!(Value::Object(described), expected);
        for inactive in ["unknown", "a.b.c", tokens.member("refresh_token"), &format!("{token}x")] {
            assert_eq!(machine.introspect(inactive).await, json!({"active": false}), "{inactive}");
        }
        machine.advance(3_600);
        assert_eq!(machine.introspect(token).await, json!({"active": false}));
    }
}

#[tokio::test]
async fn introspection_needs_a_client_with_credentials() {
    let machine = Machine::new(builder());
    for form in [
        vec![("token", "t"), ("client_id", "app")],
        vec![("token", "t"), ("client_id", "service"), ("client_secret", "wrong")],
        vec![("token", "t")],
    ] {
        assert_eq!(machine.post("/introspect", &form, &[]).await.error(), (401, "invalid_client"), "{form:?}");
    }
}

#[tokio::test]
async fn revoked_tokens_are_not_active() {
    let app = [("client_id", "app")];
    let service = [("client_id", "service"), ("client_secret", SECRET)];
    for (member, is_family_revoked) in [("access_token", false), ("refresh_token", true)] {
        let machine = Machine::new(builder());
        let tokens = machine.log_in().await;
        let token = tokens.member(member);
        assert_eq!(machine.revoke(token, &service).await.error(), (400, "invalid_grant"), "{member}");
        assert_eq!(machine.revoke(token, &[("client_id", "unknown")]).await.error(), (401, "invalid_client"));
        assert_eq!(machine.introspect(tokens.member("access_token")).await["active"], true);
        for _ in 0..2 {
            assert_eq!(machine.revoke(token, &app).await.status(), StatusCode::OK, "{member}");
        }
        assert_eq!(machine.introspect(tokens.member("access_token")).await["active"], false);
        let refreshed = machine.refresh(tokens.member("refresh_token"), &[]).await.status();
        assert_eq!(refreshed == StatusCode::BAD_REQUEST, is_family_revoked, "{member}");
    }
    assert_eq!(Machine::new(builder()).revoke("unknown", &app).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn an_assertion_authenticates_a_client_once() {
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let client = RegisteredClient::with_keys("signed", json!({"keys": [key.jwk()]}));
    let machine = Machine::new(builder().client(client));
    let now = clock::seconds(machine.now);
    let right = json!({"iss": "signed", "sub": "signed", "aud": ISSUER, "exp": now + 60, "iat": now});
    let changed = |name: &str, value: Value| {
        let mut claims = right.clone();
        claims[name] = value;
        claims
    };
    let rejected = (401, "invalid_client");
    // The client is authentic if the error is about the refresh token.
    let accepted = (400, "invalid_grant");
    for (index, (signer, claims, expected)) in [
        (&key, right.clone(), accepted),
        (&key, changed("aud", json!([format!("{ISSUER}/token")])), accepted),
        (&key, changed("aud", json!("https://other.example")), rejected),
        (&key, changed("iss", json!("app")), rejected),
        (&key, changed("sub", json!("service")), rejected),
        (&key, changed("sub", json!("unknown")), rejected),
        (&key, changed("exp", json!(now - 60)), rejected),
        (&key, changed("exp", Value::Null), rejected),
        (&key, changed("exp", json!(now + 100_000)), rejected),
        (&key, changed("nbf", json!(now + 61)), rejected),
        (&key, changed("jti", json!(1)), rejected),
        (&other, right.clone(), rejected),
    ]
    .into_iter()
    .enumerate()
    {
        let mut claims = object(claims);
        claims.entry("jti").or_insert_with(|| json!(index.to_string()));
        let assertion = signer.sign(&object(json!({"typ": "JWT"})), &claims).unwrap();
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", "unknown"),
            ("client_assertion_type", client_assertion_type::JWT_BEARER),
            ("client_assertion", assertion.as_str()),
        ];
        assert_eq!(machine.post("/token", &form, &[]).await.error(), expected, "{claims:?}");
        assert_eq!(machine.post("/token", &form, &[]).await.error(), rejected, "{claims:?}");
        let mut wrong_type = form;
        wrong_type[2].1 = "urn:unknown";
        assert_eq!(machine.post("/token", &wrong_type, &[]).await.error(), (400, "invalid_request"));
    }
}
