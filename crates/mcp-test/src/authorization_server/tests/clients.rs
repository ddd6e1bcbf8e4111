//! Metadata, registration, and authentication of clients.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;

use super::*;
use crate::authorization_server::Misbehavior;

impl Machine {
    async fn register(&self, metadata: &Value) -> Answer {
        let request = Request::post("/register").header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(metadata.to_string().into()).unwrap()).await
    }
}

#[tokio::test]
async fn the_metadata_is_at_each_well_known_path() {
    let well_known = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
    for (issuer, paths, endpoint) in [
        (ISSUER, [well_known[0], well_known[1], well_known[1]], "http://127.0.0.1:8000/token"),
        (
            "http://127.0.0.1:8000/tenant",
            [
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration",
            ],
            "http://127.0.0.1:8000/tenant/token",
        ),
    ] {
        let machine = Machine { server: builder().build(issuer).unwrap(), ..Machine::new(builder()) };
        for path in paths {
            let answer = machine.get(path).await;
            assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
            assert_eq!((answer.member("issuer"), answer.member("token_endpoint")), (issuer, endpoint));
            assert_eq!(answer.json["code_challenge_methods_supported"], json!(["S256"]));
        }
        assert_eq!(machine.get("/.well-known/oauth-authorization-server/other").await.status(), StatusCode::NOT_FOUND);
    }
    for (misbehavior, member, expected) in [
        (Misbehavior::WrongIssuer, "issuer", json!("https://wrong.example")),
        (Misbehavior::IssNotDeclared, "authorization_response_iss_parameter_supported", Value::Null),
        (Misbehavior::NoPkceMethods, "code_challenge_methods_supported", Value::Null),
    ] {
        let machine = Machine::new(builder().misbehave(misbehavior));
        assert_eq!(machine.get(well_known[0]).await.json[member], expected);
    }
}

