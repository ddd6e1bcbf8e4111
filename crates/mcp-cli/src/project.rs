//! `mcp new`: writes the project of a small server.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use url::Url;

use crate::failure::Failure;

const CARGO_TOML: &str = include_str!("project/template/Cargo.toml.in");
const MAIN: &str = include_str!("project/template/main.rs.in");
const MAIN_HTTP: &str = include_str!("project/template/main_http.rs.in");
const TEST: &str = include_str!("project/template/test.rs.in");
const README: &str = include_str!("project/template/README.md.in");
const README_HTTP: &str = "
`cargo run` serves `http://127.0.0.1:8080/mcp`:

```sh
mcp call http://127.0.0.1:8080/mcp count text=strawberry what=r
```
";

/// The longest name of a package that the registry of Rust accepts.
const MAX_NAME: usize = 64;
/// Names that cargo rejects for a package with a binary, or that are dependencies of the project.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mcp-client",
    "mcp-server",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "serde_json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// The source of the library's crates.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// The root of a checkout.
    Path(String),
    Git(String),
}

/// Writes the project into a new directory, and returns the lines that describe the next steps.
///
/// # Errors
///
/// Fails if the name is invalid, if the directory exists, if no source of the library is known, or if a file cannot be
/// written. After a failure, no part of the project remains.
pub(crate) fn create(
    directory: &Path,
    has_http: bool,
    path: Option<&Path>,
    git: Option<&str>,
) -> Result<String, Failure> {
    let name = package_name(directory)?;
    let source = source(path, git)?;
    let files = files(name, has_http, &source, is_in_workspace(directory)?);
    write_project(directory, &files).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} exists already; choose another name", directory.display()))
        }
        _ => Failure::local(format!("cannot write {}: {error}", directory.display())),
    })?;
    let written: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
    let flag = stdio_flag(has_http);
    // `cargo test` builds the program. `cargo run` in the command of a server would build within the limit of the connection.
    Ok(format!(
        "wrote {} with {}\nnext: cd {} && cargo test && mcp call count text=strawberry what=r -- target/debug/{name}{flag}",
        directory.display(),
        written.join(", "),
        shell_words::quote(&directory.to_string_lossy())
    ))
}

/// Creates the directory with its files. An entry that exists is never changed: `AlreadyExists` is returned for the
/// directory only. A failure removes each directory that the function created.
fn write_project(directory: &Path, files: &[(&str, String)]) -> io::Result<()> {
    let missing = |directory: &&Path| !directory.as_os_str().is_empty() && fs::symlink_metadata(directory).is_err();
    let parents: Vec<&Path> = directory.ancestors().skip(1).take_while(missing).collect();
    let written = parents.first().map_or(Ok(()), fs::create_dir_all).map_err(unexpected).and_then(|()| {
        fs::create_dir(directory)?;
        let written = files.iter().try_for_each(|(file, contents)| write(&directory.join(file), contents));
        if written.is_err() {
            // This process has created the directory, so it contains nothing else.
            let _ = fs::remove_dir_all(directory);
        }
        written.map_err(unexpected)
    });
    if written.is_err() {
        for parent in parents {
            // A directory that another program uses meanwhile is not empty, and remains.
            let _ = fs::remove_dir(parent);
        }
    }
    written
}

/// Returns the error with another kind if an entry exists that the project does not replace.
fn unexpected(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists { io::Error::other(error) } else { error }
}

/// Writes a new file. A file that exists is never changed.
fn write(file: &Path, contents: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    File::create_new(file)?.write_all(contents.as_bytes())
}

/// Returns the name of the package: the last part of the directory.
fn package_name(directory: &Path) -> Result<&str, Failure> {
    let shown = directory.display();
    let name = directory.file_name().ok_or_else(|| {
        Failure::usage(format!("`{shown}` does not end with a name; write the name of the new directory"))
    })?;
    let name = name.to_str().ok_or_else(|| {
        Failure::usage(format!("`{}` is not a name for a package: it is not UTF-8", Path::new(name).display()))
    })?;
    check_name(name)?;
    Ok(name)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let invalid = |reason: &str| Err(Failure::usage(format!("`{name}` is not a name for a package: {reason}")));
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return invalid("it must begin with a letter");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) || name.len() > MAX_NAME {
        return invalid("use at most 64 letters, digits, `-` and `_`");
    }
    if RESERVED.contains(&name) {
        return invalid("the name is reserved");
    }
    Ok(())
}

