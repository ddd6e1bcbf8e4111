//! Resolves the imports and paths of a crate's modules to the modules that own the named items.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Module, Segments};

/// The number of re-exports that a name is followed through.
const HOPS: usize = 8;

/// The modules of a crate, by path.
#[derive(Debug)]
pub(super) struct Imports<'m>(BTreeMap<&'m [String], &'m Module>);

impl<'m> Imports<'m> {
    pub(super) fn new(modules: &'m [Module]) -> Self {
        Self(modules.iter().map(|module| (module.path.as_slice(), module)).collect())
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &'m [String]> {
        self.0.keys().copied()
    }

    /// The pairs of modules of which the first uses the second.
    pub(super) fn edges(&self) -> BTreeSet<(&'m [String], &'m [String])> {
        let mut edges = BTreeSet::new();
        for (from, module) in &self.0 {
            let imports = module.imports.iter().filter(|import| !import.is_reexport);
            let imported = imports.filter_map(|import| {
                let names = import.path.strip_suffix(&["*".to_owned()]).unwrap_or(&import.path);
                self.absolute(from, names)
            });
            let named = module.paths.iter().filter_map(|path| self.named(module, path));
            for path in imported.chain(named) {
                if let Some(owner) = self.owner(&path, HOPS).filter(|owner| owner != from) {
                    edges.insert((*from, owner));
                }
            }
        }
        edges
    }

    /// Resolves a path in the code of a module, if it leads into this crate.
    fn named(&self, module: &Module, path: &[String]) -> Option<Segments> {
        self.absolute(&module.path, path).or_else(|| {
            let imported = self.absolute(&module.path, imported(module, &path[0])?)?;
            Some([imported.as_slice(), &path[1..]].concat())
        })
    }

    /// The path from the crate's root. `None` for a path that leads out of the crate.
    fn absolute(&self, from: &[String], path: &[String]) -> Option<Segments> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                let parent = from.get(..from.len().checked_sub(up)?)?;
                Some([parent, &path[up..]].concat())
            }
            _ => {
                let child = [from, std::slice::from_ref(first)].concat();
                self.0.contains_key(child.as_slice()).then(|| [from, path].concat())
            }
        }
    }

    /// The module that defines the item at an absolute path; re-exports are followed.
    fn owner(&self, path: &[String], hops: usize) -> Option<&'m [String]> {
        let (at, module) = (0..=path.len()).rev().find_map(|length| {
            let (key, module) = self.0.get_key_value(&path[..length])?;
            Some((*key, *module))
        })?;
        let rest = &path[at.len()..];
        let Some(name) = rest.first().filter(|name| hops > 0 && !module.items.contains(*name)) else {
            return Some(at);
        };
        if let Some(target) = imported(module, name) {
            let target = self.absolute(at, target)?;
            return self.owner(&[target.as_slice(), &rest[1..]].concat(), hops - 1);
        }
        let globs = module.imports.iter().filter_map(|import| import.path.strip_suffix(&["*".to_owned()]));
        let through_glob = globs.filter_map(|glob| {
            let target = self.absolute(at, glob)?;
            self.owner(&[target.as_slice(), &rest[..1]].concat(), hops - 1).filter(|owner| *owner != at)
        });
        through_glob.into_iter().next().or(Some(at))
    }
}

/// The path that a module imports under a name.
fn imported<'m>(module: &'m Module, name: &str) -> Option<&'m [String]> {
    let import = module.imports.iter().find(|import| match &import.alias {
        Some(alias) => alias == name,
        None => import.path.last().is_some_and(|last| last == name),
    })?;
    Some(&import.path)
}
