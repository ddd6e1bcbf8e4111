//! The URL of a server, with its headers.

use mcp_protocol::auth::Secret;
use url::Url;

use super::{Context, expanded};
use crate::config::{
    code::Code,
    endpoint::{HttpServer, HttpTransport},
    error::Fault,
    expand::Place,
    node::Node,
};

/// Reads the URL of an entry. The texts of a disabled entry are not checked, because its variables are not expanded.
pub(super) fn read(
    entry: &Node<'_>,
    url: &Node<'_>,
    transport: HttpTransport,
    context: &Context<'_>,
    is_enabled: bool,
) -> Result<HttpServer, Fault> {
    let text = expanded(url, Place::Other, context)?;
    if is_enabled {
        check_url(url, &text)?;
    }
    let mut server = HttpServer::new(text);
    server.transport = transport;
    let Some(headers) = entry.get(context.rules.headers) else { return Ok(server) };
    for (name, node) in headers.members()? {
        let value = expanded(&node, Place::Header, context)?;
        add_header(&mut server, name, value, &node)?;
    }
    Ok(server)
}

fn check_url(node: &Node<'_>, text: &str) -> Result<(), Fault> {
    let remedy = "write a URL that begins with `https://` or `http://`";
    let url = Url::parse(text)
        .map_err(|error| node.fault(Code::InvalidUrl, format!("the URL of the server is invalid: {error}"), remedy))?;
    match url.scheme() {
        "http" | "https" => {}
        "ws" | "wss" | "unix" | "pipe" => {
            let message = format!("this library does not have the transport of the scheme `{}`", url.scheme());
            return Err(node.fault(Code::Unsupported, message, "use a server with stdio or Streamable HTTP"));
        }
        scheme => {
            return Err(node.fault(Code::InvalidUrl, format!("the URL has the scheme `{scheme}`"), remedy));
        }
    }
    if !url.username().is_empty() || url.password().is_some() {
        let remedy = "move the credentials to a header";
        return Err(node.fault(Code::InvalidUrl, "the URL contains a user name or a password", remedy));
    }
    Ok(())
}

/// Adds a header to a server.
pub(super) fn add_header(server: &mut HttpServer, name: &str, value: String, node: &Node<'_>) -> Result<(), Fault> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        let remedy = "write a name of letters, digits and `-`";
        return Err(node.fault(Code::InvalidHeader, "the name of the header is invalid", remedy));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        let message = "the value of the header contains a line break or a control character";
        return Err(node.fault(Code::InvalidHeader, message, "remove the character"));
    }
    if server.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        let message = "the entry sets the same header twice";
        return Err(node.fault(Code::InvalidHeader, message, "remove one of the two headers"));
    }
    server.headers.push((name.to_owned(), Secret::new(value)));
    Ok(())
}