/// Returns the source of the library: the option, or the checkout that contains the current directory.
fn source(path: Option<&Path>, git: Option<&str>) -> Result<Source, Failure> {
    match (path, git) {
        (Some(path), _) => {
            let root = path.canonicalize().ok().filter(|root| is_checkout(root));
            let root = root.ok_or_else(|| {
                let path = path.display();
                Failure::usage(format!("{path} is not a checkout of the library: it has no crates/mcp-server"))
            })?;
            checkout(&root)
        }
        (None, Some(git)) => match Url::parse(git) {
            Ok(_) => Ok(Source::Git(git.to_owned())),
            Err(error) => Err(Failure::usage(format!("`{git}` is not the URL of a git repository: {error}"))),
        },
        (None, None) => {
            let current = std::env::current_dir()?;
            let root = current.ancestors().find(|directory| is_checkout(directory));
            checkout(root.ok_or_else(|| {
                Failure::usage(
                    "the source of the library is not known; write --path DIR for a checkout or --git URL for a repository",
                )
            })?)
        }
    }
}

/// Returns the source for the root of a checkout. A `Cargo.toml` can contain only a path that is UTF-8.
fn checkout(root: &Path) -> Result<Source, Failure> {
    let invalid = || Failure::usage(format!("the path of the checkout is not UTF-8: {}", root.display()));
    root.to_str().map(|root| Source::Path(root.to_owned())).ok_or_else(invalid)
}

/// Returns whether a directory is the root of a checkout of this library.
fn is_checkout(directory: &Path) -> bool {
    ["mcp-server", "mcp-client"].iter().all(|name| {
        let manifest = fs::read_to_string(directory.join("crates").join(name).join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line == format!("name = \"{name}\""))
    })
}

/// Returns whether cargo would count a package in the directory as a member of a workspace above it.
fn is_in_workspace(directory: &Path) -> Result<bool, Failure> {
    let directory = std::path::absolute(directory)?;
    let is_workspace = |directory: &Path| {
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line.trim_start().starts_with("[workspace"))
    };
    Ok(directory.ancestors().skip(1).any(is_workspace))
}

/// Returns the files of the project by their names.
fn files(name: &str, has_http: bool, source: &Source, is_in_workspace: bool) -> Vec<(&'static str, String)> {
    let dependency = |krate: &str, has_features: bool| {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let source = match source {
            Source::Path(root) => {
                let path = Path::new(root).join("crates").join(krate);
                format!("path = {}", quoted(&path.display().to_string()))
            }
            Source::Git(url) => format!("git = {}", quoted(url)),
        };
        if has_features { source } else { format!("{source}, default-features = false") }
    };
    let workspace = if is_in_workspace { "\n# The directory is below another workspace.\n[workspace]\n" } else { "" };
    let (server, client) = (dependency("mcp-server", has_http), dependency("mcp-client", false));
    let values = [
        ("{{name}}", name),
        ("{{server}}", &server),
        ("{{client}}", &client),
        ("{{workspace}}", workspace),
        ("{{argument}}", if has_http { ".arg(\"--stdio\")" } else { "" }),
        ("{{flag}}", stdio_flag(has_http)),
        ("{{http}}", if has_http { README_HTTP } else { "" }),
    ];
    let fill = |template: &str| format!("{}\n", filled(template, &values).trim_end());
    vec![
        ("Cargo.toml", fill(CARGO_TOML)),
        ("src/main.rs", fill(if has_http { MAIN_HTTP } else { MAIN })),
        ("tests/server.rs", fill(TEST)),
        ("README.md", fill(README)),
        (".gitignore", "/target\n".to_owned()),
    ]
}

/// Returns the argument that selects stdio, if the program also serves HTTP.
fn stdio_flag(has_http: bool) -> &'static str {
    if has_http { " --stdio" } else { "" }
}

/// Replaces the variables of a template. A value that resembles a variable stays as it is.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some(start) = rest.find("{{") {
        let (before, after) = rest.split_at(start);
        text.push_str(before);
        match values.iter().find(|(name, _)| after.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &after[name.len()..];
            }
            None => {
                text.push_str("{{");
                rest = &after[2..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests;
