//! Questions of the server without a terminal: `--answer`, `--yes` and `--decline`.

use super::{Http, check, mcp, process::BoundedOutput as _, tempdir, text};

/// Revisions of both eras.
const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[test]
fn options_answer_questions_without_a_terminal() {
    let http = Http::start();
    for version in VERSIONS {
        for (line, code, out, err) in [
            ("greet --answer name=Ada", 0, "Hello, Ada!\n", "fixture asks: Who are you? (answered with --answer)\n"),
            (r#"greet --answer {"name":"Ada"}"#, 0, "Hello, Ada!\n", "answered with --answer"),
            ("both --answer name=Ada", 0, "Ada and Ada\n", "fixture asks: And the second?"),
            ("confirm --yes", 0, "deleted\n", "fixture asks: Delete the note? (agreed with --yes)\n"),
            ("confirm --decline", 0, "kept\n", "fixture asks: Delete the note? (declined with --decline)\n"),
            ("greet --decline", 1, "", "declined"),
            ("visit --decline", 1, "", "fixture asks: Sign in, please (declined with --decline)\n"),
            ("subscribe --answer name=Ada --yes", 0, "Ada, news: true\n", "(answered with --answer)"),
            ("subscribe --answer name=Ada --answer news=n", 0, "Ada, news: false\n", "(answered with --answer)"),
            ("fail --answer nme=Ada", 1, "", "warning: no question of the server has the field `nme`"),
            (
                "add a=1 b=2 --answer nme=Ada",
                0,
                "{\"sum\":3}\n",
                "warning: no question of the server has the field `nme`",
            ),
        ] {
            check(&http.url, &format!("call URL {line} --revision {version}"), code, out, err);
        }
    }
}

#[test]
fn a_question_without_an_answer_names_the_options() {
    let http = Http::start();
    for version in VERSIONS {
        for (line, code, message) in [
            (
                "greet --answer nmae=Ada",
                2,
                "mcp: the question `Who are you?` has no answer; answer with --answer name=VALUE, or decline with --decline; \
                 the form has no field `nmae`, did you mean `name`?\n",
            ),
            ("greet --yes", 2, "has no answer; answer with --answer name=VALUE, or decline with --decline\n"),
            (
                "subscribe --answer name=Ada",
                2,
                "mcp: the question `Subscribe?` has no answer; answer with --answer news=VALUE, agree to the defaults with \
                 --yes, or decline with --decline\n",
            ),
            (
                "greet --answer name:=null",
                2,
                "mcp: the question `Who are you?` has no answer; answer with --answer name=VALUE",
            ),
            ("greet --answer name:=7", 2, "mcp: `name`: expected a string, got 7\n"),
            (
                "confirm --answer name=Ada",
                2,
                "mcp: the question `Delete the note?` has no answer; agree with --yes, or decline with --decline\n",
            ),
            ("greet", 4, "run `mcp` with stdin and stderr at a terminal, or give --answer, --yes or --decline\n"),
            (
                "visit --yes",
                4,
                "the server wants the user to open a page: run `mcp` with stdin and stderr at a terminal, \
                                or decline with --decline\n",
            ),
            ("greet --answer Ada", 2, "`Ada` is not an argument; write key=value, key:=json or a JSON object\n"),
            ("greet --answer name=x --answer name=y", 2, "`name` is given twice\n"),
            ("greet --answer @/no/such/file", 2, "cannot read /no/such/file"),
        ] {
            check(&http.url, &format!("call URL {line} --revision {version}"), code, "", message);
        }
    }
}

#[test]
fn a_question_that_the_revision_lacks_needs_a_later_revision() {
    let http = Http::start();
    for (revision, call) in
        [("2024-11-05", "confirm --yes"), ("2025-03-26", "greet --answer name=Ada"), ("2025-06-18", "visit --decline")]
    {
        let line = format!("call URL {call} --revision {revision}");
        let hint = format!(
            "; the server asks the user, and the revision {revision} has no such question: choose a later one with --revision\n"
        );
        check(&http.url, &line, 4, "", &hint);
    }
}

#[test]
fn answers_come_from_files_and_stdin() {
    let http = Http::start();
    let directory = tempdir();
    let file = directory.join("answers.json");
    std::fs::write(&file, r#"{"name": "Ada"}"#).unwrap();
    check(&http.url, &format!("call URL greet --answer @{}", file.display()), 0, "Hello, Ada!", "answered");
    std::fs::remove_dir_all(&directory).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"Grace").unwrap();
    drop(writer);
    let line = ["call", &http.url, "greet", "--answer", "name=@-"];
    let output = mcp().args(line).stdin(reader).bounded_output();
    assert_eq!(text(&output.stdout), "Hello, Grace!\n", "{output:?}");
    let message = "the shell reads its commands from stdin; give a file as `@file`";
    check(&http.url, "shell URL --answer name=@-", 2, "", message);
}

#[cfg(unix)]
#[test]
fn a_terminal_asks_only_for_the_fields_without_an_answer() {
    use super::terminal::Terminal;

    let http = Http::start();
    let mut terminal = Terminal::run_with(&http.url, "call URL book --answer seats=2", &[("NO_COLOR", "1")]);
    let before = terminal.expect("name: ");
    assert!(!before.contains("seats: "), "{before}");
    terminal.type_text("Ada\n");
    terminal.expect("Ada booked 2");
    assert_eq!(terminal.wait().code(), Some(0));
    // The user sees the default of a field that no option answers.
    let mut terminal = Terminal::run_with(&http.url, "call URL subscribe --answer name=Ada", &[("NO_COLOR", "1")]);
    terminal.expect("news [y/n] (true): ");
    terminal.type_text("n\n");
    terminal.expect("Ada, news: false");
    assert_eq!(terminal.wait().code(), Some(0));
    // With all answers, the terminal shows the question and does not wait.
    let mut terminal = Terminal::run_with(&http.url, "call URL confirm --yes", &[("NO_COLOR", "1")]);
    terminal.expect("fixture asks: Delete the note? (agreed with --yes)");
    terminal.expect("deleted");
    assert_eq!(terminal.wait().code(), Some(0));
}