#[tokio::test]
async fn each_endpoint_has_its_methods() {
    let machine = Machine::new(builder());
    for (path, allowed) in [("/jwks", "GET"), ("/token", "POST"), ("/register", "POST"), ("/authorize", "GET")] {
        let request = Request::delete(path).body(Bytes::new()).unwrap();
        let answer = machine.send(request).await;
        assert_eq!((answer.status(), answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some(allowed)));
        let request = Request::options(path).body(Bytes::new()).unwrap();
        let is_shared = machine.send(request).await.status() == StatusCode::NO_CONTENT;
        assert_eq!(is_shared, path != "/authorize", "{path}");
    }
    // Without documents, the URL of a document is an unknown client, and nothing is fetched.
    let closed = Machine::new(builder().no_client_documents());
    let metadata = closed.get("/.well-known/oauth-authorization-server").await.json;
    assert_eq!(metadata["client_id_metadata_document_supported"], false);
    let answer = closed.redeem("code", &[("client_id", "http://127.0.0.1:1/client.json")]).await;
    assert_eq!(answer.error(), (401, "invalid_client"));
    let json = Request::post("/token").header(header::CONTENT_TYPE, "application/json");
    assert_eq!(machine.send(json.body("{}".into()).unwrap()).await.error(), (400, "invalid_request"));
    assert_eq!(machine.get("/unknown").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_client_registers_and_logs_in() {
    let machine = Machine::new(builder());
    let metadata = json!({
        "client_name": "Test", "redirect_uris": ["http://127.0.0.1/callback"], "application_type": "native",
        "token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"], "vendor": 1,
    });
    let answer = machine.register(&metadata).await;
    assert_eq!((answer.status(), answer.header("cache-control")), (StatusCode::CREATED, Some("no-store")));
    assert_eq!(answer.json.get("client_secret"), None);
    assert_eq!(answer.json.get("vendor"), None);
    assert_eq!(answer.json["client_id_issued_at"], clock::seconds(machine.now));
    let id = answer.member("client_id");
    let code = machine.authorize(&[("client_id", id)]).await.redirected("code").unwrap();
    let tokens = machine.redeem(&code, &[("client_id", id)]).await;
    assert_eq!(machine.claims(tokens.member("access_token")).await["client_id"], id);
    assert!(tokens.json.get("refresh_token").is_some());
    machine.server.misbehave_times(Misbehavior::ForgetsClients, 1);
    let refreshed = machine.refresh(tokens.member("refresh_token"), &[("client_id", id)]).await;
    assert_eq!(refreshed.error(), (401, "invalid_client"));
    assert_eq!(machine.authorize(&[("client_id", id)]).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn registration_adds_the_defaults() {
    let machine = Machine::new(builder());
    let answer = machine.register(&json!({"redirect_uris": ["https://app.example/callback"]})).await;
    assert_eq!(answer.member("token_endpoint_auth_method"), "client_secret_basic");
    assert_eq!(answer.json["grant_types"], json!(["authorization_code"]));
    assert_eq!(answer.json["response_types"], json!(["code"]));
    assert_eq!(answer.json["client_secret_expires_at"], 0);
    // A client that did not register refresh tokens receives none.
    let (id, secret) = (answer.member("client_id"), answer.member("client_secret"));
    let uri = "https://app.example/callback";
    let code = machine.authorize(&[("client_id", id), ("redirect_uri", uri)]).await.redirected("code").unwrap();
    let form =
        [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", uri), ("code_verifier", VERIFIER)];
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
    let tokens = machine.post("/token", &form, &[("authorization", &basic)]).await;
    assert_eq!((tokens.status(), tokens.json.get("refresh_token")), (StatusCode::OK, None), "{tokens:?}");
}

#[tokio::test]
async fn invalid_registrations_are_rejected() {
    let machine = Machine::new(builder());
    let uri = "http://127.0.0.1/callback";
    for (metadata, expected) in [
        (json!({"redirect_uris": ["http://app.example/callback"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": ["javascript:alert(1)"]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({}), "invalid_redirect_uri"),
        (json!({"redirect_uris": vec![uri; 21]}), "invalid_redirect_uri"),
        (json!({"redirect_uris": [uri], "application_type": "web"}), "invalid_redirect_uri"),
        (json!({"redirect_uris": [uri], "application_type": "robot"}), "invalid_client_metadata"),
        (json!({"redirect_uris": [uri], "token_endpoint_auth_method": "magic"}), "invalid_client_metadata"),
        (json!({"redirect_uris": [uri], "response_types": ["token"]}), "invalid_client_metadata"),
        (json!({"redirect_uris": [uri], "scope": "admin"}), "invalid_client_metadata"),
        (json!({"redirect_uris": 1}), "invalid_client_metadata"),
        (json!([]), "invalid_client_metadata"),
    ] {
        assert_eq!(machine.register(&metadata).await.error(), (400, expected), "{metadata}");
    }
    let valid = json!({"redirect_uris": [uri]});
    machine.server.misbehave_times(Misbehavior::RegistrationRejected, 1);
    assert_eq!(machine.register(&valid).await.error(), (400, "invalid_client_metadata"));
    machine.server.misbehave_times(Misbehavior::OtherRedirectUris, 1);
    assert_ne!(machine.register(&valid).await.json["redirect_uris"], json!([uri]));
    assert_eq!(machine.register(&valid).await.json["redirect_uris"], json!([uri]));
    let closed = Machine::new(builder().no_registration());
    assert_eq!(closed.register(&valid).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_client_authenticates_with_its_method() {
    let machine = Machine::new(builder());
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let right = basic("service:hunter2");
    for (form, authorization, expected) in [
        (vec![], Some(right.clone()), (400, "invalid_grant")),
        (vec![("client_id", "service")], Some(right.clone()), (400, "invalid_grant")),
        (vec![("client_id", "service"), ("client_secret", SECRET)], None, (400, "invalid_grant")),
        (vec![("client_id", "app")], None, (400, "invalid_grant")),
        (vec![], None, (401, "invalid_client")),
        (vec![("client_id", "service")], None, (401, "invalid_client")),
        (vec![("client_id", "service"), ("client_secret", "wrong")], None, (401, "invalid_client")),
        (vec![("client_id", "app"), ("client_secret", SECRET)], None, (401, "invalid_client")),
        (vec![("client_id", "app")], Some(right.clone()), (400, "invalid_request")),
        (vec![("client_secret", SECRET)], Some(right), (400, "invalid_request")),
        (vec![], Some(basic("service:wrong")), (401, "invalid_client")),
        (vec![], Some(basic("unknown:hunter2")), (401, "invalid_client")),
        (vec![], Some("Bearer x".to_owned()), (401, "invalid_client")),
    ] {
        let mut all = vec![("grant_type", "refresh_token"), ("refresh_token", "unknown")];
        all.extend(&form);
        let headers: Vec<(&str, &str)> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        let answer = machine.post("/token", &all, &headers).await;
        assert_eq!(answer.error(), expected, "{form:?} {authorization:?}");
        assert_eq!(answer.header("www-authenticate").is_some(), expected.0 == 401);
        assert!(!answer.text().contains(SECRET));
    }
}
