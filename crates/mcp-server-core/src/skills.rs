//! The skills extension (SEP-2640, a draft): directories of instructions for agents, served as resources.
//!
//! A skill is held in memory, so that what is said of its files and what is read of them are the same bytes always.

mod catalog;
mod check;
mod skill;

use std::{collections::HashSet, path::Path, sync::Arc};

use bytes::Bytes;
use mcp_protocol::{
    JsonObject, Method as _, PaginatedParams, ProtocolVersion, ReadResourceResult, RpcError, ServerCapabilities,
    jsonrpc::decode_params,
    method,
    skills::{self, GetSkillParams, ReadDirectoryParams},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

pub(crate) use self::catalog::SkillSet;
use self::catalog::{Catalog, File};
pub use self::skill::Skill;
use crate::{
    Args, ContentProblem, RegistrationError, Server, ServerBuilder, ToolError, content, registry::Entry as _, resource,
    template,
};

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Serves a skill: `skills/list` and `skills/get` tell of it, and its files are resources.
    ///
    /// # Panics
    /// When the skill is not valid, or a file of its path is served already: see [`ServerBuilder::try_skill`].
    #[track_caller]
    pub fn skill(self, skill: Skill) -> Self {
        crate::builder::accept(self.try_skill(skill))
    }

    /// Serves a skill. A skill in a directory inside of it, whose name is that of the directory, is one of its own as
    /// well.
    ///
    /// # Errors
    /// When the path, the front matter or a file is not as the format wants it, there are more than 512 files or 16 MiB,
    /// or a file of that path is served already.
    pub fn try_skill(mut self, skill: Skill) -> Result<Self, RegistrationError> {
        self.add_skill(skill)?;
        Ok(self)
    }

    /// Serves every skill beneath a directory: each directory with a file `SKILL.md`, under its path from there. What
    /// cannot be served is told to `tracing`. The files are read once, now.
    pub fn skills_dir(self, path: impl AsRef<Path>) -> Self {
        self.skills_dir_report(path).0
    }

    /// Like [`ServerBuilder::skills_dir`], with what could not be served.
    pub fn skills_dir_report(mut self, path: impl AsRef<Path>) -> (Self, Vec<ContentProblem>) {
        let problems = self.add_skills_dir(path.as_ref());
        (self, problems)
    }

    pub(crate) fn add_skills_dir(&mut self, path: &Path) -> Vec<ContentProblem> {
        let mut problems = Vec::new();
        // The extension is offered although there may be no skill yet.
        if let Err(error) = self.declare_skills() {
            problems.push(ContentProblem::new(path, error));
        }
        match skill::beneath(path) {
            Ok(found) => {
                let mut served = HashSet::new();
                for inner in found {
                    // A part of one that is served is not served twice; of one that is refused, it stands for itself.
                    if skill::above(&inner).any(|outer| served.contains(outer)) {
                        continue;
                    }
                    let directory = path.join(&inner);
                    let added = Skill::from_dir(inner.as_str(), &directory).and_then(|skill| {
                        self.add_skill(skill).map_err(|error| ContentProblem::new(&directory, error))
                    });
                    match added {
                        Ok(()) => {
                            served.insert(inner);
                        }
                        Err(problem) => problems.push(problem),
                    }
                }
            }
            Err(problem) => problems.push(problem),
        }
        for problem in &problems {
            problem.log();
        }
        problems
    }

    fn add_skill(&mut self, skill: Skill) -> Result<(), RegistrationError> {
        let checked = check::check(skill)?;
        self.config.skills.reserve(&checked)?;
        self.declare_skills()?;
        for entry in &checked.skills {
            let file = checked.files[&entry.path].clone();
            let (name, size) = (entry.path.clone(), file.bytes.len() as u64);
            let read = move || async move { contents(&name, &file) };
            let route = resource(catalog::uri(&entry.path), read)
                .name(&entry.name)
                .description(&entry.description)
                .mime_type("text/markdown")
                .size(size);
            self.add_resource(route)?;
        }
        self.config.skills.add(checked);
        Ok(())
    }

    /// Offers the extension, and the files of skills that are not listed.
    fn declare_skills(&mut self) -> Result<(), RegistrationError> {
        let Some(catalog) = self.config.skills.declare() else { return Ok(()) };
        let read = move |Args(Captured { path }): Args<Captured>| async move {
            let file = catalog.get().and_then(|catalog| catalog.file(&path)).ok_or_else(ToolError::not_found)?;
            contents(&path, file)
        };
        let text = "A file of a skill: instructions in `SKILL.md`, and what they refer to.";
        self.add_resource_template(template("skill://{+path}", read).name("skill-file").description(text))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Captured {
    path: String,
}

fn contents(path: &str, file: &Arc<File>) -> Result<ReadResourceResult, ToolError> {
    Ok(ReadResourceResult::new(vec![content::contents(path, file.bytes.to_vec())]))
}

impl Server {
    pub(crate) fn has_skills(&self) -> bool {
        self.skills().is_some()
    }

    fn skills(&self) -> Option<&Catalog> {
        self.data.config.skills.catalog()
    }

    /// Declares the extension where there are skills.
    pub(crate) fn with_skills(&self, capabilities: ServerCapabilities) -> ServerCapabilities {
        if !self.has_skills() {
            return capabilities;
        }
        let mut settings = JsonObject::default();
        settings.insert(skills::DIRECTORY_READ.to_owned(), Value::Bool(true));
        capabilities.with_extension(skills::IDENTIFIER, settings)
    }

    /// The result of one of the extension's methods.
    pub(crate) fn skills_result(
        &self,
        name: &str,
        params: Option<&RawValue>,
        version: ProtocolVersion,
    ) -> Result<Bytes, RpcError> {
        let catalog = self.skills().ok_or_else(|| RpcError::method_not_found(name))?;
        let style = &self.data.list_style;
        let refuse = |what: &str, uri: &str| {
            let shown: String = uri.chars().take(1024).collect();
            RpcError::invalid_params(what).with_data(json!({ "uri": shown }))
        };
        let page = match name {
            method::ListSkills::NAME => {
                let params: PaginatedParams = decode_params(name, params)?;
                catalog.skills().page(version, params.cursor.as_deref(), style)
            }
            method::ReadDirectory::NAME => {
                let params: ReadDirectoryParams = decode_params(name, params)?;
                let children =
                    catalog.directory(&params.uri).ok_or_else(|| refuse("not a directory of a skill", &params.uri))?;
                children.page(version, params.cursor.as_deref(), style)
            }
            _ => {
                let params: GetSkillParams = decode_params(name, params)?;
                let skills = catalog.skills();
                let skill = skills.find(&params.uri).ok_or_else(|| refuse("Unknown skill", &params.uri))?;
                return Ok(style.single("skill", &skill.definition(version), version));
            }
        };
        page.map_err(|_| RpcError::invalid_params("invalid cursor"))
    }
}
