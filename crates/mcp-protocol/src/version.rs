//! The revisions of the protocol, and the only place where they are compared: every difference has a name here.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A revision of the protocol. Ordered by date.
///
/// ```
/// use mcp_protocol::ProtocolVersion;
///
/// let version = ProtocolVersion::parse("2025-11-25").ok_or("unknown")?;
/// assert!(version.has_handshake() && !version.is_stateless());
/// assert!(version < ProtocolVersion::LATEST);
/// assert!(ProtocolVersion::ALL.contains(&version));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05: the first; HTTP+SSE.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, audio, annotations, batches.
    V2025_03_26,
    /// 2025-06-18: structured output, elicitation, titles; no batches.
    V2025_06_18,
    /// 2025-11-25: tasks, icons, URL elicitation, sampling with tools.
    V2025_11_25,
    /// 2026-07-28: no handshake, no sessions; metadata on every request.
    V2026_07_28,
}

use ProtocolVersion::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

impl ProtocolVersion {
    /// Every revision, newest first.
    pub const ALL: &[Self] = &[V2026_07_28, V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05];
    /// The newest revision.
    pub const LATEST: Self = V2026_07_28;
    /// The newest revision that opens with `initialize`.
    pub const LATEST_LEGACY: Self = V2025_11_25;
    /// The revision of an HTTP request without a version header and without a session (2025-06-18, transports).
    pub const ASSUMED_WITHOUT_HEADER: Self = V2025_03_26;

