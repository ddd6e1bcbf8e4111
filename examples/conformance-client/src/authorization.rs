//! The logins and the credentials of the client in scenarios with authorization.

use std::{error::Error, io, time::Duration};

use mcp_client::{
    http::reqwest::Url,
    oauth::{
        self, Answer, Assertion, AssertionRequest, ClientKey, ErrorKind, IdentityProvider, Login, OAuth, OAuthBuilder,
        SubjectTokenType, UserAgent,
    },
    protocol::auth::Secret,
    transport::BoxFuture,
};
use mcp_fetch::Fetch;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The client id metadata document that the suite expects. The suite never reads it.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// The largest number of pages of one login.
const MAX_PAGES: usize = 5;
/// The largest size of a page, in bytes.
const MAX_PAGE: u64 = 1 << 16;
const PAGE_LIMIT: Duration = Duration::from_secs(10);

/// The credentials that a scenario gives to the client.
#[derive(Default, Deserialize)]
pub(crate) struct Credentials {
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
    private_key_pem: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<String>,
}

impl Credentials {
    /// Returns the authorizer of a scenario.
    pub(crate) fn authorizer(&self, scenario: &str) -> Result<OAuth, Box<dyn Error>> {
        // The suite has a new authorization server in each run, and gives no issuer in most contexts.
        let auth = OAuth::builder().client_name("conformance-client").user_agent(Visitor).dangerous_any_issuer();
        let auth = match scenario {
            "auth/basic-cimd" => auth.client_metadata_url(CLIENT_METADATA),
            "auth/client-credentials-jwt" => {
                let key = ClientKey::from_pem(given(&self.private_key_pem, "private_key_pem")?.as_bytes())?;
                auth.client_id(given(&self.client_id, "client_id")?).client_key(key).client_credentials()
            }
            "auth/client-credentials-basic" => self.registered(auth)?.client_credentials(),
            // The older release has another name for the scenario.
            "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow" => {
                self.registered(auth)?.assertion(self.identity_provider()?)
            }
            "auth/wif-jwt-bearer" => auth.assertion(Workload(given(&self.valid_jwt, "valid_jwt")?.into())),
            _ if self.client_id.is_some() => self.registered(auth)?,
            _ => auth,
        };
        Ok(auth.build())
    }

    /// Adds the client that the operator of the authorization server registered.
    fn registered(&self, auth: OAuthBuilder) -> Result<OAuthBuilder, String> {
        let auth = auth.client_id(given(&self.client_id, "client_id")?);
        let auth = auth.client_secret(given(&self.client_secret, "client_secret")?);
        Ok(match &self.issuer {
            Some(issuer) => auth.issuer(issuer),
            None => auth,
        })
    }

    fn identity_provider(&self) -> Result<IdentityProvider, String> {
        let url = given(&self.idp_token_endpoint, "idp_token_endpoint")?;
        let client = given(&self.idp_client_id, "idp_client_id")?;
        let token = given(&self.idp_id_token, "idp_id_token")?;
        let provider = IdentityProvider::new(url, client, SubjectTokenType::IdToken, token);
        Ok(provider.fetch(Fetch::builder().for_server(url).build()))
    }
}

fn given<'a>(value: &'a Option<String>, name: &str) -> Result<&'a str, String> {
    value.as_deref().ok_or_else(|| format!("the context of the scenario has no member `{name}`"))
}

/// The user of the suite. Its authorization server approves each login, and redirects to the client.
struct Visitor;

impl UserAgent for Visitor {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, oauth::Error>> {
        Box::pin(async move {
            let mut next = Some(login.url.clone());
            for _ in 0..MAX_PAGES {
                let Some(url) = next else { return Ok(Answer::Redirect) };
                let opened = tokio::time::timeout(PAGE_LIMIT, redirect(&url)).await;
                next = opened.unwrap_or_else(|elapsed| Err(elapsed.into())).map_err(|error| {
                    let text = "a page of the login cannot be read";
                    oauth::Error::with_source(ErrorKind::Denied, text, error)
                })?;
            }
            Err(oauth::Error::new(ErrorKind::Denied, "the page of the login has too many redirects"))
        })
    }
}

/// Opens a page over HTTP/1.1, and returns the target of its redirect.
async fn redirect(url: &Url) -> io::Result<Option<Url>> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let host =
        url.host_str().filter(|_| url.scheme() == "http").ok_or_else(|| invalid("the URL is not an HTTP URL"))?;
    let port = url.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host, port)).await?;
    let query = url.query().unwrap_or_default();
    let request = format!("GET {}?{query} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n", url.path());
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.take(MAX_PAGE).read_to_string(&mut response).await?;
    let mut head = response.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let Some((_, to)) = head.find(|(name, _)| name.eq_ignore_ascii_case("location")) else { return Ok(None) };
    url.join(to.trim()).map(Some).map_err(|_| invalid("the target of the redirect is not a URL"))
}

/// A workload with the token of its platform.
struct Workload(Secret);

impl Assertion for Workload {
    fn assertion<'a>(&'a self, _: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, oauth::Error>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}
