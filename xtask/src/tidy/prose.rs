//! The language rule of CONTRIBUTING.md: the share of sentences that break it, per kind of text, against a ceiling.

use std::collections::BTreeMap;

use super::{File, Findings, ceilings::Ceilings};

mod blocks;
mod rule;

/// The number of sentences and of those that break the rule.
#[derive(Clone, Debug, Default)]
struct Count {
    sentences: usize,
    breaches: Vec<String>,
}

/// Counts the sentences of all files and compares each kind with its ceiling. Returns the breaches, as lines.
pub(super) fn check(files: &[File], ceilings: &mut Ceilings, found: &mut Findings) -> Vec<String> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for file in files {
        for block in blocks::of(file) {
            let count = counts.entry(block.kind).or_default();
            for sentence in rule::sentences(&block.text) {
                count.sentences += 1;
                if let Some(why) = rule::breach(&sentence) {
                    count.breaches.push(format!("{}:{}: {why}: {sentence}", file.path, block.line));
                }
            }
        }
    }
    for (kind, count) in &counts {
        let share = 100.0 * count.breaches.len() as f64 / count.sentences.max(1) as f64;
        if ceilings.language(kind, share, found) {
            found.error(kind, "`cargo xtask tidy --language` lists these sentences");
        }
    }
    counts.into_values().flat_map(|count| count.breaches).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_text_is_counted() {
        let source = "//! Reads the file.\n/// Who waits is told.\nfn f() {\n    // Nobody reads this.\n    \
                      let e = Error::msg(\"what is sent is none\");\n}\n";
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/lib.rs", source),
            file("crates/a/tests/main.rs", source),
            file(
                "docs/a.md",
                "# A heading\nWhat is this? The client sends a request.\n```\nnobody reads this code\n```\n",
            ),
            file("docs/ledger.toml", "[R1]\nline = \"Whoever asks is told it.\"\n"),
        ];
        let mut ceilings = Ceilings::default();
        let breaches = check(&files, &mut ceilings, &mut Findings::default());
        let places: Vec<&str> = breaches.iter().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(
            places,
            ["crates/a/src/lib.rs:4", "crates/a/src/lib.rs:5", "docs/ledger.toml:2", "crates/a/src/lib.rs:1"],
            "{breaches:?}"
        );
    }
}
