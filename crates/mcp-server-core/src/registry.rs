//! The registries of a server: its lists in stable order, which readers use without a lock.

mod completion;
mod cursor;
mod declarative;
mod method;
mod pages;
mod parameter;
mod prompt;
mod resource;
mod text_fields;
mod tool;
mod update;

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::{ArcSwap, Guard};
use mcp_protocol::{ProtocolVersion, Shape};
use mcp_transport::Line;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{access::Access, error::Named};

pub(crate) use self::{
    completion::{CompletionSource, Sources},
    method::{MethodRun, ResultForm},
    pages::{ListStyle, PageError, PageForm, Pages},
    prompt::{PromptEntry, PromptSpec},
    resource::{ResourceEntry, ResourceSpec, TemplateEntry, TemplateSpec},
    tool::{ToolEntry, ToolSpec},
};
pub use self::{
    declarative::{MessageTemplate, prompt_template},
    method::{MethodCall, MethodRequest, MethodResult, MethodRoute},
    parameter::{Parameter, ParameterType},
    prompt::{PromptRoute, prompt},
    resource::{ResourceRoute, TemplateRoute, resource, template},
    tool::{ToolRoute, tool},
    update::ResourceUpdate,
};

/// An entry of a list, as its pages show it.
pub(crate) trait Definition {
    /// Returns the definition as JSON, in the form of a revision.
    fn definition(&self, version: ProtocolVersion) -> Vec<u8>;
}

impl<E: Entry> Named for E {
    fn kind(&self) -> &'static str {
        match E::LIST {
            List::Tools => "tool",
            List::Resources => "resource",
            List::ResourceTemplates => "resource template",
            List::Prompts => "prompt",
            List::Extension(_) => "entry",
        }
    }

    fn name(&self) -> &str {
        self.key()
    }
}

/// An entry of a registry.
pub(crate) trait Entry: Definition + Send + Sync + 'static {
    /// The list of the entry.
    const LIST: List;

    /// The name or the URI of the entry.
    fn key(&self) -> &str;

    /// Whether the entry adds a capability besides its list: tasks of a tool, completions of a prompt or a template.
    fn brings_more(&self) -> bool {
        false
    }

    /// The access rule of the entry.
    fn access(&self) -> &Access {
        const { &Access::PUBLIC }
    }
}

/// A list of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    ResourceTemplates,
    Prompts,
    /// A list of an extension, by the member of its results.
    Extension(&'static str),
}

impl List {
    /// The member of the result that holds the list.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Extension(member) => member,
        }
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::ResourceTemplates => "resource template",
            Self::Prompts => "prompt",
            Self::Extension(_) => "entry",
        }
    }

    /// The byte that binds a cursor to its list. Lists of extensions may share one.
    fn tag(self) -> u8 {
        match self {
            Self::Tools => 0,
            Self::Resources => 1,
            Self::ResourceTemplates => 2,
            Self::Prompts => 3,
            Self::Extension(member) => member.bytes().fold(0x80, |tag: u8, byte| tag.rotate_left(3) ^ byte) | 0x80,
        }
    }
}

/// Returns a definition as JSON, in the form of a revision.
pub(crate) fn definition<T: Shape + Serialize + Clone>(value: &T, version: ProtocolVersion) -> Vec<u8> {
    let mut value = value.clone();
    value.shape(version);
    // Definitions consist of JSON values, texts and numbers, which always serialize.
    serde_json::to_vec(&value).unwrap_or_default()
}

/// The reason why a builder or a server refused a registration.
///
/// ```
/// use mcp_server_core::{RegistrationError, Server, tool};
///
/// let error = Server::builder::<()>("app", "1.0.0").try_tool(tool("", async || "")).err().unwrap();
/// assert!(error.to_string().contains("name"));
/// assert_eq!(RegistrationError::new("a conflict").to_string(), "a conflict");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationError {
    message: String,
}

impl RegistrationError {
    /// Creates an error with a message, for extensions that check their own registrations.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for RegistrationError {
    /// Writes the message, because a program whose `main` returns the error prints this form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RegistrationError {}

/// One list of a server. Readers load a snapshot, and writers replace it.
pub(crate) struct Registry<E> {
    snapshot: ArcSwap<Snapshot<E>>,
    write: Mutex<()>,
}

/// The outcome of [`Registry::update`].
pub(crate) struct UpdateOutcome {
    /// The keys of the entries that were not added, because other entries have these keys.
    pub(crate) taken: Vec<String>,
    /// Whether an entry was added or removed.
    pub(crate) differs: bool,
}

/// The list at one moment.
pub(crate) struct Snapshot<E> {
    by_key: HashMap<Box<str>, Arc<E>>,
    /// The entries in the order of registration. A number never repeats, so that a cursor stays valid when the list changes.
    ordered: Vec<(u64, Arc<E>)>,
    next: u64,
    /// Whether an entry adds a capability besides the list, or an earlier entry did.
    has_more: bool,
    /// Whether an entry has an access rule.
    has_rules: bool,
    pages: Pages,
}

impl<E> Default for Snapshot<E> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            ordered: Vec::new(),
            next: FIRST,
            has_more: false,
            has_rules: false,
            pages: Pages::default(),
        }
    }
}

/// The number of the first entry. The first page starts after zero.
const FIRST: u64 = 1;

impl<E: Entry> Default for Registry<E> {
    fn default() -> Self {
        Self { snapshot: ArcSwap::from_pointee(Snapshot::default()), write: Mutex::new(()) }
    }
}