    /// Returns the date that names the revision on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            V2024_11_05 => "2024-11-05",
            V2025_03_26 => "2025-03-26",
            V2025_06_18 => "2025-06-18",
            V2025_11_25 => "2025-11-25",
            V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision of that date; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.as_str() == text)
    }

    /// Whether it opens with `initialize` and remembers a session.
    #[must_use]
    pub fn has_handshake(self) -> bool {
        self < V2026_07_28
    }

    /// Whether each request is independent: metadata in `_meta`, no handshake, no session.
    #[must_use]
    pub fn is_stateless(self) -> bool {
        !self.has_handshake()
    }

    /// Whether results carry `resultType` and the server's identity in `_meta`.
    #[must_use]
    pub fn has_result_type(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether cacheable results carry `ttlMs` and `cacheScope`.
    #[must_use]
    pub fn has_cache_hints(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether a server sends input requests in an `input_required` result instead of as separate requests.
    #[must_use]
    pub fn has_input_required(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether change notices flow on `subscriptions/listen` only.
    #[must_use]
    pub fn has_listen(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether `ping`, `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe` exist.
    #[must_use]
    pub fn has_session_methods(self) -> bool {
        self.has_handshake()
    }

    /// Whether HTTP requests mirror version, method and names in headers.
    #[must_use]
    pub fn has_mirrored_headers(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether HTTP requests after `initialize` name the revision in a header.
    #[must_use]
    pub fn has_version_header(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether a JSON array of messages may be sent.
    #[must_use]
    pub fn has_batches(self) -> bool {
        self == V2025_03_26
    }

    /// Whether an empty cursor is a cursor, and not the end of the list.
    #[must_use]
    pub fn has_empty_cursors(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether a missing resource has its own error code.
    #[must_use]
    pub fn has_resource_not_found_code(self) -> bool {
        self < V2026_07_28
    }

    /// Whether content may be audio.
    #[must_use]
    pub fn has_audio(self) -> bool {
        self >= V2025_03_26
    }

    /// Whether tools have annotations.
    #[must_use]
    pub fn has_tool_annotations(self) -> bool {
        self >= V2025_03_26
    }

    /// Whether the server declares a `completions` capability.
    #[must_use]
    pub fn has_completions_capability(self) -> bool {
        self >= V2025_03_26
    }

    /// Whether progress notifications carry a `message`.
    #[must_use]
    pub fn has_progress_message(self) -> bool {
        self >= V2025_03_26
    }

    /// Whether named things have a `title`, definitions and contents a `_meta`, annotations a `lastModified`, and
    /// content may link to a resource.
    #[must_use]
    pub fn has_titles(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether content may link to a resource.
    #[must_use]
    pub fn has_resource_links(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether tools have an output schema and results structured content.
    #[must_use]
    pub fn has_structured_content(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether structured content, and the schema of it, may be anything but an object.
    #[must_use]
    pub fn has_structured_content_of_any_type(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether a completion request carries `context`.
    #[must_use]
    pub fn has_completion_context(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether elicitation exists.
    #[must_use]
    pub fn has_elicitation(self) -> bool {
        self >= V2025_06_18
    }

    /// Whether elicitation has modes, multiple choice, titled choices and defaults of every type.
    #[must_use]
    pub fn has_elicitation_modes(self) -> bool {
        self >= V2025_11_25
    }

    /// Whether a server sends a notification when the user has finished at a URL, and gives an id to each URL
    /// elicitation.
    #[must_use]
    pub fn has_elicitation_complete(self) -> bool {
        self == V2025_11_25
    }

    /// Whether named things and implementations have icons; implementations a description and a web site.
    #[must_use]
    pub fn has_icons(self) -> bool {
        self >= V2025_11_25
    }

    /// Whether sampling may use tools.
    #[must_use]
    pub fn has_sampling_tools(self) -> bool {
        self >= V2025_11_25
    }

    /// Whether tasks are part of the core protocol (and tools have `execution`).
    #[must_use]
    pub fn has_core_tasks(self) -> bool {
        self == V2025_11_25
    }

    /// Whether capabilities have an `extensions` map.
    #[must_use]
    pub fn has_extensions(self) -> bool {
        self >= V2026_07_28
    }

    /// Whether an SSE stream starts with a priming event and may be closed for polling.
    #[must_use]
    pub fn has_sse_polling(self) -> bool {
        self == V2025_11_25
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text does not name a revision that this library supports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownVersion;

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a known protocol version")
    }
}

impl std::error::Error for UnknownVersion {}

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::parse(text).ok_or(UnknownVersion)
    }
}

impl Serialize for ProtocolVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProtocolVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom(UnknownVersion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_order_is_by_date() {
        for &version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::parse(version.as_str()), Some(version));
        }
        assert!(ProtocolVersion::ALL.is_sorted_by(|a, b| a > b));
        assert_eq!(ProtocolVersion::parse("2024-10-07"), None);
        assert_eq!(ProtocolVersion::parse("2026-07-28 "), None);
    }

    #[test]
    fn eras_do_not_overlap() {
        for &version in ProtocolVersion::ALL {
            assert_ne!(version.has_handshake(), version.is_stateless());
            assert!(!(version.has_core_tasks() && version.has_extensions()));
        }
    }

    #[test]
    fn each_revision_has_its_features() {
        // From the oldest revision to the newest.
        for (name, has, expected) in [
            ("handshake", ProtocolVersion::has_handshake as fn(ProtocolVersion) -> bool, "11110"),
            ("stateless", ProtocolVersion::is_stateless, "00001"),
            ("result type", ProtocolVersion::has_result_type, "00001"),
            ("cache hints", ProtocolVersion::has_cache_hints, "00001"),
            ("input required", ProtocolVersion::has_input_required, "00001"),
            ("listen", ProtocolVersion::has_listen, "00001"),
            ("session methods", ProtocolVersion::has_session_methods, "11110"),
            ("mirrored headers", ProtocolVersion::has_mirrored_headers, "00001"),
            ("version header", ProtocolVersion::has_version_header, "00111"),
            ("batches", ProtocolVersion::has_batches, "01000"),
            ("empty cursors", ProtocolVersion::has_empty_cursors, "00001"),
            ("code of a missing resource", ProtocolVersion::has_resource_not_found_code, "11110"),
            ("audio", ProtocolVersion::has_audio, "01111"),
            ("tool annotations", ProtocolVersion::has_tool_annotations, "01111"),
            ("completions", ProtocolVersion::has_completions_capability, "01111"),
            ("progress message", ProtocolVersion::has_progress_message, "01111"),
            ("titles", ProtocolVersion::has_titles, "00111"),
            ("resource links", ProtocolVersion::has_resource_links, "00111"),
            ("structured content", ProtocolVersion::has_structured_content, "00111"),
            ("structured content of any type", ProtocolVersion::has_structured_content_of_any_type, "00001"),
            ("completion context", ProtocolVersion::has_completion_context, "00111"),
            ("elicitation", ProtocolVersion::has_elicitation, "00111"),
            ("elicitation modes", ProtocolVersion::has_elicitation_modes, "00011"),
            ("elicitation complete", ProtocolVersion::has_elicitation_complete, "00010"),
            ("icons", ProtocolVersion::has_icons, "00011"),
            ("sampling tools", ProtocolVersion::has_sampling_tools, "00011"),
            ("core tasks", ProtocolVersion::has_core_tasks, "00010"),
            ("extensions", ProtocolVersion::has_extensions, "00001"),
            ("SSE polling", ProtocolVersion::has_sse_polling, "00010"),
        ] {
            let found = ProtocolVersion::ALL.iter().rev().map(|version| if has(*version) { '1' } else { '0' });
            assert_eq!(String::from_iter(found), expected, "{name}");
        }
    }
}
