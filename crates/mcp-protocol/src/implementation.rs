//! The identity of a client or server, and the icons of named things.

use serde::{Deserialize, Serialize};

use crate::json;

/// The identity of a client or a server. For display only: it never drives behaviour or security.
///
/// ```
/// use mcp_protocol::{Icon, Implementation};
///
/// let server = Implementation::new("weather", "1.2.0")
///     .with_title("Weather service")
///     .with_icon(Icon::new("https://weather.example/icon.png").with_sizes(["48x48"]));
/// assert_eq!(server.title.as_deref(), Some("Weather service"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// The name for programs.
    pub name: String,
    /// The version of the implementation, in its own scheme.
    #[serde(default, deserialize_with = "json::null_default")]
    pub version: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description in one sentence (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Icons to show beside it (2025-11-25).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// The address of a web page about the implementation (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
}

impl Implementation {
    /// Returns an implementation with a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

setters! {
    Implementation {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description (2025-11-25).
        with_description = text description;
        /// Sets the address of a web page about the implementation (2025-11-25).
        with_website_url = text website_url;
        /// Adds an icon (2025-11-25).
        with_icon = push icons: Icon;
    }
}

/// An image for a named thing (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI. A client must reject other schemes and must not send credentials.
    pub src: String,
    /// The media type, if `src` does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The background that it is made for.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

impl Icon {
    /// Returns an icon at a URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Sets the sizes.
    #[must_use]
    pub fn with_sizes(mut self, sizes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.sizes = sizes.into_iter().map(Into::into).collect();
        self
    }
}

setters! {
    Icon {
        /// Sets the media type.
        with_mime_type = text mime_type;
        /// Sets the background that the icon is made for.
        with_theme = some theme: IconTheme;
    }
}

/// The background that an icon is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IconTheme {
    /// For a light background.
    Light,
    /// For a dark background.
    Dark,
}
