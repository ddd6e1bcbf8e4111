//! The names of tools and prompts of several servers: display names and provider names.

use mcp_agent::config::ServerDefinition;
use mcp_tool_format::qualified_name;

/// The server that a name contains.
pub(super) enum Resolved {
    /// The server, and the name at the server.
    Name(Box<ServerDefinition>, String),
    /// The name alone does not determine a server.
    Unknown,
}

/// Returns the server of a display name (`server:tool`) or of a plain provider name (`server__tool`).
pub(super) fn by_name(name: &str, servers: &[ServerDefinition]) -> Resolved {
    for server in servers {
        let own = name.strip_prefix(&*server.name);
        let display = own.and_then(|rest| rest.strip_prefix(':'));
        let provider =
            own.and_then(|rest| rest.strip_prefix("__")).filter(|tool| qualified_name(&server.name, tool) == name);
        if let Some(tool) = display.or(provider) {
            return Resolved::Name(Box::new(server.clone()), tool.to_owned());
        }
    }
    Resolved::Unknown
}

/// Returns the server of a display name among the servers that a file defines. The command may be unable to use that server.
pub(super) fn prefix_of<'s>(name: &str, declared: &'s [String]) -> Option<&'s str> {
    let (server, _) = name.split_once(':')?;
    declared.iter().map(String::as_str).find(|declared| *declared == server)
}

/// Returns whether a name can be a provider name with a hash: it ends in `_0` and ten letters or digits.
pub(super) fn has_hash(name: &str) -> bool {
    let hash = name.len().checked_sub(12).and_then(|at| name.get(at..)).and_then(|end| end.strip_prefix("_0"));
    hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_and_plain_provider_names_contain_the_server() {
        let servers = ["a", "a_b", "files.local"].map(|name| ServerDefinition::stdio(name, "x"));
        for (name, expected) in [
            ("a:read", Some(("a", "read"))),
            ("a:b:c", Some(("a", "b:c"))),
            ("a_b__read", Some(("a_b", "read"))),
            ("a__b_read", Some(("a", "b_read"))),
            ("files.local:read file", Some(("files.local", "read file"))),
            // This name has a hash, so only the list of the server has it.
            ("files_local__read_file_0ce5xkyvmia", None),
            ("read", None),
            ("other:read", None),
        ] {
            let found = match by_name(name, &servers) {
                Resolved::Name(server, tool) => Some((server.name, tool)),
                Resolved::Unknown => None,
            };
            let found = found.as_ref().map(|(server, tool)| (server.as_str(), tool.as_str()));
            assert_eq!(found, expected, "{name}");
        }
        assert!(has_hash("files_local__read_file_0ce5xkyvmia") && !has_hash("read_file") && !has_hash("é_0"));
    }
}
