//! Decisions about the recorded metadata of real authorization servers. The directory `tests/metadata` has the documents, each
//! with its source and without the members that no decision uses.

use serde_json::Value;

use crate::{
    discovery::{Server, judge},
    quirks::{Quirk, QuirkKind},
    registration::{ClientSettings, Plan, Source, plan, request},
};

/// The documents, by file.
const DOCUMENTS: &[(&str, &str)] = &[
    ("atlassian-v1", include_str!("../tests/metadata/atlassian-v1.json")),
    ("atlassian-v2", include_str!("../tests/metadata/atlassian-v2.json")),
    ("auth0", include_str!("../tests/metadata/auth0.json")),
    ("authentik", include_str!("../tests/metadata/authentik.json")),
    ("cognito", include_str!("../tests/metadata/cognito.json")),
    ("discord", include_str!("../tests/metadata/discord.json")),
    ("entra", include_str!("../tests/metadata/entra.json")),
    ("entra-common", include_str!("../tests/metadata/entra-common.json")),
    ("gitlab", include_str!("../tests/metadata/gitlab.json")),
    ("google", include_str!("../tests/metadata/google.json")),
    ("keycloak", include_str!("../tests/metadata/keycloak.json")),
    ("okta", include_str!("../tests/metadata/okta.json")),
    ("paypal", include_str!("../tests/metadata/paypal.json")),
    ("slack", include_str!("../tests/metadata/slack.json")),
];

/// The result for a server that the client can use.
#[derive(Debug, PartialEq)]
struct Usable {
    /// The names of the applied quirks.
    quirks: Vec<&'static str>,
    /// How a client with a metadata document and without a client id becomes known.
    registration: &'static str,
    /// How a client that registers authenticates at the token endpoint.
    method: String,
    /// The parameters that name the resource.
    resource: Vec<&'static str>,
}

/// Decides as a login does. The error is the reason against the server.
fn decide(file: &str, issuer: &str, quirks: &[Quirk]) -> Result<Usable, String> {
    let (_, text) = DOCUMENTS.iter().find(|(name, _)| *name == file).expect("the file is in the list");
    let record: Value = serde_json::from_str(text).expect("each file has JSON");
    let server = judge(record["document"].clone(), issuer, quirks)?;
    server.login_url().and_then(|_| server.token_url().map(drop)).map_err(|error| error.to_string())?;
    let client =
        ClientSettings { document: Some("https://app.example/client.json".to_owned()), ..ClientSettings::default() };
    let registration = match plan(&client, &server, None, REDIRECT, 0) {
        Ok(Plan::Use(registration)) if registration.source == Source::Document => "document",
        Ok(Plan::Use(_)) => "stored",
        Ok(Plan::Register(_)) => "dynamic",
        Err(_) => "by the operator",
    };
    let method = request(&client, &server, REDIRECT).token_endpoint_auth_method.unwrap_or_default();
    Ok(Usable { quirks: names(&server), registration, method, resource: resource(&server) })
}

const REDIRECT: Option<&str> = Some("http://127.0.0.1:8000/callback");

fn names(server: &Server) -> Vec<&'static str> {
    server.quirks.iter().map(|quirk| quirk.kind.name()).collect()
}

fn resource(server: &Server) -> Vec<&'static str> {
    let omits = server.has_quirk(QuirkKind::OmitsResource);
    let audience = server.audience((!omits).then_some("https://mcp.example/mcp"), &[]).map(|_| "audience");
    (!omits).then_some("resource").into_iter().chain(audience).collect()
}

