//! `cargo xtask tidy`: the rules of this workspace that no compiler checks. Also a test.

use std::path::{Path, PathBuf};

use crate::{
    error::{Context, Error},
    workspace::{self, Metadata},
};

mod arrows;
mod links;
mod manifests;
mod shown;
mod source;
mod text;

/// Runs every check and prints what it found; warnings do not fail.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    if let Some(arg) = args.first() {
        return Err(Error::new(format!("tidy takes no arguments, not `{arg}`")));
    }
    let root = workspace::root();
    let found = check(&root)?;
    for warning in &found.warnings {
        println!("warning: {warning}");
    }
    for error in &found.errors {
        println!("error: {error}");
    }
    println!("tidy: {} files, {} warnings, {} errors", found.files, found.warnings.len(), found.errors.len());
    if found.errors.is_empty() { Ok(()) } else { Err(Error::new("the workspace is not tidy")) }
}

/// What the checks found.
#[derive(Debug, Default)]
struct Findings {
    files: usize,
    warnings: Vec<String>,
    errors: Vec<String>,
}

impl Findings {
    fn error(&mut self, at: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.errors.push(format!("{at}: {what}"));
    }

    fn warning(&mut self, at: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.warnings.push(format!("{at}: {what}"));
    }
}

/// A text file of the checkout.
struct File {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

fn check(root: &Path) -> Result<Findings, Error> {
    let mut found = Findings::default();
    let files = read_files(root)?;
    found.files = files.len();
    let machine = text::machine_paths(root);
    for file in &files {
        text::check(file, &machine, &mut found);
        match Path::new(&file.path).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => source::check(file, &mut found),
            Some("md") => {
                links::check(root, file, &mut found);
                shown::check(root, file, &mut found);
            }
            _ => {}
        }
    }
    let metadata = Metadata::load(root)?;
    arrows::check(root, &metadata, &mut found);
    manifests::check(&metadata, &mut found)?;
    Ok(found)
}

/// The files that are text; the others (images, archives) have nothing to check.
fn read_files(root: &Path) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for path in workspace::files(root)? {
        let full: PathBuf = root.join(&path);
        let bytes = std::fs::read(&full).context(full.display())?;
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            files.push(File { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let found = check(&workspace::root()).unwrap();
        assert!(found.files > 50, "only {} files were looked at", found.files);
        assert!(found.errors.is_empty(), "\n{}\n", found.errors.join("\n"));
    }
}
