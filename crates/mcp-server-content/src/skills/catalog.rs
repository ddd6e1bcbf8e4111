//! All skills of a server: their files, their entries in lists, and the entries of each directory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use mcp_protocol::{
    Resource,
    skills::{DIRECTORY_MIME_TYPE, Skill, SkillFile},
};
use mcp_server_core::{RegistrationError, extension::PagedList};
use parking_lot::Mutex;

use super::check::{Checked, Head, SKILL_MD};
use crate::{mime, uri::encode_path};

/// Returns the URI of a file or directory, by its path among all skills.
pub(super) fn uri(path: &str) -> String {
    format!("skill://{}", encode_path(path))
}

/// A file of a skill.
pub(super) struct File {
    pub(super) digest: String,
    pub(super) bytes: Bytes,
}

/// The skills of one server. A builder adds them, and the server reads them as a catalog.
#[derive(Default)]
pub(super) struct SkillSet {
    added: Mutex<Added>,
    catalog: OnceLock<Catalog>,
}

/// The skills that a builder added, until the catalog exists.
#[derive(Default)]
struct Added {
    files: BTreeMap<String, Arc<File>>,
    skills: Vec<Head>,
}

impl SkillSet {
    /// Refuses a skill if one of its files is already in the set.
    pub(super) fn reserve(&self, checked: &Checked) -> Result<(), RegistrationError> {
        let added = self.added.lock();
        match checked.files.keys().find(|path| added.files.contains_key(*path)) {
            Some(path) => Err(RegistrationError::new(format!("the file `{path}` of a skill is already served"))),
            None => Ok(()),
        }
    }

    pub(super) fn add(&self, checked: Checked) {
        let mut added = self.added.lock();
        added.files.extend(checked.files);
        added.skills.extend(checked.skills);
    }

    /// Whether the catalog exists.
    #[cfg(test)]
    pub(super) fn is_built(&self) -> bool {
        self.catalog.get().is_some()
    }

    /// Returns the catalog. The build of the server makes the first call, after all registrations.
    pub(super) fn catalog(&self) -> &Catalog {
        self.catalog.get_or_init(|| {
            let Added { files, skills } = std::mem::take(&mut *self.added.lock());
            Catalog::new(files, &skills)
        })
    }
}

/// The lists and files of all skills.
pub(super) struct Catalog {
    files: BTreeMap<String, Arc<File>>,
    skills: PagedList,
    directories: HashMap<String, PagedList>,
}

impl Catalog {
    fn new(files: BTreeMap<String, Arc<File>>, heads: &[Head]) -> Self {
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
            let mut list = PagedList::new("resources");
            for resource in children.into_values() {
                let uri = resource.uri.clone();
                log_lost(list.push_shaped(&uri, resource));
            }
            (uri(path), list)
        };
        let directories = children.into_iter().map(directory).collect();
        let mut skills = PagedList::new("skills");
        for head in heads {
            let skill = entry(head, &files);
            log_lost(skills.push(&skill.uri, &skill));
        }
        Self { skills, directories, files }
    }

    pub(super) fn file(&self, path: &str) -> Option<&Arc<File>> {
        self.files.get(path)
    }

    pub(super) fn skills(&self) -> &PagedList {
        &self.skills
    }

    pub(super) fn directory(&self, uri: &str) -> Option<&PagedList> {
        self.directories.get(uri)
    }
}

impl fmt::Debug for SkillSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SkillSet")
    }
}

/// Logs an entry that a list refused. The paths of files differ, so that no list refuses one.
fn log_lost(pushed: Result<(), RegistrationError>) {
    if let Err(error) = pushed {
        tracing::error!(%error, "an entry of a list of skills is lost");
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn file_resource(path: &str, file: &File, head: Option<&Head>) -> Resource {
    let name = head.map_or_else(|| last(path), |head| &head.name);
    let mut resource = Resource::new(uri(path), name).with_size(file.bytes.len() as u64);
    resource.mime_type = mime::of_name(path).map(str::to_owned);
    resource.description = head.map(|head| head.description.clone());
    resource
}

/// Returns the entry of a skill in `skills/list`.
fn entry(head: &Head, files: &BTreeMap<String, Arc<File>>) -> Skill {
    let directory = head.path.strip_suffix(SKILL_MD).unwrap_or(&head.path);
    let own = files.range(directory.to_owned()..).take_while(|(path, _)| path.starts_with(directory));
    let own = own.map(|(path, file)| SkillFile::new(uri(path), &file.digest, file.bytes.len() as u64));
    Skill::new(uri(&head.path), head.frontmatter.clone(), own.collect())
}
