//! The help texts.

use super::{mcp, process::BoundedOutput as _, text};

fn help(arguments: &[&str], columns: &str) -> String {
    text(&mcp().args(arguments).env("COLUMNS", columns).bounded_output().stdout)
}

#[test]
fn long_help_wraps_only_at_the_width_of_the_terminal() {
    for arguments in [&["--help"][..], &["call", "--help"], &["complete", "--help"]] {
        let unwrapped = help(arguments, "100000");
        for columns in [60, 80, 130] {
            let help = help(arguments, &columns.to_string());
            // clap does not wrap the usage line.
            let mut wrapped = help.lines().filter(|line| !line.starts_with("Usage:"));
            assert!(wrapped.all(|line| line.chars().count() <= columns), "{help}");
            // A line break before a word that fits into the line is the author's: it is also in the unwrapped text.
            for (line, next) in help.lines().zip(help.lines().skip(1)) {
                let is_paragraph =
                    line.starts_with(|c: char| c.is_alphabetic()) && next.starts_with(char::is_alphanumeric);
                let word = next.split_whitespace().next().unwrap_or_default();
                if is_paragraph && line.chars().count() + 1 + word.chars().count() <= columns {
                    assert!(unwrapped.lines().any(|whole| whole.starts_with(next)), "{columns}: {line}\n{next}");
                }
            }
        }
    }
    assert!(help(&["--help"], "100000").contains("as a command after `--`. `mcp` starts the command"));
}

#[test]
fn short_help_shows_the_own_options_and_long_help_shows_them_first() {
    let short = help(&["call", "-h"], "100");
    assert!(short.contains("--output <DIR>") && !short.contains("--sample-with"), "{short}");
    assert!(short.contains("--help also shows the options for every command"), "{short}");
    let long = help(&["call", "--help"], "100");
    let position = |option: &str| long.find(option).unwrap();
    assert!(position("--output <DIR>") < position("Options for every command"), "{long}");
    assert!(position("Options for every command") < position("--sample-with"), "{long}");
}
