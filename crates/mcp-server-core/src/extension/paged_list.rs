//! Lists of an extension, cut into pages like the lists of the server.

use std::{collections::HashMap, fmt, sync::Arc};

use mcp_protocol::{ProtocolVersion, RpcError, Shape};
use serde::Serialize;

use super::{MethodRequest, MethodResult};
use crate::registry::{self, Definition, List, PageForm, Pages, RegistrationError};

/// A list that a method of an extension returns page by page.
///
/// The pages have the size and the cache hints of the server's own lists. The server writes each page once per revision.
///
/// # Example
/// ```
/// use mcp_protocol::PaginatedParams;
/// use mcp_server_core::extension::{MethodRoute, PagedList};
///
/// let mut planets = PagedList::new("planets");
/// for name in ["Mercury", "Venus", "Earth"] {
///     planets.push(name, &serde_json::json!({ "name": name }))?;
/// }
/// let route = MethodRoute::immediate("com.example/planets", move |request| {
///     let params: PaginatedParams = request.params()?;
///     planets.page(request, params.cursor.as_deref())
/// });
/// # let _: MethodRoute = route;
/// # Ok::<(), mcp_server_core::RegistrationError>(())
/// ```
pub struct PagedList {
    member: &'static str,
    by_key: HashMap<Box<str>, Arc<Item>>,
    ordered: Vec<(u64, Arc<Item>)>,
    pages: Pages,
}

/// One entry of a list.
enum Item {
    /// The same JSON in every revision.
    Fixed(Vec<u8>),
    /// JSON whose form depends on the revision.
    Shaped(Box<dyn Fn(ProtocolVersion) -> Vec<u8> + Send + Sync>),
}

impl Definition for Item {
    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        match self {
            Self::Fixed(json) => json.clone(),
            Self::Shaped(write) => write(version),
        }
    }
}

impl PagedList {
    /// Creates an empty list. `member` is the name of the list in its results, for example `planets`.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn new(member: &'static str) -> Self {
        Self { member, by_key: HashMap::new(), ordered: Vec::new(), pages: Pages::default() }
    }

    /// Appends an entry that looks the same in every revision.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns an error when the key is already in the list, or the value does not serialize as JSON.
    pub fn push<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), RegistrationError> {
        let json = serde_json::to_vec(value)
            .map_err(|error| RegistrationError::new(format!("the entry `{key}` cannot be written as JSON: {error}")))?;
        self.insert(key, Item::Fixed(json))
    }

    /// Appends an entry whose form depends on the revision.
    ///
    /// ```
    /// use mcp_protocol::Resource;
    /// use mcp_server_core::extension::PagedList;
    ///
    /// let mut list = PagedList::new("planets");
    /// // A revision without icons receives the entry without its icons.
    /// list.push_shaped("mars", Resource::new("planet://mars", "mars"))?;
    /// assert!(list.push_shaped("mars", Resource::new("planet://mars", "mars")).is_err());
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when the key is already in the list.
    pub fn push_shaped<T>(&mut self, key: &str, value: T) -> Result<(), RegistrationError>
    where
        T: Shape + Serialize + Clone + Send + Sync + 'static,
    {
        self.insert(key, Item::Shaped(Box::new(move |version| registry::definition(&value, version))))
    }

    fn insert(&mut self, key: &str, item: Item) -> Result<(), RegistrationError> {
        if self.by_key.contains_key(key) {
            return Err(RegistrationError::new(format!("the entry `{key}` is already in the list")));
        }
        let item = Arc::new(item);
        self.by_key.insert(key.into(), item.clone());
        self.ordered.push((self.ordered.len() as u64 + 1, item));
        self.pages = Pages::default();
        Ok(())
    }

    /// Returns the page behind a cursor, or the first page without one.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns `-32602` when the cursor does not come from this list.
    pub fn page(&self, request: &MethodRequest<'_>, cursor: Option<&str>) -> Result<MethodResult, RpcError> {
        let form = PageForm::new(List::Extension(self.member), request.version(), request.style());
        self.pages
            .page(form, &self.ordered, cursor, |_| true)
            .map(MethodResult::written)
            .map_err(|_| RpcError::invalid_params("invalid cursor"))
    }

    /// Returns the entry with this key as the member `member` of a result.
    ///
    /// ```
    /// use mcp_protocol::RpcError;
    /// use mcp_server_core::extension::{MethodRequest, MethodResult, PagedList};
    ///
    /// fn get_planet(list: &PagedList, request: &MethodRequest<'_>, key: &str) -> Result<MethodResult, RpcError> {
    ///     list.single(request, key, "planet").ok_or_else(|| RpcError::invalid_params(format!("no planet `{key}`")))
    /// }
    /// # let _ = get_planet;
    /// ```
    #[must_use]
    pub fn single(&self, request: &MethodRequest<'_>, key: &str, member: &str) -> Option<MethodResult> {
        let definition = self.by_key.get(key)?.definition(request.version());
        Some(MethodResult::written(request.style().single(member, &definition, request.version())))
    }
}

impl fmt::Debug for PagedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedList")
            .field("member", &self.member)
            .field("entries", &self.ordered.len())
            .finish_non_exhaustive()
    }
}
