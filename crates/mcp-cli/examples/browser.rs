//! A browser for the tests of logins: it opens the URL of its argument and follows each redirect.

use std::{
    error::Error,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// The longest wait for a server.
const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_REDIRECTS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut url = std::env::args().nth(1).ok_or("the URL is missing")?;
    for _ in 0..MAX_REDIRECTS {
        let Some(next) = location(&url)? else { return Ok(()) };
        url = next;
    }
    Err("too many redirects".into())
}

/// Requests a page, and returns the target of its redirect.
fn location(url: &str) -> Result<Option<String>, Box<dyn Error>> {
    let rest = url.strip_prefix("http://").ok_or("only http is supported")?;
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("location: "));
    Ok(line.map(|line| line["location: ".len()..].trim().to_owned()))
}