/// The second text of a row is the issuer in the metadata of an MCP server.
#[test]
fn documents_of_real_authorization_servers_are_judged() {
    const RESOURCE: &[&str] = &["resource"];
    for (file, issuer, expected) in [
        (
            "entra",
            "https://login.microsoftonline.com/REDACTED_TENANT_ID/v2.0",
            Ok((&["assumes-s256", "omits-resource"][..], "by the operator", &[][..])),
        ),
        // The document of all tenants has a template as its issuer, so it belongs to no issuer.
        ("entra-common", "https://login.microsoftonline.com/common/v2.0", Err("{tenantid}")),
        ("google", "https://accounts.google.com", Ok((&[], "by the operator", RESOURCE))),
        // The MCP servers of Google.
        ("google", "https://accounts.google.com/", Ok((&["ignores-final-slash"], "by the operator", RESOURCE))),
        ("auth0", "https://samples.auth0.com/", Ok((&["sends-audience"], "dynamic", &["resource", "audience"]))),
        (
            "auth0",
            "https://samples.auth0.com",
            Ok((&["ignores-final-slash", "sends-audience"], "dynamic", &["resource", "audience"])),
        ),
        ("auth0", "https://other.auth0.com/", Err("instead of \"https://other.auth0.com/\"")),
        ("okta", "https://auth-js-test.okta.com/oauth2/aus8aus76q8iphupD0h7", Ok((&[], "by the operator", RESOURCE))),
        ("okta", "https://auth-js-test.okta.com", Err("instead of \"https://auth-js-test.okta.com\"")),
        ("keycloak", "https://identity.mafiasi.de/auth/realms/simple_openid_test", Ok((&[], "dynamic", RESOURCE))),
        (
            "keycloak",
            "https://identity.mafiasi.de/auth/realms/simple_openid_test/",
            Err("instead of \"https://identity.mafiasi.de/auth/realms/simple_openid_test/\""),
        ),
        (
            "cognito",
            "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_rgNLYriHz",
            Ok((&["assumes-s256"], "by the operator", RESOURCE)),
        ),
        ("authentik", "https://auth.flinntech.com/application/o/hireling/", Ok((&[], "by the operator", RESOURCE))),
        (
            "authentik",
            "https://auth.flinntech.com/application/o/hireling",
            Err("instead of \"https://auth.flinntech.com/application/o/hireling\""),
        ),
        ("atlassian-v1", "https://mcp.atlassian.com", Err("the issuer \"https://cf.mcp.atlassian.com\"")),
        (
            "atlassian-v2",
            "https://auth.atlassian.com/VCeDsk8ZHncYF1g234fKtc4lNipbBhu3",
            Ok((&[], "document", RESOURCE)),
        ),
        ("gitlab", "https://gitlab.com", Ok((&[], "by the operator", RESOURCE))),
        ("paypal", "https://www.paypal.com", Ok((&[], "dynamic", RESOURCE))),
        ("slack", "https://slack.com", Err("`code_challenge_methods_supported` is missing")),
        ("discord", "https://discord.com", Err("`code_challenge_methods_supported` is missing")),
    ] {
        match (decide(file, issuer, &Quirk::of_issuer(issuer)), expected) {
            (Ok(found), Ok((quirks, registration, parameters))) => {
                let expected = Usable {
                    quirks: quirks.to_vec(),
                    registration,
                    // The servers that declare public clients.
                    method: if matches!(file, "okta" | "atlassian-v2") { "none" } else { "client_secret_basic" }.into(),
                    resource: parameters.to_vec(),
                };
                assert_eq!(found, expected, "{file} {issuer}");
            }
            (Err(reason), Err(text)) => assert!(reason.contains(text), "{file} {issuer}: {reason}"),
            (found, _) => panic!("{file} {issuer}: {found:?}"),
        }
    }
}

#[test]
fn servers_with_undeclared_pkce_or_another_name_are_refused_without_quirks() {
    for (file, issuer, expected) in [
        (
            "entra",
            "https://login.microsoftonline.com/REDACTED_TENANT_ID/v2.0",
            Err("`code_challenge_methods_supported` is missing"),
        ),
        (
            "cognito",
            "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_rgNLYriHz",
            Err("`code_challenge_methods_supported` is missing"),
        ),
        ("google", "https://accounts.google.com/", Err("instead of \"https://accounts.google.com/\"")),
        ("auth0", "https://samples.auth0.com", Err("instead of \"https://samples.auth0.com\"")),
        ("auth0", "https://samples.auth0.com/", Ok(vec!["resource"])),
    ] {
        match (decide(file, issuer, &[]), expected) {
            (Ok(found), Ok(parameters)) => assert_eq!((found.quirks, found.resource), (vec![], parameters), "{file}"),
            (Err(reason), Err(text)) => assert!(reason.contains(text), "{file} {issuer}: {reason}"),
            (found, _) => panic!("{file} {issuer}: {found:?}"),
        }
    }
}

/// Each file names the provider, the URL of the document and its source.
#[test]
fn each_recorded_document_has_a_source() {
    for (file, text) in DOCUMENTS {
        let record: Value = serde_json::from_str(text).expect("each file has JSON");
        for member in ["provider", "url", "source"] {
            assert!(record[member].as_str().is_some_and(|text| !text.is_empty()), "{file}: {member}");
        }
        assert!(record["url"].as_str().is_some_and(|url| url.contains("/.well-known/")), "{file}");
    }
}
