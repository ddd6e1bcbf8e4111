//! Discovery against scripted servers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// A server with documents at paths. `{origin}` in a document is the origin of the server.
struct Site {
    origin: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn start(documents: &[(&'static str, u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let documents: HashMap<&'static str, (u16, String)> = documents
            .iter()
            .map(|(path, status, document)| (*path, (*status, document.to_string().replace("{origin}", &origin))))
            .collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let path = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().to_owned();
                seen.lock().unwrap().push(path.clone());
                let (status, body) = documents.get(path.as_str()).cloned().unwrap_or((404, String::new()));
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        Self { origin, requests }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }
}

fn fetch() -> Fetch {
    Fetch::builder().allow_loopback(true).build()
}

const PRM: &str = "/.well-known/oauth-protected-resource";
const PRM_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

#[tokio::test]
async fn resource_metadata_is_read_from_the_first_place_that_has_it() {
    let document = |resource: &str| json!({"resource": resource, "authorization_servers": ["https://as.example"]});
    let own = document("{origin}/mcp");
    for (documents, challenge, expected, requests) in [
        (vec![("/custom", 200, own.clone())], Some("/custom"), Ok(true), vec!["/custom"]),
        (vec![(PRM_PATH, 200, own.clone())], None, Ok(true), vec![PRM_PATH]),
        (vec![(PRM_PATH, 200, own.clone())], Some("/custom"), Ok(true), vec!["/custom", PRM_PATH]),
        (vec![(PRM, 200, document("{origin}"))], None, Ok(true), vec![PRM_PATH, PRM]),
        (vec![(PRM_PATH, 200, json!("<html>")), (PRM, 200, own.clone())], None, Ok(true), vec![PRM_PATH, PRM]),
        (vec![], None, Ok(false), vec![PRM_PATH, PRM]),
        (vec![(PRM_PATH, 200, document("https://b.example/mcp"))], None, Err(ErrorKind::Discovery), vec![PRM_PATH]),
        (vec![(PRM_PATH, 200, json!({"authorization_servers": []}))], None, Err(ErrorKind::Discovery), vec![PRM_PATH]),
        (vec![(PRM_PATH, 503, json!({}))], None, Err(ErrorKind::Unavailable), vec![PRM_PATH]),
        (vec![(PRM_PATH, 429, json!({}))], None, Err(ErrorKind::Unavailable), vec![PRM_PATH]),
    ] {
        let site = Site::start(&documents).await;
        let endpoint = Url::parse(&site.url("/mcp")).unwrap();
        let challenge = challenge.map(|path| site.url(path));
        let found = resource(Reader::unrecorded(&fetch()), &endpoint, challenge.as_deref()).await;
        let found = found.map(|found| found.is_some()).map_err(|error| error.kind());
        assert_eq!((found, site.requests()), (expected, requests.into_iter().map(str::to_owned).collect()));
    }
}

#[tokio::test]
async fn server_metadata_is_read_in_the_order_of_the_specification() {
    const RFC8414: &str = "/.well-known/oauth-authorization-server/t";
    const OIDC: &str = "/.well-known/openid-configuration/t";
    const APPENDED: &str = "/t/.well-known/openid-configuration";
    let own = json!({"issuer": "{origin}/t"});
    let foreign = json!({"issuer": "https://b.example/t"});
    for (documents, expected, requests) in [
        (vec![(RFC8414, 200, own.clone())], Ok(()), vec![RFC8414]),
        (vec![(OIDC, 200, own.clone())], Ok(()), vec![RFC8414, OIDC]),
        (vec![(APPENDED, 200, own.clone())], Ok(()), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 200, foreign.clone()), (APPENDED, 200, own.clone())], Ok(()), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 200, foreign)], Err(ErrorKind::Discovery), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 500, own)], Err(ErrorKind::Unavailable), vec![RFC8414]),
    ] {
        let site = Site::start(&documents).await;
        let found =
            server(Reader::unrecorded(&fetch()), &site.url("/t"), &[]).await.map(|_| ()).map_err(|error| error.kind());
        assert_eq!((found, site.requests()), (expected, requests.into_iter().map(str::to_owned).collect()));
    }
    let error = server(Reader::unrecorded(&fetch()), "https://user@as.example", &[]).await.unwrap_err();
    assert!(error.to_string().contains("is not a URL of an authorization server"), "{error}");
}

#[tokio::test]
async fn a_server_without_documents_has_the_default_endpoints_of_2025_03_26() {
    const ROOT: &str = "/.well-known/oauth-authorization-server";
    let document = json!({"issuer": "{origin}", "authorization_endpoint": "{origin}/oauth/authorize"});
    for (documents, path) in [(vec![(ROOT, 200, document)], "/oauth/authorize"), (vec![], "/authorize")] {
        let site = Site::start(&documents).await;
        let server = legacy(Reader::unrecorded(&fetch()), &Url::parse(&site.url("/mcp")).unwrap()).await.unwrap();
        assert_eq!(server.login_url().unwrap().as_str(), site.url(path));
        assert_eq!((server.identity, site.requests()), (site.origin.clone(), vec![ROOT.to_owned()]));
    }
}

#[test]
fn the_step_of_a_document_names_the_applied_quirks() {
    for (issuer, expected) in [
        ("https://login.microsoftonline.com/t/v2.0", &["assumes-s256", "omits-resource"][..]),
        ("https://as.example", &[]),
    ] {
        let trail = Trail::recording();
        trail.add(|| DiscoveryStep::new(StepKind::ServerMetadata, Some(issuer)));
        noted(&trail, judge(json!({"issuer": issuer}), issuer, &Quirk::of_issuer(issuer))).unwrap();
        let step = &trail.into_steps()[0];
        let quirks: Vec<_> = step.quirks.iter().map(|quirk| quirk.kind.name()).collect();
        assert_eq!((quirks.as_slice(), step.checks.len()), (expected, 1));
    }
}
