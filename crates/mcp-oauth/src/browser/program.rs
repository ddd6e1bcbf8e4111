//! The programs of the variable `BROWSER`.

use std::{io, path::Path, process::Stdio};

use tokio::{process::Command, time::timeout};

use super::START_LIMIT;
use crate::error::{Error, ErrorKind};

/// Browsers that run in the terminal of the user.
const TEXT_BROWSERS: [&str; 6] = ["lynx", "links", "links2", "elinks", "w3m", "eww"];

/// Opens a page with the first program that starts and does not fail. The character `:` separates the programs.
///
/// # Errors
/// If no program opens the page. If no program could be started, the source is the error of the last one.
pub(super) async fn open(programs: &str, url: &str) -> Result<(), Error> {
    let (mut failures, mut source, mut has_started) = (Vec::new(), None, false);
    for command in programs.split(':') {
        let mut words = words(command, url).into_iter();
        let Some(program) = words.next() else { continue };
        match run(&program, words).await {
            Ok(None) => return Ok(()),
            Ok(Some(failure)) => {
                failures.push(format!("the program {program:?} of BROWSER failed: {failure}"));
                has_started = true;
            }
            Err(error) => {
                failures.push(format!("the program {program:?} of BROWSER cannot be started: {error}"));
                source = Some(error);
            }
        }
    }
    let text = if failures.is_empty() { "BROWSER names no program".to_owned() } else { failures.join("; ") };
    Err(match source.filter(|_| !has_started) {
        Some(source) => Error::with_source(ErrorKind::LoginRequired, text, source),
        None => Error::new(ErrorKind::LoginRequired, text),
    })
}

/// Starts a program, and returns its failure if it ends soon. A program that still runs opened the page.
async fn run(program: &str, args: impl Iterator<Item = String>) -> io::Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(args);
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !TEXT_BROWSERS.contains(&name) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = command.spawn()?;
    match timeout(START_LIMIT, child.wait()).await {
        Ok(Ok(status)) if !status.success() => Ok(Some(status.to_string())),
        Ok(Err(error)) => Ok(Some(error.to_string())),
        Ok(Ok(_)) | Err(_) => Ok(None),
    }
}

/// Returns the program and its arguments: `%s` is the URL, `%c` is a colon and `%%` is `%`. Without `%s` the URL is the last
/// argument.
fn words(command: &str, url: &str) -> Vec<String> {
    let mut has_url = false;
    let mut words: Vec<String> = Vec::new();
    for word in command.split_ascii_whitespace() {
        let (mut text, mut rest) = (String::new(), word.chars());
        while let Some(character) = rest.next() {
            match (character, if character == '%' { rest.next() } else { None }) {
                ('%', Some('s')) => {
                    has_url = true;
                    text.push_str(url);
                }
                ('%', Some('c')) => text.push(':'),
                ('%', Some('%')) => text.push('%'),
                (first, second) => text.extend([Some(first), second].into_iter().flatten()),
            }
        }
        words.push(text);
    }
    if !has_url && !words.is_empty() {
        words.push(url.to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_contain_the_url_once() {
        const URL: &str = "https://as.example/a?b=%s";
        for (command, expected) in [
            ("firefox", &["firefox", URL][..]),
            ("  open  -a  x ", &["open", "-a", "x", URL]),
            ("x --url=%s y", &["x", "--url=https://as.example/a?b=%s", "y"]),
            ("x%c%% %d", &["x:%", "%d", URL]),
            ("x %", &["x", "%", URL]),
            ("", &[]),
        ] {
            assert_eq!(words(command, URL), expected, "{command:?}");
        }
    }

    #[tokio::test]
    async fn failures_name_the_program() {
        for (programs, expected) in [
            ("true", None),
            ("false:true", None),
            ("/no/such:true", None),
            ("/bin/false", Some(&["the program \"/bin/false\" of BROWSER failed: exit status: 1"][..])),
            ("/no/such", Some(&["the program \"/no/such\" of BROWSER cannot be started: No such file"])),
            ("/no/such:false", Some(&["\"/no/such\"", "; the program \"false\" of BROWSER failed"])),
            (":", Some(&["BROWSER names no program"])),
        ] {
            match (open(programs, "https://as.example").await, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(parts)) => {
                    let text = error.to_string();
                    assert!(parts.iter().all(|part| text.contains(part)), "{programs}: {text}");
                    assert_eq!(error.kind(), ErrorKind::LoginRequired);
                    let is_unstarted = programs == "/no/such";
                    assert_eq!(std::error::Error::source(&error).is_some(), is_unstarted, "{programs}");
                }
                (result, _) => panic!("{programs}: {result:?}"),
            }
        }
    }
}
