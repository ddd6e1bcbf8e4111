//! `mcp new`: writes the project of a small server.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
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
    Path(PathBuf),
    Git(String),
}

/// Writes the project into a new directory, and returns the lines that describe the next steps.
///
/// # Errors
///
/// Fails if the name is invalid, if the directory exists, or if no source of the library is known.
pub(crate) fn create(
    directory: &Path,
    has_http: bool,
    path: Option<&Path>,
    git: Option<&str>,
) -> Result<String, Failure> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)?;
    let source = source(path, git)?;
    let files = files(name, has_http, &source, is_in_workspace(directory)?);
    let failed = |error: &io::Error| Failure::local(format!("cannot write {}: {error}", directory.display()));
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    }
    fs::create_dir(directory).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} exists already; choose another name", directory.display()))
        }
        _ => failed(&error),
    })?;
    for (file, contents) in &files {
        write(&directory.join(file), contents).map_err(|error| failed(&error))?;
    }
    let written: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
    let flag = if has_http { " -- --stdio" } else { "" };
    Ok(format!(
        "wrote {} with {}\nnext: cd {0} && cargo test && mcp call count text=strawberry what=r -- cargo run -q{flag}",
        directory.display(),
        written.join(", ")
    ))
}

/// Writes a new file. A file that exists is never changed.
fn write(file: &Path, contents: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    File::create_new(file)?.write_all(contents.as_bytes())
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
            root.map(Source::Path).ok_or_else(|| {
                let path = path.display();
                Failure::usage(format!("{path} is not a checkout of the library: it has no crates/mcp-server"))
            })
        }
        (None, Some(git)) => match Url::parse(git) {
            Ok(_) => Ok(Source::Git(git.to_owned())),
            Err(error) => Err(Failure::usage(format!("`{git}` is not the URL of a git repository: {error}"))),
        },
        (None, None) => {
            let current = std::env::current_dir()?;
            let root = current.ancestors().find(|directory| is_checkout(directory));
            root.map(|root| Source::Path(root.to_owned())).ok_or_else(|| {
                Failure::usage(
                    "the source of the library is not known; write --path DIR for a checkout or --git URL for a repository",
                )
            })
        }
    }
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
        // A JSON string is also a TOML string.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let source = match source {
            Source::Path(root) => format!("path = {}", quoted(&root.join("crates").join(krate).to_string_lossy())),
            Source::Git(url) => format!("git = {}", quoted(url)),
        };
        if has_features { source } else { format!("{source}, default-features = false") }
    };
    let workspace = if is_in_workspace { "\n# The directory is below another workspace.\n[workspace]\n" } else { "" };
    let fill = |template: &str| {
        let text = template
            .replace("{{name}}", name)
            .replace("{{server}}", &dependency("mcp-server", has_http))
            .replace("{{client}}", &dependency("mcp-client", false))
            .replace("{{workspace}}", workspace)
            .replace("{{argument}}", if has_http { ".arg(\"--stdio\")" } else { "" })
            .replace("{{flag}}", if has_http { " -- --stdio" } else { "" })
            .replace("{{http}}", if has_http { README_HTTP } else { "" });
        format!("{}\n", text.trim_end())
    };
    vec![
        ("Cargo.toml", fill(CARGO_TOML)),
        ("src/main.rs", fill(if has_http { MAIN_HTTP } else { MAIN })),
        ("tests/server.rs", fill(TEST)),
        ("README.md", fill(README)),
        (".gitignore", "/target\n".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_names_of_packages() {
        for (name, is_valid) in [
            ("weather", true),
            ("my_server-2", true),
            ("", false),
            ("2fast", false),
            ("a b", false),
            ("größe", false),
            ("test", false),
            ("mcp-server", false),
            (&"x".repeat(65), false),
        ] {
            assert_eq!(check_name(name).is_ok(), is_valid, "{name}");
        }
    }

    #[test]
    fn the_manifest_names_the_source_and_the_features() {
        let manifest = |source, has_http, is_in_workspace| files("x", has_http, &source, is_in_workspace).remove(0).1;
        let git = manifest(Source::Git("https://example.com/\"q\"".to_owned()), true, false);
        assert!(git.contains(r#"mcp-server = { git = "https://example.com/\"q\"" }"#), "{git}");
        assert!(!git.contains("[workspace]") && !git.contains("{{"), "{git}");
        let path = manifest(Source::Path("/a b".into()), false, true);
        assert!(
            path.contains(r#"mcp-server = { path = "/a b/crates/mcp-server", default-features = false }"#),
            "{path}"
        );
        assert!(path.ends_with("[workspace]\n"), "{path}");
    }
}
