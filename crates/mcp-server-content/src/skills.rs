//! The skills extension (SEP-2640, a draft): directories of instructions for agents, served as resources.
//!
//! The server holds skills in memory, so that the digest of a file always matches the content that a client reads.

mod catalog;
mod check;
mod skill;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcp_protocol::{
    JsonObject, Method as _, PaginatedParams, ProtocolVersion, ReadResourceResult, RpcError, ServerCapabilities,
    method::{GetSkill, ListSkills, ReadDirectory},
    skills::{self, GetSkillParams, ReadDirectoryParams},
};
use mcp_server_core::{
    Args, RegistrationError, ServerBuilder, ToolError,
    extension::{MethodRequest, MethodResult, MethodRoute, Registrar, ServerExtension},
    resource, template,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::skill::Skill;
use self::{
    catalog::{File, SkillSet},
    check::Checked,
};
use crate::{ContentError, error::ErrorReport, mime};

/// An extension that serves skills: directories of instructions for agents.
///
/// Clients list the skills by `skills/list`, and read their files as resources. The extension registers each `SKILL.md` as
/// a listed resource; clients read the other files by the template `skill://{+path}`. Several instances in one server form
/// one list of skills.
///
/// # Example
/// ```
/// use mcp_server_content::{Skill, Skills};
/// use mcp_server_core::Server;
///
/// let skill = Skill::new("acme/git-workflow", "---\nname: git-workflow\ndescription: How we commit.\n---\nSmall.\n")
///     .file("references/style.md", "# Style\n");
/// let server = Server::builder("skills", "1.0.0").extension(Skills::new().skill(skill)).build();
/// # let _: Server = server;
/// ```
#[derive(Debug, Default)]
#[must_use = "an extension does nothing until a server has it"]
pub struct Skills {
    sources: Vec<Source>,
    /// The skills of the server, after the registration.
    set: Arc<SkillSet>,
    errors: ErrorReport,
}

/// The origin of skills.
#[derive(Debug)]
enum Source {
    Skill(Skill),
    Dir(PathBuf),
}

/// The skills of one server, which all instances of [`Skills`] share.
#[derive(Default)]
struct Shared {
    set: Arc<SkillSet>,
    is_registered: bool,
}

impl Skills {
    /// Serves no skills yet.
    ///
    /// See the [example](Self#example).
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a skill.
    ///
    /// A directory inside of the skill with a `SKILL.md` of its own, and with the name of that skill, is a further skill.
    ///
    /// The registration fails in these cases:
    ///
    /// - The path, the front matter or a file does not follow the format.
    /// - The skill has more than 512 files or 16 MiB.
    /// - A file with the same path is already served.
    ///
    /// See the [example](Self#example).
    pub fn skill(mut self, skill: Skill) -> Self {
        self.sources.push(Source::Skill(skill));
        self
    }

    /// Adds every skill in a directory: each directory with a file `SKILL.md`, under its path from here.
    ///
    /// The builder reads the files once, at the registration. A skill that cannot be served is logged by `tracing`, and the
    /// server serves the others. [`Skills::add_to`] returns the errors as well.
    ///
    /// ```no_run
    /// use mcp_server_content::Skills;
    /// use mcp_server_core::Server;
    ///
    /// let server = Server::builder("skills", "1.0.0").extension(Skills::new().dir("skills")).build();
    /// # let _: Server = server;
    /// ```
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::Dir(path.into()));
        self
    }

    /// Adds the skills to a builder. Returns the errors of the directories and skills that [`Skills::dir`] cannot serve.
    ///
    /// ```
    /// use mcp_server_content::Skills;
    /// use mcp_server_core::Server;
    ///
    /// let builder = Server::builder::<()>("skills", "1.0.0");
    /// let (builder, errors) = Skills::new().dir("skills").add_to(builder)?;
    /// for error in &errors {
    ///     eprintln!("a skill is not served: {error}");
    /// }
    /// let server = builder.build();
    /// # let _: Server = server;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error when a skill of [`Skills::skill`] cannot be served.
    pub fn add_to<S: Clone + Send + Sync + 'static>(
        self,
        builder: ServerBuilder<S>,
    ) -> Result<(ServerBuilder<S>, Vec<ContentError>), RegistrationError> {
        let errors = self.errors.clone();
        Ok((builder.try_extension(self)?, errors.take()))
    }

    /// Collects the errors in the report of another extension.
    #[cfg(feature = "fs")]
    pub(crate) fn report_to(self, errors: &ErrorReport) -> Self {
        Self { errors: errors.clone(), ..self }
    }

    /// Registers every skill in a directory that can be served.
    fn add_dir(&self, path: &Path, set: &SkillSet, registrar: &mut Registrar<'_>) {
        let found = match skill::paths_in(path) {
            Ok(found) => found,
            Err(error) => return self.errors.push(error),
        };
        let mut served = HashSet::new();
        for inner in found {
            // A served skill includes the skills inside of it. A refused one does not, so that they count for themselves.
            if skill::parents(&inner).any(|outer| served.contains(outer)) {
                continue;
            }
            let directory = path.join(&inner);
            let added = Skill::from_dir(inner.as_str(), &directory)
                .and_then(|skill| add(skill, set, registrar).map_err(|error| ContentError::new(&directory, error)));
            match added {
                Ok(()) => {
                    served.insert(inner);
                }
                Err(error) => self.errors.push(error),
            }
        }
    }
}

