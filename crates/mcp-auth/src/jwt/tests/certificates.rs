//! Tokens that are bound to a client certificate (RFC 8705 §3).

use ring::digest;

use super::*;

const CERTIFICATE: &[u8] = b"the certificate of the client";

async fn check_over(jwt: &Jwt, token: &str, certificate: Option<&[u8]>) -> Result<String, Rejection> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
    let request = certificate.map_or(request, |der| request.with_client_certificate(der));
    Authenticator::authenticate(jwt, &request).await.map(|authenticated| authenticated.principal.subject.clone())
}

#[tokio::test]
async fn bound_tokens_need_the_certificate_of_the_connection() {
    let thumbprint = encode(digest::digest(&digest::SHA256, CERTIFICATE));
    let bound = json!({"x5t#S256": thumbprint});
    let also_dpop = json!({"x5t#S256": thumbprint, "jkt": "k"});
    let padded = json!({"x5t#S256": format!("{thumbprint}=")});
    for (name, confirmation, certificate, is_accepted) in [
        ("the bound certificate", &bound, Some(CERTIFICATE), true),
        ("another certificate", &bound, Some(&b"the certificate of a thief"[..]), false),
        ("no certificate", &bound, None, false),
        ("an empty certificate", &bound, Some(&[][..]), false),
        ("a thumbprint in another form", &padded, Some(CERTIFICATE), false),
        ("a DPoP key without a proof", &also_dpop, Some(CERTIFICATE), false),
        ("a thumbprint that is not a text", &json!({"x5t#S256": 1}), Some(CERTIFICATE), false),
    ] {
        let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap());
        let token = Signer::Secret(SECRET).token("any", &changed("cnf", confirmation));
        let expected = if is_accepted { Ok("user-7".to_owned()) } else { Err(Rejection::Invalid) };
        // The second request has a remembered result.
        for _ in 0..2 {
            assert_eq!(check_over(&jwt, &token, certificate).await, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_remembered_token_is_compared_with_each_certificate() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap());
    let thumbprint = encode(digest::digest(&digest::SHA256, CERTIFICATE));
    let token = Signer::Secret(SECRET).token("any", &changed("cnf", &json!({"x5t#S256": thumbprint})));
    assert_eq!(check_over(&jwt, &token, Some(CERTIFICATE)).await.as_deref(), Ok("user-7"));
    assert_eq!(check_over(&jwt, &token, Some(b"another")).await, Err(Rejection::Invalid));
    assert_eq!(check_over(&jwt, &token, None).await, Err(Rejection::Invalid));
    assert_eq!(check_over(&jwt, &token, Some(CERTIFICATE)).await.as_deref(), Ok("user-7"));
}
