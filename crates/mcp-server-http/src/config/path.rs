//! The paths of the configuration: each of them is a route of a router and a path that clients send unchanged.

/// Returns the absolute path of a setting.
///
/// # Errors
/// The path cannot be a route.
pub(super) fn absolute(setting: &str, path: String) -> Result<String, String> {
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    match check(&path) {
        Ok(()) => Ok(path),
        Err(reason) => Err(format!("`{setting}` is `{}`: {reason}", path.escape_debug())),
    }
}

/// Checks that a router can have the path as a route, and that clients send it as it is (RFC 3986 section 3.3).
///
/// # Errors
/// The character or the segment that is not allowed.
pub(super) fn check(path: &str) -> Result<(), String> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(char);
    if let Some(char) = path.chars().find(|char| !is_allowed(*char)) {
        return Err(format!("a path cannot contain {char:?}"));
    }
    let is_hex = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let bytes = path.as_bytes();
    let mut percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| at);
    if percents.any(|at| !is_hex(bytes.get(at + 1)) || !is_hex(bytes.get(at + 2))) {
        return Err("two hexadecimal digits must follow each `%`".to_owned());
    }
    for segment in path.split('/') {
        if matches!(segment.replace("%2e", ".").replace("%2E", ".").as_str(), "." | "..") {
            return Err(format!("clients remove the segment `{segment}`"));
        }
        if segment.starts_with([':', '*']) {
            return Err(format!("the segment `{segment}` begins with `{}`", &segment[..1]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{HttpConfig, HttpServer};
    use mcp_server_core::Server;

    #[test]
    fn a_path_is_checked_by_its_setting() {
        for (path, reason) in [
            ("/a?b", "`/a?b`: a path cannot contain '?'"),
            ("/a#b", "`/a#b`: a path cannot contain '#'"),
            ("a b", "`/a b`: a path cannot contain ' '"),
            ("/a\nb", "`/a\\nb`: a path cannot contain '\\n'"),
            ("/{id}", "`/{id}`: a path cannot contain '{'"),
            ("/a}", "`/a}`: a path cannot contain '}'"),
            ("/caf\u{e9}", "`/caf\u{e9}`: a path cannot contain '\u{e9}'"),
            ("/a\\b", "`/a\\\\b`: a path cannot contain '\\\\'"),
            ("/100%", "`/100%`: two hexadecimal digits must follow each `%`"),
            ("/%g0", "`/%g0`: two hexadecimal digits must follow each `%`"),
            ("/a/../b", "`/a/../b`: clients remove the segment `..`"),
            ("/a/%2E", "`/a/%2E`: clients remove the segment `%2E`"),
            ("/:id", "`/:id`: the segment `:id` begins with `:`"),
            ("/a/*rest", "`/a/*rest`: the segment `*rest` begins with `*`"),
        ] {
            type Set = fn(HttpConfig, &str) -> HttpConfig;
            let settings: [(&str, Set); 5] = [
                ("path", |config, path| config.path(path)),
                ("sse", |config, path| config.sse(path, "/messages")),
                ("sse", |config, path| config.sse("/sse", path)),
                ("health", |config, path| config.health(path)),
                ("readiness", |config, path| config.readiness(path)),
            ];
            for (name, set) in settings {
                let error = set(HttpConfig::new(), path).check().unwrap_err();
                assert_eq!(error.to_string(), format!("`{name}` is {reason}"));
            }
        }
    }

    #[test]
    fn a_valid_path_is_a_route() {
        for path in
            ["", "/", "/mcp", "mcp/", "//mcp", "/a:b/c*d/@!$&'()+,;=~", "/caf%C3%A9", "/.well-known/mcp", "/..."]
        {
            let server = Server::builder("test", "1").build();
            let router = server.into_router(HttpConfig::new().path(path).health(format!("{path}/health")));
            assert!(router.has_routes(), "{path}");
        }
    }
}
