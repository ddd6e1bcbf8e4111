//! An authorization server whose endpoints repeat each request in their refusals.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::{Url, form_urlencoded};

/// Whether a parameter of a token request is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    const SECRETS: [&str; 9] = [
        "assertion",
        "client_assertion",
        "client_secret",
        "code",
        "code_verifier",
        "device_code",
        "refresh_token",
        "subject_token",
        "token",
    ];
    SECRETS.contains(&name)
}

pub(crate) struct Server {
    pub(crate) issuer: String,
    secrets: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { issuer: issuer.clone(), secrets: Arc::default() };
        let secrets = Arc::clone(&server.secrets);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answer(&issuer, &read(&mut stream).await, &secrets);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        server
    }

    /// Returns the secret parameters of all token requests.
    pub(crate) fn secrets(&self) -> Vec<(String, String)> {
        self.secrets.lock().unwrap().clone()
    }
}

/// Reads a request: its head, and its body.
async fn read(stream: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn answer(issuer: &str, (head, body): &(String, String), secrets: &Mutex<Vec<(String, String)>>) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let url = Url::parse(issuer).unwrap().join(path).unwrap();
    let (status, location, body) = match url.path() {
        "/.well-known/oauth-authorization-server" => {
            let document = json!({
                "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"), "revocation_endpoint": format!("{issuer}/revoke"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"]
            });
            ("200 OK", String::new(), document.to_string())
        }
        "/authorize" => {
            let param = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
            let mut target = Url::parse(&param("redirect_uri")).unwrap();
            target.query_pairs_mut().append_pair("code", "hunter2-code").append_pair("state", &param("state"));
            ("302 Found", format!("location: {target}\r\n"), String::new())
        }
        "/token" | "/revoke" => {
            let params: Vec<(String, String)> =
                form_urlencoded::parse(body.as_bytes()).map(|(name, value)| (name.into(), value.into())).collect();
            let text = format!("the request was {params:?}, {body} and {head}");
            secrets.lock().unwrap().extend(params.into_iter().filter(|(name, _)| is_secret(name)));
            let refusal = json!({"error": "invalid_grant", "error_description": text});
            ("400 Bad Request", String::new(), refusal.to_string())
        }
        _ => ("404 Not Found", String::new(), String::new()),
    };
    let fields = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    format!("HTTP/1.1 {status}\r\n{location}{fields}\r\n{body}")
}
