//! Programs in pages: the text between `<!-- name -->` and `<!-- /name -->` equals `examples/name/src/main.rs`.

use std::path::Path;

use super::{File, Findings};

pub(super) fn check(root: &Path, file: &File, found: &mut Findings) {
    for (number, line) in (1..).zip(file.text.lines()) {
        let Some(name) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let Ok(program) = std::fs::read_to_string(root.join("examples").join(name).join("src/main.rs")) else {
            continue;
        };
        let begin = file.text.lines().take(number).map(|line| line.len() + 1).sum::<usize>();
        let shown = file.text.get(begin..).and_then(|rest| rest.split_once(&format!("<!-- /{name} -->")));
        if shown.map(|(shown, _)| shown) != Some(format!("```rust,no_run\n{program}```\n").as_str()) {
            found.error(
                format_args!("{}:{number}", file.path),
                format_args!("differs from examples/{name}/src/main.rs"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn a_shown_program_must_equal_its_source() {
        let root = workspace::root();
        let program = std::fs::read_to_string(root.join("examples/client/src/main.rs")).unwrap();
        for (shown, errors) in [
            (format!("```rust,no_run\n{program}```\n<!-- /client -->\n"), 0),
            (format!("```rust,no_run\n{}```\n<!-- /client -->\n", program.replace("count", "other")), 1),
            (format!("```rust,no_run\n{program}```\n"), 1),
        ] {
            let file =
                File { path: "README.md".to_owned(), text: format!("# x\n<!-- other -->\n<!-- client -->\n{shown}") };
            let mut found = Findings::default();
            check(&root, &file, &mut found);
            assert_eq!(found.errors.len(), errors, "{shown}");
        }
    }
}
