//! A browser for tests without a page.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use url::{Position, Url};

/// The longest wait for a page.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest response, in bytes.
const LARGEST: u64 = 1 << 20;

/// Opens a page as a browser does, and returns the target of its redirect. Returns `None` for a page without a redirect.
///
/// A user agent of a test opens the page of a login, and then the target. The server of the page must be on this machine, and
/// the scheme is `http`.
///
/// ```
/// use mcp_test::authorization_server::{AuthorizationServer, open_page};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder().start().await?;
/// let page = format!("{}/authorize", server.issuer());
/// // A request without a client is an error page.
/// assert_eq!(open_page(&page).await?, None);
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Errors
/// If the URL is invalid, or the server does not respond in 30 seconds.
pub async fn open_page(url: &str) -> io::Result<Option<String>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the page is not an `http` URL of this machine");
    let url = Url::parse(url).map_err(|_| invalid())?;
    let (Some(host), Some(port), "http") = (url.host_str(), url.port_or_known_default(), url.scheme()) else {
        return Err(invalid());
    };
    let authority = format!("{host}:{port}");
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let opened = async {
        let mut stream = TcpStream::connect(&authority).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.take(LARGEST).read_to_end(&mut response).await?;
        Ok(location(&String::from_utf8_lossy(&response)))
    };
    timeout(LIMIT, opened).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the header `Location` of a response.
fn location(response: &str) -> Option<String> {
    let mut lines = response.lines().take_while(|line| !line.is_empty());
    let found = lines.find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("location")));
    found.map(|(_, target)| target.trim().to_owned())
}
