//! Programs in pages. The block between `<!-- name -->` and `<!-- /name -->` equals `examples/name/src/main.rs`, or the
//! file `name` if the name is a path below `examples/`.

use std::path::Path;

use super::{File, Findings};

/// The fences of a shown program. A doc test that names `crate` is a crate of its own.
const PROGRAMS: [&str; 4] = ["```rust", "```rust,no_run", "```rust,ignore", "```rust,standalone_crate"];
/// The fences of other shown files.
const FILES: [&str; 2] = ["```json", "```toml"];

pub(super) fn check(root: &Path, file: &File, found: &mut Findings) {
    for (number, line) in (1..).zip(file.text.lines()) {
        let Some(name) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        if name.starts_with('/') {
            continue;
        }
        let is_path = name.starts_with("examples/");
        let path = if is_path { name.to_owned() } else { format!("examples/{name}/src/main.rs") };
        let Ok(program) = std::fs::read_to_string(root.join(&path)) else {
            if is_path {
                found.error(format_args!("{}:{number}", file.path), format_args!("{path} does not exist"));
            }
            continue;
        };
        let begin = file.text.lines().take(number).map(|line| line.len() + 1).sum::<usize>();
        let shown = file.text.get(begin..).and_then(|rest| rest.split_once(&format!("<!-- /{name} -->")));
        if shown.and_then(|(shown, _)| program_of(shown)) != Some(program) {
            found.error(format_args!("{}:{number}", file.path), format_args!("differs from {path}"));
        }
    }
}

/// Returns the program in a block, without the lines that rustdoc hides.
fn program_of(block: &str) -> Option<String> {
    let (fence, rest) = block.split_once('\n')?;
    let program = rest.strip_suffix("```\n")?;
    if FILES.contains(&fence) {
        return Some(program.to_owned());
    }
    if !PROGRAMS.contains(&fence) {
        return None;
    }
    let is_hidden = |line: &&str| *line == "#" || line.starts_with("# ");
    Some(program.lines().filter(|line| !is_hidden(line)).flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn a_program_is_shown_as_it_is() {
        let root = workspace::root();
        let path = "examples/client/src/main.rs";
        let program = std::fs::read_to_string(root.join(path)).unwrap();
        let policy = std::fs::read_to_string(root.join("examples/gateway/policy.toml")).unwrap();
        for (name, shown, errors) in [
            ("client", format!("```rust,no_run\n{program}```\n<!-- /client -->\n"), 0),
            ("client", format!("```rust,no_run\n{}```\n<!-- /client -->\n", program.replace("count", "other")), 1),
            ("client", format!("```rust,no_run\n{program}```\n"), 1),
            ("client", format!("```text\n{program}```\n<!-- /client -->\n"), 1),
            (path, format!("```rust\n{program}# fn hidden() {{}}\n```\n<!-- /{path} -->\n"), 0),
            (path, format!("```rust\n{program}fn shown() {{}}\n```\n<!-- /{path} -->\n"), 1),
            ("examples/client/src/lost.rs", String::new(), 1),
            (
                "examples/gateway/policy.toml",
                format!("```toml\n{policy}```\n<!-- /examples/gateway/policy.toml -->\n"),
                0,
            ),
            ("examples/gateway/policy.toml", "```toml\n```\n<!-- /examples/gateway/policy.toml -->\n".to_owned(), 1),
        ] {
            let text = format!("# x\n<!-- other -->\n<!-- {name} -->\n{shown}");
            let file = File { path: "README.md".to_owned(), text };
            let mut found = Findings::default();
            check(&root, &file, &mut found);
            assert_eq!(found.errors.len(), errors, "{shown}");
        }
    }
}