impl<E: Entry> Registry<E> {
    pub(crate) fn load(&self) -> Guard<Arc<Snapshot<E>>> {
        self.snapshot.load()
    }

    /// Adds all entries or none.
    pub(crate) fn add(&self, entries: impl IntoIterator<Item = E>) -> Result<usize, RegistrationError> {
        let _writing = self.write.lock();
        let current = self.snapshot.load_full();
        let mut by_key = current.by_key.clone();
        let mut ordered = current.ordered.clone();
        let mut next = current.next;
        for entry in entries {
            let entry = Arc::new(entry);
            if by_key.insert(entry.key().into(), entry.clone()).is_some() {
                return Err(RegistrationError::new(format!(
                    "the {} `{}` is already registered",
                    E::LIST.noun(),
                    entry.key()
                )));
            }
            ordered.push((next, entry));
            next += 1;
        }
        let added = ordered.len() - current.ordered.len();
        if added > 0 {
            self.store(&current, by_key, ordered, next);
        }
        Ok(added)
    }

    /// Removes entries, replaces entries by others with the same keys, and adds more at the end, in one step.
    ///
    /// A change without effect keeps the snapshot and its pages.
    pub(crate) fn update(
        &self,
        removed: &std::collections::HashSet<String>,
        replaced: Vec<E>,
        added: Vec<E>,
    ) -> UpdateOutcome {
        let _writing = self.write.lock();
        let current = self.snapshot.load_full();
        let has = |key: &str| current.by_key.contains_key(key);
        let (taken, added): (Vec<E>, Vec<E>) =
            added.into_iter().partition(|entry| has(entry.key()) && !removed.contains(entry.key()));
        let taken = taken.into_iter().map(|entry| entry.key().to_owned()).collect();
        let differs = !added.is_empty() || removed.iter().any(|key| has(key));
        if !differs && !replaced.iter().any(|entry| has(entry.key())) {
            return UpdateOutcome { taken, differs };
        }
        let mut by_key = current.by_key.clone();
        let mut ordered = current.ordered.clone();
        let mut next = current.next;
        by_key.retain(|key, _| !removed.contains(&**key));
        ordered.retain(|(_, entry)| !removed.contains(entry.key()));
        let replaced: HashMap<String, Arc<E>> =
            replaced.into_iter().map(|entry| (entry.key().to_owned(), Arc::new(entry))).collect();
        for (_, entry) in &mut ordered {
            if let Some(new) = replaced.get(entry.key()) {
                *entry = new.clone();
                by_key.insert(new.key().into(), new.clone());
            }
        }
        for entry in added {
            let entry = Arc::new(entry);
            by_key.insert(entry.key().into(), entry.clone());
            ordered.push((next, entry));
            next += 1;
        }
        self.store(&current, by_key, ordered, next);
        UpdateOutcome { taken, differs }
    }

    /// Removes an entry. Returns false if the list does not contain it.
    pub(crate) fn remove(&self, key: &str) -> bool {
        let _writing = self.write.lock();
        let current = self.snapshot.load_full();
        if !current.by_key.contains_key(key) {
            return false;
        }
        let mut by_key = current.by_key.clone();
        by_key.remove(key);
        let ordered = current.ordered.iter().filter(|(_, entry)| entry.key() != key).cloned().collect();
        self.store(&current, by_key, ordered, current.next);
        true
    }

    /// Replaces the current snapshot.
    fn store(&self, current: &Snapshot<E>, by_key: HashMap<Box<str>, Arc<E>>, ordered: Vec<(u64, Arc<E>)>, next: u64) {
        let has_more = current.has_more || ordered.iter().any(|(_, entry)| entry.brings_more());
        let has_rules = ordered.iter().any(|(_, entry)| !entry.access().is_public());
        let pages = Pages::default();
        self.snapshot.store(Arc::new(Snapshot { by_key, ordered, next, has_more, has_rules, pages }));
    }
}

impl<E: Entry> Snapshot<E> {
    pub(crate) fn find(&self, key: &str) -> Option<&Arc<E>> {
        self.by_key.get(key)
    }

    /// Whether the list has an entry, or ever had one. A declared capability stays declared when the list becomes empty.
    pub(crate) fn is_in_use(&self) -> bool {
        self.next > FIRST
    }

    /// Whether an entry adds a capability besides the list, or ever did. Clients may use the capability after the entry is
    /// removed, for example to fetch a task.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<E>> {
        self.ordered.iter().map(|(_, entry)| entry)
    }

    /// Returns the result of a list request with the entries that the caller may use.
    ///
    /// The result differs between callers if an entry has an access rule, or if `is_public` is false because the server has
    /// one. Its cache scope is private then.
    pub(crate) fn visible_page(
        &self,
        version: ProtocolVersion,
        cursor: Option<&str>,
        style: &ListStyle,
        is_public: bool,
        is_allowed: impl Fn(&Access) -> bool,
    ) -> Result<Line, PageError> {
        if is_public && !self.has_rules {
            return self.page(version, cursor, style);
        }
        let form = PageForm::new(E::LIST, version, style).private();
        self.pages.page(form, &self.ordered, cursor, |entry| is_allowed(entry.access()))
    }

    /// Returns the result of a list request. It is written once per revision and page.
    pub(crate) fn page(
        &self,
        version: ProtocolVersion,
        cursor: Option<&str>,
        style: &ListStyle,
    ) -> Result<Line, PageError> {
        self.pages.page(PageForm::new(E::LIST, version, style), &self.ordered, cursor, |_| true)
    }
}
