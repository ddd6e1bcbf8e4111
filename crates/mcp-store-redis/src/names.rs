//! The names of keys and channels in Redis. All keys of a namespace are in the same slot of a cluster.

use mcp_store::StoreError;

/// The maximum bytes of a namespace.
const MAX_NAMESPACE_BYTES: usize = 64;

/// The names of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `{namespace}:`
    prefix: String,
}

impl Names {
    /// Returns the names of `namespace`.
    pub(crate) fn new(namespace: &str) -> Result<Self, StoreError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'*' | b'?' | b'[' | b']');
        if namespace.is_empty() || namespace.len() > MAX_NAMESPACE_BYTES || !namespace.bytes().all(is_allowed) {
            return Err(StoreError::invalid(format!(
                "the namespace {namespace:?} is not a text of 1 to {MAX_NAMESPACE_BYTES} visible ASCII characters without {{}}[]*?"
            )));
        }
        Ok(Self { prefix: format!("{{{namespace}}}:") })
    }

    /// The key of the value of a record.
    pub(crate) fn value(&self, key: &str) -> String {
        self.join("k:", key)
    }

    /// The prefix of [`value`](Self::value).
    pub(crate) fn values(&self) -> String {
        self.value("")
    }

    /// The key of the sorted set of all keys.
    pub(crate) fn index(&self) -> String {
        self.join("index", "")
    }

    /// The key of the sorted set of the times of expiry.
    pub(crate) fn expiries(&self) -> String {
        self.join("expiries", "")
    }

    /// The key of the stream of a log.
    pub(crate) fn stream(&self, log: &str) -> String {
        self.join("l:", log)
    }

    /// The key of the hash with the numbers of a log.
    pub(crate) fn numbers(&self, log: &str) -> String {
        self.join("n:", log)
    }

    /// The channel of a topic.
    pub(crate) fn channel(&self, topic: &str) -> String {
        self.join("t:", topic)
    }

    /// The topic of a channel.
    pub(crate) fn topic<'a>(&self, channel: &'a str) -> Option<&'a str> {
        channel.strip_prefix(&self.prefix)?.strip_prefix("t:")
    }

    fn join(&self, kind: &str, name: &str) -> String {
        [&self.prefix, kind, name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_namespace_share_its_slot() {
        let names = Names::new("mcp/notes").unwrap();
        assert_eq!(names.value("a}b"), "{mcp/notes}:k:a}b");
        let all = [names.index(), names.expiries(), names.stream("a"), names.numbers("a"), names.channel("a")];
        assert!(all.iter().all(|name| name.starts_with("{mcp/notes}:")), "{all:?}");
        assert_eq!(names.topic(&names.channel("t:x")), Some("t:x"));
        assert_eq!(names.topic("{other}:t:x"), None);
    }

    #[test]
    fn a_namespace_is_a_short_visible_text() {
        for bad in ["", "a b", "a{b", "a}", "a*", "ä", "a\n", &"n".repeat(65)] {
            assert!(Names::new(bad).unwrap_err().is_invalid(), "{bad:?}");
        }
        assert!(Names::new(&"n".repeat(64)).is_ok());
    }
}
