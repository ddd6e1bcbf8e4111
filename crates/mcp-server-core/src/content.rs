//! Content from the disk: files as resources, and directories that describe a server.

#[cfg(feature = "fs")]
mod command;
mod error;
mod listing;
#[cfg(feature = "fs")]
mod load;
#[cfg(feature = "fs")]
mod manifest;
mod mime;
#[cfg(feature = "fs")]
mod resource_dir;
mod sandbox;
#[cfg(feature = "fs")]
mod server_dir;
#[cfg(feature = "fs")]
mod watch;

pub use self::error::ContentProblem;
#[cfg(feature = "fs")]
pub use self::resource_dir::ResourceDir;
#[cfg(feature = "fs")]
pub(crate) use self::watch::{Watched, Watchers};
#[cfg(feature = "skills")]
pub(crate) use self::{
    listing::list,
    mime::{contents, of_name},
    sandbox::Sandbox,
};

/// A segment of a URI's path out of a name: everything but what RFC 3986 lets stand is percent-encoded.
pub(crate) fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_for_uris() {
        for (path, expected) in [
            ("a/b.txt", "a/b.txt"),
            ("a b", "a%20b"),
            ("100%", "100%25"),
            ("why?#1", "why%3F%231"),
            ("é", "%C3%A9"),
            ("{x}", "%7Bx%7D"),
        ] {
            assert_eq!(encode_path(path), expected);
        }
    }
}
