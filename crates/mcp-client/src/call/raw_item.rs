//! An item of a list with its JSON as the server sent it.

use std::{fmt, ops::Deref, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
    ser::Error as _,
};
use serde_json::value::RawValue;

use super::{ListItem, list::List, page::sealed};

/// An item of a list with its JSON as the server sent it ([`List::raw_items`]). It derefs to the item.
///
/// It serializes as its JSON. Two values are equal if their JSON is equal.
///
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let tools = client.list_tools().raw_items().await?;
/// assert_eq!(tools[0].name, "greet");
/// println!("{}", tools[0].json());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RawItem<T> {
    item: T,
    json: Arc<str>,
}

impl<T> RawItem<T> {
    /// Returns the JSON. It includes members that this library does not know.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn json(&self) -> &Arc<str> {
        &self.json
    }

    /// Returns the item and its JSON.
    ///
    /// ```
    /// use mcp_client::{RawItem, protocol::Prompt};
    ///
    /// let raw: RawItem<Prompt> = serde_json::from_str(r#"{"name":"review","vendor":1.50}"#)?;
    /// let (prompt, json) = raw.into_parts();
    /// assert_eq!((&*prompt.name, &*json), ("review", r#"{"name":"review","vendor":1.50}"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (T, Arc<str>) {
        (self.item, self.json)
    }
}

impl<T: ListItem> List<T> {
    /// Returns this request with the JSON of each item.
    ///
    /// See the example of [`RawItem`].
    pub fn raw_items(self) -> List<RawItem<T>> {
        self.of_items()
    }
}

impl<T: ListItem> sealed::Listed for RawItem<T> {
    fn as_tool(&self) -> Option<&mcp_protocol::Tool> {
        self.item.as_tool()
    }
}

impl<T: ListItem> ListItem for RawItem<T> {
    const METHOD: &'static str = T::METHOD;
    const MEMBER: &'static str = T::MEMBER;
}

impl<T> Deref for RawItem<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> PartialEq for RawItem<T> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl<T> Serialize for RawItem<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.json).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Reads JSON only, because other formats have no raw values.
impl<'de, T: DeserializeOwned> Deserialize<'de> for RawItem<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let item = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { item, json: raw.get().into() })
    }
}

impl<T> fmt::Debug for RawItem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawItem").field(&self.json).finish()
    }
}
