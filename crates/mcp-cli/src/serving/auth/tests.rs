//! The content of files, and their faults.

use std::{fs, path::PathBuf};

use http::{HeaderMap, HeaderValue, Method};
use mcp_server::auth::{AuthRequest, Authenticator as _, hash_api_key, hash_password};

use super::*;

/// A directory of a test. The drop of this value removes it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-auth-file-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn load(&self, text: &str) -> Result<Auth, String> {
        self.write("auth.toml", text);
        Auth::load(&self.0.join("auth.toml"), false).map_err(|failure| failure.to_string())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn caller(auth: &Auth, name: &'static str, value: &str) -> Option<Principal> {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_str(value).unwrap());
    let request = AuthRequest::new(&Method::POST, "http://127.0.0.1/mcp", &headers);
    let authenticated = auth.chain.authenticate(&request).await.ok()?;
    Some((*authenticated.principal).clone())
}

#[tokio::test]
async fn each_provider_without_requests_authenticates() {
    let directory = Directory::new("providers");
    let pepper = "a secret of the gateway";
    directory.write("pepper", &format!("{pepper}\n"));
    directory.write("key", "key-of-ci\r\n");
    directory.write("token", "token-of-build");
    directory.write("digest", &hash_password("hunter2").unwrap());
    let hash = hash_api_key(pepper.as_bytes(), "key-of-reports");
    let auth = directory
        .load(&format!(
            r#"
            public_url = "https://mcp.example.com/mcp"
            required_scopes = ["mcp"]
            operators = ["ci", "ops-*@https://idp.example.com"]

            [api_keys]
            header = "x-team-key"
            pepper = {{ file = "pepper" }}

            [[api_key]]
            principal = "ci"
            scopes = ["mcp"]
            key = {{ file = "key" }}

            [[api_key]]
            principal = "reports"
            hash = "{hash}"

            [[basic]]
            user = "ann"
            principal = "Ann"
            digest = {{ file = "digest" }}

            [[static]]
            principal = "build"
            token = {{ file = "token" }}

            [[jwt]]
            issuer = "https://idp.example.com"
            audience = ["https://mcp.example.com/mcp"]
            algorithms = ["ES256"]
            scope_claim = "roles"
            allow_hosts = ["keys.internal"]
            "#
        ))
        .unwrap();
    let ci = caller(&auth, "x-team-key", "key-of-ci").await.unwrap();
    assert_eq!((ci.subject.as_str(), ci.scopes.contains("mcp")), ("ci", true));
    assert_eq!(caller(&auth, "x-team-key", "key-of-reports").await.unwrap().subject, "reports");
    assert_eq!(caller(&auth, "authorization", "Basic YW5uOmh1bnRlcjI=").await.unwrap().subject, "Ann");
    assert_eq!(caller(&auth, "authorization", "Bearer token-of-build").await.unwrap().subject, "build");
    assert!(caller(&auth, "x-team-key", "another").await.is_none());
    assert_eq!(auth.required_scopes(), ["mcp"]);
    let operators = auth.operators();
    assert!(!operators.is_empty() && operators.include(Some(&ci)) && !operators.include(None));
    let idp = |name: &str| Principal::new(name).with_issuer("https://idp.example.com");
    assert!(operators.include(Some(&idp("ops-1"))) && !operators.include(Some(&idp("ci"))));
    assert!(auth.apply_to(HttpConfig::new()).check().is_ok());
}

