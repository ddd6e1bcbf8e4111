//! Tokens that must be rejected.

use super::*;

#[tokio::test]
async fn forged_and_misused_tokens_are_rejected() {
    let (es, ed, rs) = (Signer::es256(), Signer::ed25519(), Signer::rsa("RS256"));
    let stranger = Signer::es256();
    let long = "k".repeat(10_000);
    let keys = json!({"keys": [es.jwk("es"), ed.jwk("ed"), rs.jwk("rs"), es.jwk(&long)]});
    let public = at_test_time(Jwt::keys(ISSUER, &keys.to_string()).unwrap());
    let secret = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap());
    let clients = at_test_time(
        Jwt::keys(ISSUER, &keys.to_string()).unwrap().dangerous_allow_clients_without_audience(["c", "d"]),
    );
    let good = claims().to_string();
    let valid = es.token("es", &claims());
    let parts: Vec<&str> = valid.split('.').collect();
    let header = |members: Value| {
        let mut header = json!({"alg": "ES256", "kid": "es"});
        header.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        header.to_string()
    };
    // The public key as the secret of HS256, in the forms in which a confused server may have it.
    let rsa_jwk = rs.jwk("rs").to_string();
    let rsa_modulus = rs.jwk("rs")["n"].as_str().unwrap().to_owned();
    let confused = |key: &str| {
        let key: &'static [u8] = Vec::leak(key.as_bytes().to_vec());
        Signer::Secret(key).token_of(r#"{"alg":"HS256","kid":"rs"}"#, &good)
    };
    let bad = |name: &str, value: Value| es.token("es", &changed(name, &value));
    // A token without an audience, in the form of Amazon Cognito.
    let of_client = |members: Value| {
        let mut claims = changed("aud", &Value::Null);
        claims["token_use"] = json!("access");
        claims.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        es.token("es", &claims)
    };
    let flipped = {
        let mut signature = parts[2].to_owned().into_bytes();
        signature[10] = if signature[10] == b'A' { b'B' } else { b'A' };
        format!("{}.{}.{}", parts[0], parts[1], String::from_utf8(signature).unwrap())
    };

    let rows: Vec<(&str, &Jwt, String)> = vec![
        // Algorithms.
        ("no signature", &public, format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&good))),
        ("alg None", &public, format!("{}.{}.", encode(r#"{"alg":"None"}"#), encode(&good))),
        ("alg nOnE with a signature", &public, es.token_of(r#"{"alg":"nOnE","kid":"es"}"#, &good)),
        ("no alg", &public, es.token_of(r#"{"kid":"es"}"#, &good)),
        ("alg null", &public, es.token_of(r#"{"alg":null,"kid":"es"}"#, &good)),
        ("alg list", &public, es.token_of(r#"{"alg":["ES256"],"kid":"es"}"#, &good)),
        ("unknown alg", &public, es.token_of(r#"{"alg":"ES999","kid":"es"}"#, &good)),
        ("alg of lower case", &public, es.token_of(r#"{"alg":"es256","kid":"es"}"#, &good)),
        ("HS256 with the JWK as secret", &public, confused(&rsa_jwk)),
        ("HS256 with the modulus as secret", &public, confused(&rsa_modulus)),
        ("HS256 with an empty secret", &public, confused("")),
        ("RS256 against a shared secret", &secret, rs.token("rs", &claims())),
        ("none against a shared secret", &secret, format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&good))),
        ("HS256 with a wrong secret", &secret, Signer::Secret(b"wrong").token("a", &claims())),
        ("RS256 header over an ES256 signature", &public, es.token_of(r#"{"alg":"RS256","kid":"rs"}"#, &good)),
        ("ES256 with the RSA key id", &public, es.token_of(r#"{"alg":"ES256","kid":"rs"}"#, &good)),
        ("PS256 header over an RS256 signature", &public, rs.token_of(r#"{"alg":"PS256","kid":"rs"}"#, &good)),
        // Keys.
        ("key of a stranger", &public, stranger.token("es", &claims())),
        ("unknown key id", &public, es.token("other", &claims())),
        ("key id with a path", &public, es.token("../../etc/passwd", &claims())),
        ("key id with SQL", &public, es.token("es' OR '1'='1", &claims())),
        ("empty key id", &public, stranger.token("", &claims())),
        ("long key id", &public, es.token(&long, &claims())),
        ("key id as a number", &public, es.token_of(r#"{"alg":"ES256","kid":1}"#, &good)),
        ("jwk in the header", &public, stranger.token_of(&header(json!({"jwk": stranger.jwk("es")})), &good)),
        ("jku in the header", &public, stranger.token_of(&header(json!({"jku": "https://evil.example/k"})), &good)),
        ("x5u in the header", &public, stranger.token_of(&header(json!({"x5u": "https://evil.example/k"})), &good)),
        ("x5c in the header", &public, stranger.token_of(&header(json!({"x5c": ["AAAA"]})), &good)),
        ("critical extension", &public, es.token_of(&header(json!({"crit": ["exp"], "exp": 1})), &good)),
        ("compressed", &public, es.token_of(&header(json!({"zip": "DEF"})), &good)),
        ("unencoded payload", &public, es.token_of(&header(json!({"b64": false})), &good)),
        // Types.
        ("logout token", &public, es.token_of(&header(json!({"typ": "logout+jwt"})), &good)),
        ("DPoP proof", &public, es.token_of(&header(json!({"typ": "dpop+jwt"})), &good)),
        ("ID-JAG", &public, es.token_of(&header(json!({"typ": "oauth-id-jag+jwt"})), &good)),
        // The compact form.
        ("one part", &public, encode(&good)),
        ("two parts", &public, format!("{}.{}", parts[0], parts[1])),
        ("four parts", &public, format!("{valid}.x")),
        ("empty parts", &public, "..".to_owned()),
        ("signature missing", &public, format!("{}.{}.", parts[0], parts[1])),
        ("signature changed", &public, flipped),
        ("signature of another token", &public, {
            let other = es.token("es", &changed("sub", &json!("x")));
            format!("{}.{}.{}", parts[0], parts[1], other.rsplit('.').next().unwrap())
        }),
        ("claims changed", &public, format!("{}.{}.{}", parts[0], encode(good.replace("user-7", "admin")), parts[2])),
        ("padding", &public, format!("{valid}==")),
        ("huge token", &public, es.token("es", &changed("x", &json!("x".repeat(12_000))))),
        ("claims as a list", &public, es.token_of(&header(json!({})), "[]")),
        ("claims as a text", &public, es.token_of(&header(json!({})), "\"x\"")),
        ("no claims", &public, es.token_of(&header(json!({})), "{}")),
        ("deep claims", &public, es.token_of(&header(json!({})), &format!("{}1{}", "[".repeat(500), "]".repeat(500)))),
        ("duplicate claim", &public, es.token_of(&header(json!({})), &good.replacen('{', r#"{"sub":"admin","#, 1))),
        ("duplicate header", &public, es.token_of(r#"{"alg":"ES256","alg":"ES256","kid":"es"}"#, &good)),
        // Claims.
        ("no issuer", &public, bad("iss", Value::Null)),
        ("issuer with a slash", &public, bad("iss", json!("https://as.example/"))),
        ("other issuer", &public, bad("iss", json!("https://evil.example"))),
        ("list of issuers", &public, bad("iss", json!([ISSUER]))),
        ("no audience", &public, bad("aud", Value::Null)),
        ("empty audience", &public, bad("aud", json!([]))),
        ("other audience", &public, bad("aud", json!("https://other.example/mcp"))),
        ("audience prefix", &public, bad("aud", json!("https://mcp.example.com"))),
        ("audience with a slash", &public, bad("aud", json!("https://mcp.example.com/mcp/"))),
        ("audience as an object", &public, bad("aud", json!({"x": RESOURCE}))),
        ("audience with a number", &public, bad("aud", json!([RESOURCE, 1]))),
        ("no expiry", &public, bad("exp", Value::Null)),
        ("expiry as a text", &public, bad("exp", json!((NOW + 300).to_string()))),
        ("negative expiry", &public, bad("exp", json!(-1))),
        ("infinite expiry", &public, bad("exp", json!(1e300))),
        ("not yet valid", &public, bad("nbf", json!(NOW + 61))),
        ("nbf as a text", &public, bad("nbf", json!("0"))),
        ("issued in the future", &public, bad("iat", json!(NOW + 61))),
        ("subject as a number", &public, bad("sub", json!(7))),
        ("empty subject", &public, bad("sub", json!(""))),
        ("no subject", &public, bad("sub", Value::Null)),
        ("ID token with at_hash", &public, bad("at_hash", json!("x"))),
        ("ID token with c_hash", &public, bad("c_hash", json!("x"))),
        ("ID token of Cognito", &public, bad("token_use", json!("id"))),
        ("ID token of Keycloak", &public, bad("typ", json!("ID"))),
        ("refresh token of Keycloak", &public, bad("typ", json!("Refresh"))),
        ("offline token of Keycloak", &public, bad("typ", json!("Offline"))),
        ("logout token of Keycloak", &public, bad("typ", json!("Logout"))),
        ("logout token with events", &public, bad("events", json!({"x": {}}))),
        ("scopes as a number", &public, bad("scope", json!(1))),
        ("scopes with an object", &public, bad("scope", json!([{}]))),
        ("bound to a DPoP key", &public, bad("cnf", json!({"jkt": "k"}))),
        ("bound to a certificate", &public, bad("cnf", json!({"x5t#S256": "k"}))),
        ("bound in an unknown form", &public, bad("cnf", json!({"kid": "k"}))),
        ("cnf as a text", &public, bad("cnf", json!("k"))),
        (
            "deep actors",
            &public,
            bad("act", json!({"sub":"a","act":{"sub":"b","act":{"sub":"c","act":{"sub":"d","act":{"sub":"e"}}}}})),
        ),
        // Clients in the place of the audience.
        ("client without the setting", &public, of_client(json!({}))),
        ("other client", &clients, of_client(json!({"client_id": "x"}))),
        ("client of another case", &clients, of_client(json!({"client_id": "C"}))),
        ("client with more text", &clients, of_client(json!({"client_id": "c "}))),
        ("two clients in a text", &clients, of_client(json!({"client_id": "c d"}))),
        ("list of clients", &clients, of_client(json!({"client_id": ["c"]}))),
        ("empty client", &clients, of_client(json!({"client_id": ""}))),
        ("client null", &clients, of_client(json!({"client_id": null}))),
        ("authorized party instead of the client", &clients, of_client(json!({"client_id": null, "azp": "c"}))),
        ("client with another audience", &clients, of_client(json!({"aud": "https://other.example/mcp"}))),
        ("client with the audience null", &clients, of_client(json!({"aud": null}))),
        ("client with an empty audience", &clients, of_client(json!({"aud": []}))),
        ("client as the audience", &clients, of_client(json!({"aud": "c"}))),
        ("ID token of the client", &clients, of_client(json!({"token_use": "id"}))),
        ("token of the client without an issuer", &clients, of_client(json!({"iss": null}))),
        ("key of a stranger with the client", &clients, stranger.token("es", &changed("aud", &Value::Null))),
        ("expired token of a stranger", &public, stranger.token("es", &changed("exp", &json!(NOW - 3600)))),
        ("expired token with an unknown key", &public, stranger.token("x", &changed("exp", &json!(NOW - 3600)))),
    ];
    assert!(rows.len() >= 90);
    check(&public, &valid).await.unwrap();
    for accepted in [of_client(json!({})), of_client(json!({"client_id": "d"})), valid.clone()] {
        check(&clients, &accepted).await.unwrap();
    }
    for (name, jwt, token) in rows {
        let got = check(jwt, &token).await;
        let is_rejected = matches!(got, Err(Rejection::Invalid | Rejection::Malformed));
        assert!(is_rejected, "{name}: {got:?}");
    }
    for expired in [NOW - 60, NOW - 3600, 0] {
        let got = check(&public, &bad("exp", json!(expired))).await;
        assert_eq!(got, Err(Rejection::Expired), "{expired}");
    }
}

#[tokio::test]
async fn an_allow_list_excludes_other_algorithms() {
    let (es, ed) = (Signer::es256(), Signer::ed25519());
    let keys = json!({"keys": [es.jwk("es"), ed.jwk("ed")]});
    let jwt = at_test_time(Jwt::keys(ISSUER, &keys.to_string()).unwrap().algorithms(["ES256"]).unwrap());
    check(&jwt, &es.token("es", &claims())).await.unwrap();
    assert_eq!(check(&jwt, &ed.token("ed", &claims())).await, Err(Rejection::Invalid));
}

#[test]
fn short_rsa_keys_verify_nothing() {
    // A key of 1,024 bits, and its valid signature of `message`.
    let modulus = "um8TwyfcTqjPCe-XFPa_mod7ZDgRvUBdTzSASYy_ArI8e_iCWGYhqZn_AFDoyenKe0Askd9XY_LNkva98iOI0XZ7IjH_dQtXyphI0bOOmyUfS-a5_AzfMx-Wsk510Uksrm5Ps0CgoWMiyBA9T8LBQ1jMFc7Ongl8P2Sy4b1g_hc";
    let signature = "LDZcEgeoDLxYmVp2kAV--L47i8cPmSy9muqm508M5tnlHWvL-Zlu_f3gKIpX1CT6ECZhLBruxRtOFqdwU7OYOGB5w4Uju_Lir-4ma5Fg8iGvVBV2wFqv1HnzjtvzEDeI9gp8WHsjIEuXei-F7dRxGWFStk-R4QQ3WRUmco9lj10";
    let key = Key::from_jwk(&json!({"kty": "RSA", "kid": "a", "e": "AQAB", "n": modulus})).unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    assert_eq!(signature.len(), 128);
    assert!(!key.verify(Algorithm::RS256, b"message", &signature));
}
