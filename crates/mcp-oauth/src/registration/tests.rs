//! The choice of a registration, and the documents of dynamic registrations.

use mcp_protocol::auth::AuthorizationServerMetadata;
use serde_json::{Value, json};

use super::*;

const REDIRECT: &str = "http://127.0.0.1:8000/callback";

fn server(members: &Value) -> Server {
    let mut document = json!({"issuer": "https://as.example"});
    for (name, value) in members.as_object().unwrap() {
        document[name] = value.clone();
    }
    let metadata: AuthorizationServerMetadata = serde_json::from_value(document).unwrap();
    let identity = metadata.issuer.clone();
    Server { identity, metadata, is_legacy: false, has_default_endpoints: false, quirks: Vec::new() }
}

fn dynamic() -> Registration {
    Registration {
        client_id: "stored".into(),
        client_secret: None,
        secret_expires_at: None,
        method: AuthMethod::None,
        redirect_uris: vec![REDIRECT.into()],
        source: Source::Dynamic,
    }
}

#[test]
fn registrations_are_chosen_in_the_order_of_the_specification() {
    let registered = || Some(Registered { client_id: "own".into(), client_secret: None, key: None });
    let document = Some("https://app.example/client.json".to_owned());
    let all = json!({"client_id_metadata_document_supported": true, "registration_endpoint": "https://as.example/r"});
    let secret_only = json!({
        "client_id_metadata_document_supported": true, "registration_endpoint": "https://as.example/r",
        "token_endpoint_auth_methods_supported": ["client_secret_basic"]
    });
    let endpoint = json!({"registration_endpoint": "https://as.example/r"});
    let expired = Registration { secret_expires_at: Some(100), ..dynamic() };
    let endless = Registration { secret_expires_at: Some(0), ..dynamic() };
    let moved = Registration { redirect_uris: vec!["http://127.0.0.1:1/callback".into()], ..dynamic() };
    for (registered, document, members, stored, expected) in [
        (registered(), document.clone(), &all, Some(dynamic()), Ok("own")),
        (registered(), None, &all, None, Ok("own")),
        (None, document.clone(), &all, Some(dynamic()), Ok("https://app.example/client.json")),
        (None, Some("https://app.example".into()), &all, None, Err("is not an `https` URL with a path")),
        (None, Some("http://app.example/client.json".into()), &all, None, Err("is not an `https` URL with a path")),
        (None, document.clone(), &secret_only, None, Ok("register")),
        (None, document, &endpoint, Some(dynamic()), Ok("stored")),
        (None, None, &all, None, Ok("register")),
        (None, None, &endpoint, Some(expired), Ok("register")),
        (None, None, &endpoint, Some(endless), Ok("stored")),
        (None, None, &endpoint, Some(moved), Ok("register")),
        (None, None, &json!({}), None, Err("has no dynamic registration")),
    ] {
        let client = ClientSettings { registered, document, ..ClientSettings::default() };
        match (plan(&client, &server(members), stored, Some(REDIRECT), 200), expected) {
            (Ok(Plan::Use(found)), Ok(id)) => assert_eq!(found.client_id, id),
            (Ok(Plan::Register(endpoint)), Ok("register")) => assert_eq!(endpoint, "https://as.example/r"),
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (result, _) => panic!("{members}: {result:?}"),
        }
    }
}

#[test]
fn clients_use_the_configured_issuer_alone() {
    let members = json!({"registration_endpoint": "https://as.example/r"});
    for (issuer, accepts) in [
        (None, true),
        (Some("https://as.example"), true),
        (Some("https://as.example/"), false),
        (Some("https://as.example:443"), false),
        (Some("https://other.example"), false),
        (Some(""), false),
    ] {
        let registered = Registered { client_id: "own".into(), client_secret: None, key: None };
        for registered in [Some(registered), None] {
            let issuer = issuer.map(str::to_owned);
            let client = ClientSettings { registered, issuer: issuer.clone(), ..ClientSettings::default() };
            match plan(&client, &server(&members), Some(dynamic()), Some(REDIRECT), 200) {
                Ok(_) => assert!(accepts, "{issuer:?}"),
                Err(error) => {
                    assert!(!accepts && error.to_string().contains("the configured issuer is"), "{issuer:?}: {error}");
                }
            }
        }
    }
}

#[test]
fn the_method_of_the_token_endpoint_follows_the_metadata() {
    for (methods, public, secret) in [
        (None, "client_secret_basic", AuthMethod::ClientSecretBasic),
        (Some(json!(["none"])), "none", AuthMethod::ClientSecretBasic),
        (Some(json!(["client_secret_post"])), "client_secret_post", AuthMethod::ClientSecretPost),
        (
            Some(json!(["client_secret_post", "client_secret_basic"])),
            "client_secret_basic",
            AuthMethod::ClientSecretBasic,
        ),
        (Some(json!(["client_secret_post", "none"])), "none", AuthMethod::ClientSecretPost),
        (Some(json!(["private_key_jwt"])), "client_secret_basic", AuthMethod::ClientSecretBasic),
    ] {
        let members = methods.map_or(json!({}), |methods| json!({"token_endpoint_auth_methods_supported": methods}));
        let server = server(&members);
        let document = request(&ClientSettings::default(), &server, Some(REDIRECT));
        assert_eq!(document.token_endpoint_auth_method.as_deref(), Some(public), "{members}");
        let registered = Registered { client_id: "c".into(), client_secret: Some("s".into()), key: None };
        assert_eq!(application(&registered, &server).method, secret, "{members}");
    }
}

#[test]
fn a_registration_has_only_the_members_of_rfc_7591() {
    let client = ClientSettings { name: Some("Example".into()), ..ClientSettings::default() };
    for (redirect, kind) in [(REDIRECT, "native"), ("https://app.example/cb", "web")] {
        let document = request(&client, &server(&json!({})), Some(redirect));
        let expected = json!({
            "client_name": "Example", "redirect_uris": [redirect],
            "token_endpoint_auth_method": "client_secret_basic",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "application_type": kind
        });
        assert_eq!(serde_json::to_value(&document).unwrap(), expected);
    }
    let device = request(&client, &server(&json!({})), None);
    let expected = json!({
        "client_name": "Example", "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"], "response_types": [],
        "application_type": "native"
    });
    assert_eq!(serde_json::to_value(&device).unwrap(), expected);
}

#[test]
fn the_answer_of_a_registration_counts() {
    let asked = request(&ClientSettings::default(), &server(&json!({})), Some(REDIRECT));
    for (answer, method) in [
        (json!({"client_id": "c", "client_secret": "s"}), AuthMethod::ClientSecretBasic),
        (
            json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}),
            AuthMethod::ClientSecretPost,
        ),
        (json!({"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "none"}), AuthMethod::None),
        (json!({"client_id": "c"}), AuthMethod::None),
        (json!({"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"}), AuthMethod::None),
    ] {
        let known = known(serde_json::from_value(answer.clone()).unwrap(), &asked).unwrap();
        assert_eq!((known.method, known.redirect_uris), (method, vec![REDIRECT.to_owned()]), "{answer}");
    }
    assert_eq!(known(serde_json::from_value(json!({"client_id": ""})).unwrap(), &asked), None);
}

#[test]
fn stored_registrations_round_trip() {
    let registration = Registration { client_secret: Some("hunter2".into()), ..dynamic() };
    let json = serde_json::to_string(&registration).unwrap();
    assert_eq!(serde_json::from_str::<Registration>(&json).unwrap(), registration);
    assert!(!format!("{registration:?}").contains("hunter2"));
}
