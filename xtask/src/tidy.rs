//! `cargo xtask tidy`: the rules of this workspace that the compiler does not check. A test runs them too.

use std::path::{Path, PathBuf};

use anyhow::{Context, Error};

use crate::workspace::{self, Metadata};

mod arrows;
pub(crate) mod ceilings;
mod feature_cost;
mod links;
mod manifests;
mod prose;
mod rooms;
mod shown;
mod source;
mod text;

use self::ceilings::Ceilings;

/// Runs each check and prints its findings; warnings do not fail. `--update` lowers the ceilings to the measured values,
/// and `--language` lists the sentences that break the language rule.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let (update, language) = match args {
        [] => (false, false),
        [arg] if arg == "--update" => (true, false),
        [arg] if arg == "--language" => (false, true),
        _ => return Err(Error::msg(format!("tidy takes --update or --language, not `{}`", args.join(" ")))),
    };
    let root = workspace::root();
    let (found, ceilings) = check(&root)?;
    if language {
        for breach in &found.language {
            println!("{breach}");
        }
    }
    if update {
        ceilings.lower(&root)?;
    }
    for warning in found.warnings.iter().filter(|_| !update) {
        println!("warning: {warning}");
    }
    for error in &found.errors {
        println!("error: {error}");
    }
    println!("tidy: {} files, {} warnings, {} errors", found.files, found.warnings.len(), found.errors.len());
    if found.errors.is_empty() { Ok(()) } else { Err(Error::msg("the workspace is not tidy")) }
}

/// The results of the checks.
#[derive(Debug, Default)]
struct Findings {
    files: usize,
    warnings: Vec<String>,
    errors: Vec<String>,
    /// The sentences that break the language rule.
    language: Vec<String>,
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

fn check(root: &Path) -> Result<(Findings, Ceilings), Error> {
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
    arrows::check_names(&metadata, &mut found);
    manifests::check(root, &metadata, &mut found)?;
    feature_cost::check(root, &mut found)?;
    let mut ceilings = Ceilings::load(root)?;
    rooms::check(root, &metadata, &mut ceilings, &mut found)?;
    found.language = prose::check(&files, &mut ceilings, &mut found);
    Ok((found, ceilings))
}

/// Reads the text files. Images and archives are skipped, and so are links to other files.
fn read_files(root: &Path) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for path in workspace::files(root)? {
        let full: PathBuf = root.join(&path);
        if full.is_symlink() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| full.display().to_string())?;
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
        let (found, _) = check(&workspace::root()).unwrap();
        assert!(found.files > 50, "only {} files were looked at", found.files);
        assert!(found.errors.is_empty(), "\n{}\n", found.errors.join("\n"));
    }
}
