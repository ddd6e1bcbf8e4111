//! Token endpoints that repeat the request in their error.

use mcp_protocol::auth::AuthorizationServerMetadata;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::json;

use super::{
    tests::{endpoint, header},
    *,
};
use crate::{
    dpop::{DpopKey, Nonces},
    registration::Source,
};

/// Starts an endpoint whose error has the whole request: as it is, decoded, and with the decoded header `Authorization`.
async fn echo() -> String {
    endpoint(|head, body| {
        let basic = header(head, "authorization:").and_then(|value| value.strip_prefix("Basic "));
        let basic = basic.map(|basic| String::from_utf8(BASE64_STANDARD.decode(basic).unwrap()).unwrap());
        let pairs: Vec<_> = form_urlencoded::parse(body).collect();
        let text = format!("{head} {} {pairs:?} {basic:?} \u{1b}[2J", String::from_utf8_lossy(body));
        (400, json!({"error": "invalid_grant", "error_description": text, "error_uri": text}).to_string())
    })
    .await
}

#[tokio::test]
async fn errors_contain_no_secret_that_the_endpoint_repeats() {
    let url = echo().await;
    let fetch = Fetch::builder().allow_loopback(true).build();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let client_key = ClientKey::from_der(der.as_ref()).unwrap();
    let issuer = AuthorizationServerMetadata::new("https://as.example").issuer;
    let (dpop_key, nonces) = (DpopKey::generate().unwrap(), Nonces::default());
    for method in
        [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost, AuthMethod::PrivateKeyJwt]
    {
        let client = Registration {
            client_id: "app".into(),
            client_secret: Some("hunter 2+/é".into()),
            secret_expires_at: None,
            method,
            redirect_uris: Vec::new(),
            source: Source::Application,
        };
        let endpoint = TokenEndpoint {
            fetch: &fetch,
            url: &url,
            name: TOKEN_ENDPOINT,
            client: &client,
            key: Some((&client_key, &issuer)),
            resource: Some("https://a.example/mcp"),
            proofs: Some(Proofs { key: &dpop_key, nonces: &nonces }),
        };
        let secret = Secret::new("hunter3+/=");
        let verifier = PkceCodeVerifier::new(format!("hunter4{}", "x".repeat(43)));
        let errors = [
            endpoint.redeem(&secret, verifier, "http://127.0.0.1:1/callback").await.unwrap_err(),
            endpoint.refresh(&secret).await.unwrap_err(),
            endpoint.client_credentials(&["a".to_owned()], None).await.unwrap_err(),
            endpoint.redeem_assertion(&secret, &[]).await.unwrap_err(),
            endpoint.redeem_device_code(&secret).await.unwrap_err(),
            endpoint.revoke(&secret, "refresh_token").await.unwrap_err(),
        ];
        for error in errors {
            let refusal = error.oauth_error().expect("the endpoint refused the request").clone();
            let description = refusal.error_description.unwrap();
            let text = format!("{error} {error:?} {description} {}", refusal.error_uri.unwrap());
            // A signed assertion and a proof begin like each JSON object in base64.
            assert!(!text.contains("hunter") && !text.contains("eyJ"), "{method:?}: {text}");
            assert!(description.contains("client_id") || method == AuthMethod::ClientSecretBasic, "{description}");
            assert!(description.ends_with("\\u{1b}[2J"), "{description}");
        }
    }
}