#[test]
fn an_error_names_the_place_and_the_remedy() {
    let directory = Directory::new("faults");
    directory.write("empty", "\n");
    directory.write("short", "short");
    directory.write("three", "abc");
    directory.write("token", "token-of-build");
    for (text, expected) in [
        ("", "auth.toml: the file has no provider: add `[[jwt]]`"),
        ("[[jwt]]\nisuer = \"x\"\n", "auth.toml:2:1: unknown field `isuer`"),
        ("[[jwt]]\n", "missing field `issuer`"),
        ("[[jwt]]\nissuer = \"http://idp.example\"\n", "auth.toml: jwt[0]: "),
        ("[[jwt]]\nissuer = \"https://a.example\"\njwks = \"x\"\n", "auth.toml: jwt[0].jwks: "),
        (
            "[[jwt]]\nissuer = \"https://a.example\"\nsecret = { file = \"short\" }\n",
            "jwt[0].secret: the secret must have",
        ),
        ("[[jwt]]\nissuer = \"https://a.example\"\nalgorithms = [\"none\"]\n", "jwt[0].algorithms: "),
        ("[[jwt]]\nissuer = \"https://a.example\"\nallow_hosts = [\"a b\"]\n", "jwt[0].allow_hosts: `a b`: "),
        ("[[jwt]]\nissuer = \"https://a.example\"\nroot_certificates = \"none.pem\"\n", "jwt[0].root_certificates: "),
        ("[api_keys]\nheader = \"x-key\"\n", "api_keys: the file has settings for keys and no key: add `[[api_key]]`"),
        ("[[api_key]]\nprincipal = \"ci\"\n", "api_key[0]: a key has either `key` or `hash`"),
        ("[[api_key]]\nprincipal = \"ci\"\nhash = \"hmac-sha256$AA==\"\n", "api_key[0].hash: "),
        (
            "[[api_key]]\nprincipal = \"ci\"\nkey = { env = \"MCP_NO_SUCH_VARIABLE\" }\n",
            "api_key[0].key: the variable `MCP_NO_SUCH_VARIABLE` is not set: set it for the gateway",
        ),
        ("[[api_key]]\nprincipal = \"ci\"\nkey = { file = \"none\" }\n", "the file cannot be read: No such file"),
        ("[[api_key]]\nprincipal = \"ci\"\nkey = { file = \"empty\" }\n", "the file empty is empty"),
        ("[[basic]]\nuser = \"ann\"\ndigest = { file = \"short\" }\n", "auth.toml: basic[0]: "),
        ("[[github]]\nclient_id = \"a\"\n", "missing field `client_secret`"),
        ("[[basic]]\nuser = \"ann\"\n", "missing field `digest`"),
        (
            "[[static]]\nprincipal = \"\"\ntoken = { file = \"token\" }\n",
            "static[0].principal: the name of the principal is empty",
        ),
        (
            "[[api_key]]\nprincipal = \" \"\nkey = { file = \"token\" }\n",
            "api_key[0].principal: the name of the principal is empty",
        ),
        (
            "[[static]]\nprincipal = \"a\"\ntoken = { file = \"three\" }\n",
            "static[0].token: the secret has less than 8 bytes",
        ),
        (
            "[[api_key]]\nprincipal = \"a\"\nkey = { file = \"three\" }\n",
            "api_key[0].key: the secret has less than 8 bytes",
        ),
        ("[[static]]\nprincipal = \"a\"\ntoken = { path = \"x\" }\n", "3:9: a secret is `{ env = \"NAME\" }`"),
        ("operators = [\"\"]\n[[jwt]]\nissuer = \"https://a.example\"\n", "operators: the pattern `` is invalid"),
        (
            "[[github]]\nclient_id = \"a b\"\nclient_secret = { file = \"short\" }\n",
            "github[0]: the client id contains",
        ),
        (
            "[[introspection]]\nissuer = \"x\"\nclient_id = \"a\"\nclient_secret = { file = \"short\" }\n",
            "auth.toml: introspection[0]: ",
        ),
        ("[[jwt]\n", "auth.toml:1:"),
    ] {
        let error = directory.load(text).err().unwrap_or_else(|| panic!("{text} is valid"));
        assert!(error.contains(expected), "{text}\n{error}");
    }
    let error = Auth::load(&directory.0.join("none.toml"), false).err().unwrap().to_string();
    assert!(error.contains("none.toml: the file cannot be read: No such file"), "{error}");
}

#[test]
fn an_operator_that_no_provider_can_authenticate_is_a_warning() {
    let directory = Directory::new("operators");
    directory.write("token", "token-of-ops");
    let token = "[[static]]\nprincipal = \"ops\"\ntoken = { file = \"token\" }\n";
    let jwt = "[[jwt]]\nissuer = \"https://a.example\"\n";
    for (text, expected) in [
        (format!("operators = [\"ops\"]\n{token}"), &[][..]),
        (
            format!("operators = [\"ops\", \"root\"]\n{token}"),
            &["operators[1]: no caller of the file has the name `root`"],
        ),
        (format!("operators = [\"root\"]\n{token}{jwt}"), &[]),
    ] {
        let warnings = directory.load(&text).unwrap().warnings();
        assert_eq!(warnings.len(), expected.len(), "{text}: {warnings:?}");
        assert!(warnings.iter().zip(expected).all(|(warning, part)| warning.contains(part)), "{warnings:?}");
    }
}

#[test]
fn an_error_never_contains_a_secret() {
    let directory = Directory::new("secrets");
    directory.write("invalid", "hunter2 \u{1}");
    for text in [
        "[[static]]\nprincipal = \"a\"\ntoken = \"hunter2\"\n",
        "[[static]]\nprincipal = \"a\"\ntoken = [\"hunter2\"]\n",
        "[[static]]\nprincipal = \"a\"\ntoken = { value = \"hunter2\" }\n",
        "[[static]]\nprincipal = \"a\"\ntoken = { file = \"invalid\" }\n",
        "[[static]]\nprincipal = \"a\"\ntoken = \"hunter2\n",
        "[[api_key]]\nprincipal = \"a\"\nkey = { file = \"invalid\" }\n",
        "[api_keys]\npepper = \"hunter2\"\n",
    ] {
        let error = directory.load(text).err().unwrap_or_else(|| panic!("{text} is valid"));
        assert!(!error.contains("hunter2"), "{text}\n{error}");
    }
}