impl ServerExtension for Skills {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        let shared: &mut Shared = registrar.shared();
        let set = shared.set.clone();
        if !std::mem::replace(&mut shared.is_registered, true) {
            register_methods(&set, registrar)?;
        }
        self.set = set.clone();
        for source in std::mem::take(&mut self.sources) {
            match source {
                Source::Skill(skill) => add(skill, &set, registrar)?,
                Source::Dir(path) => self.add_dir(&path, &set, registrar),
            }
        }
        Ok(())
    }

    fn declare(&self, _version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        let mut settings = JsonObject::default();
        settings.insert(skills::DIRECTORY_READ.to_owned(), Value::Bool(true));
        capabilities.with_extension(skills::IDENTIFIER, settings)
    }

    /// Builds the catalog, so that the first request does not wait for it.
    fn built(&self) {
        self.set.catalog();
    }
}

/// Checks a skill and registers its listed resources.
fn add(skill: Skill, set: &SkillSet, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    let checked: Checked = check::check(skill)?;
    set.reserve(&checked)?;
    for entry in &checked.skills {
        let file = checked.files[&entry.path].clone();
        let (name, size) = (entry.path.clone(), file.bytes.len() as u64);
        let read = move || async move { contents(&name, &file) };
        let route = resource(catalog::uri(&entry.path), read)
            .name(&entry.name)
            .description(&entry.description)
            .mime_type("text/markdown")
            .size(size);
        registrar.resource(route)?;
    }
    set.add(checked);
    Ok(())
}

/// Registers the methods of the extension, and the template for the files that are not listed.
fn register_methods(set: &Arc<SkillSet>, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    let (files, listed, single, directories) = (set.clone(), set.clone(), set.clone(), set.clone());
    let read = move |Args(Captured { path }): Args<Captured>| async move {
        let file = files.catalog().file(&path).ok_or_else(ToolError::not_found)?;
        contents(&path, file)
    };
    let text = "A file of a skill: instructions in `SKILL.md`, and the files that they refer to.";
    registrar.resource_template(template("skill://{+path}", read).name("skill-file").description(text))?;
    registrar.method(MethodRoute::immediate(ListSkills::NAME, move |request| {
        let params: PaginatedParams = request.params()?;
        listed.catalog().skills().page(request, params.cursor.as_deref())
    }))?;
    registrar.method(MethodRoute::immediate(GetSkill::NAME, move |request| get_skill(&single, request)))?;
    registrar.method(MethodRoute::immediate(ReadDirectory::NAME, move |request| read_directory(&directories, request)))
}

fn get_skill(set: &SkillSet, request: &MethodRequest<'_>) -> Result<MethodResult, RpcError> {
    let params: GetSkillParams = request.params()?;
    let skill = set.catalog().skills().single(request, &params.uri, "skill");
    skill.ok_or_else(|| refuse("Unknown skill", &params.uri))
}

fn read_directory(set: &SkillSet, request: &MethodRequest<'_>) -> Result<MethodResult, RpcError> {
    let params: ReadDirectoryParams = request.params()?;
    let directory = set.catalog().directory(&params.uri);
    let children = directory.ok_or_else(|| refuse("not a directory of a skill", &params.uri))?;
    children.page(request, params.cursor.as_deref())
}

fn refuse(message: &str, uri: &str) -> RpcError {
    let shown: String = uri.chars().take(1024).collect();
    RpcError::invalid_params(message).with_data(json!({ "uri": shown }))
}

#[derive(Deserialize, JsonSchema)]
struct Captured {
    path: String,
}

fn contents(path: &str, file: &Arc<File>) -> Result<ReadResourceResult, ToolError> {
    Ok(ReadResourceResult::new(vec![mime::contents(path, file.bytes.to_vec())]))
}

#[cfg(test)]
mod tests {
    use mcp_server_core::Server;

    use super::*;

    /// Takes the skills of the server.
    struct Probe(Arc<parking_lot::Mutex<Option<Arc<SkillSet>>>>);

    impl ServerExtension for Probe {
        fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
            *self.0.lock() = Some(registrar.shared::<Shared>().set.clone());
            Ok(())
        }
    }

    #[test]
    fn the_server_has_its_catalog_before_the_first_request() {
        let skill = |name: &str| Skill::new(name, format!("---\nname: {name}\ndescription: Greets.\n---\n"));
        let probe = Arc::default();
        let builder = Server::builder::<()>("t", "1").extension(Skills::new().skill(skill("first")));
        let builder = builder.extension(Probe(Arc::clone(&probe))).extension(Skills::new().skill(skill("second")));
        let set = probe.lock().take().unwrap();
        assert!(!set.is_built());
        let _server = builder.build();
        assert!(set.is_built());
        assert!(["first/SKILL.md", "second/SKILL.md"].iter().all(|path| set.catalog().file(path).is_some()));
    }
}
