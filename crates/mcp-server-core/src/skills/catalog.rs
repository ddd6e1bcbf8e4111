//! All skills of a server: their files, what is said of them, and what is in which directory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, OnceLock},
};

use arc_swap::Guard;
use bytes::Bytes;
use mcp_protocol::{
    ProtocolVersion, Resource,
    skills::{DIRECTORY_MIME_TYPE, Skill, SkillFile},
};

use super::check::{Checked, Head};
use crate::{
    RegistrationError,
    content::{encode_path, of_name},
    registry::{self, Entry, List, Registry, Snapshot},
};

/// The URI of a file or directory in the namespace of all skills.
pub(super) fn uri(path: &str) -> String {
    format!("skill://{}", encode_path(path))
}

/// A file of a skill.
pub(super) struct File {
    pub(super) digest: String,
    pub(super) bytes: Bytes,
}

/// Skills on their way into a server.
#[derive(Clone, Default)]
pub(crate) struct SkillSet {
    declared: bool,
    files: BTreeMap<String, Arc<File>>,
    skills: Vec<Head>,
    catalog: Arc<OnceLock<Catalog>>,
}

impl SkillSet {
    /// Offers the extension from now on. Returns where the catalog will be, the first time.
    pub(super) fn declare(&mut self) -> Option<Arc<OnceLock<Catalog>>> {
        let is_first = !std::mem::replace(&mut self.declared, true);
        is_first.then(|| self.catalog.clone())
    }

    /// Refuses a skill whose files are there already.
    pub(super) fn reserve(&self, checked: &Checked) -> Result<(), RegistrationError> {
        match checked.files.keys().find(|path| self.files.contains_key(*path)) {
            Some(path) => Err(RegistrationError::new(format!("the file `{path}` of a skill is already served"))),
            None => Ok(()),
        }
    }

    pub(super) fn add(&mut self, checked: Checked) {
        self.files.extend(checked.files);
        self.skills.extend(checked.skills);
    }

    /// Writes the catalog: no skill comes after that.
    pub(crate) fn finish(&mut self) {
        if self.declared {
            let files = std::mem::take(&mut self.files);
            let _ = self.catalog.set(Catalog::new(files, &self.skills));
        }
    }

    pub(super) fn catalog(&self) -> Option<&Catalog> {
        self.catalog.get()
    }
}

impl fmt::Debug for SkillSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.skills.iter().map(|skill| &skill.path);
        f.debug_set().entries(paths).finish()
    }
}

/// All skills of a server.
pub(super) struct Catalog {
    files: BTreeMap<String, Arc<File>>,
    skills: Registry<SkillEntry>,
    directories: HashMap<String, Registry<Child>>,
}

impl Catalog {
    fn new(files: BTreeMap<String, Arc<File>>, heads: &[Head]) -> Self {
        let skills = heads.iter().map(|head| SkillEntry::new(head, &files));
        let by_path: HashMap<&str, &Head> = heads.iter().map(|head| (head.path.as_str(), head)).collect();
        let mut children: BTreeMap<&str, BTreeMap<&str, Resource>> = BTreeMap::new();
        for (path, file) in &files {
            let mut resource = file_resource(path, file, by_path.get(path.as_str()).copied());
            let mut at = path.as_str();
            while let Some((directory, name)) = at.rsplit_once('/') {
                children.entry(directory).or_default().insert(name, resource);
                resource = Resource::new(uri(directory), last(directory)).with_mime_type(DIRECTORY_MIME_TYPE);
                at = directory;
            }
        }
        let directory = |(path, children): (&str, BTreeMap<&str, Resource>)| {
            (uri(path), filled(children.into_values().map(|resource| Child { resource })))
        };
        let directories = children.into_iter().map(directory).collect();
        Self { skills: filled(skills), directories, files }
    }

    pub(super) fn file(&self, path: &str) -> Option<&Arc<File>> {
        self.files.get(path)
    }

    pub(super) fn skills(&self) -> Guard<Arc<Snapshot<SkillEntry>>> {
        self.skills.load()
    }

    pub(super) fn directory(&self, uri: &str) -> Option<Guard<Arc<Snapshot<Child>>>> {
        self.directories.get(uri).map(Registry::load)
    }
}

/// A registry of entries whose keys differ.
fn filled<E: Entry>(entries: impl Iterator<Item = E>) -> Registry<E> {
    let registry = Registry::default();
    if let Err(error) = registry.add(entries) {
        tracing::error!(%error, "an entry was lost");
    }
    registry
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn file_resource(path: &str, file: &File, head: Option<&Head>) -> Resource {
    let name = head.map_or_else(|| last(path), |head| &head.name);
    let mut resource = Resource::new(uri(path), name).with_size(file.bytes.len() as u64);
    resource.mime_type = of_name(path).map(str::to_owned);
    resource.description = head.map(|head| head.description.clone());
    resource
}

/// An entry of `skills/list`.
pub(super) struct SkillEntry {
    uri: String,
    definition: Vec<u8>,
}

impl SkillEntry {
    fn new(head: &Head, files: &BTreeMap<String, Arc<File>>) -> Self {
        let uri = uri(&head.path);
        let directory = head.path.strip_suffix(super::check::SKILL_MD).unwrap_or(&head.path);
        let own = files.range(directory.to_owned()..).take_while(|(path, _)| path.starts_with(directory));
        let own = own.map(|(path, file)| SkillFile::new(self::uri(path), &file.digest, file.bytes.len() as u64));
        let skill = Skill::new(&uri, head.frontmatter.clone(), own.collect());
        // Texts and JSON values are written into memory, which has no way to fail.
        Self { definition: serde_json::to_vec(&skill).unwrap_or_default(), uri }
    }
}

impl Entry for SkillEntry {
    const LIST: List = List::Skills;

    fn key(&self) -> &str {
        &self.uri
    }

    fn definition(&self, _version: ProtocolVersion) -> Vec<u8> {
        self.definition.clone()
    }
}

/// What is in a directory.
pub(super) struct Child {
    resource: Resource,
}

impl Entry for Child {
    const LIST: List = List::Directory;

    fn key(&self) -> &str {
        &self.resource.uri
    }

    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        registry::definition(&self.resource, version)
    }
}
