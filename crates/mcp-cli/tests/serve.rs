//! `mcp serve`: a directory as a server.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
};

use super::{
    check, mcp,
    process::{BoundedOutput as _, Lines, signal, wait},
    tempdir, text,
};

/// A running `mcp` that serves HTTP. The drop of this value kills it.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) url: String,
    /// The line with the URL.
    pub(crate) line: String,
    /// The lines before the line with the URL.
    pub(crate) earlier: Vec<String>,
    pub(crate) stderr: Lines,
}

impl Serving {
    /// Starts `mcp` with these arguments, and waits for the line with its URL.
    pub(crate) fn start(mut command: std::process::Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = Lines::of(child.stderr.take().unwrap());
        let mut earlier = Vec::new();
        let url = stderr.find_map(|line| match line.split_once(" is served at ") {
            Some((_, url)) => Some((url.to_owned(), line)),
            None => {
                earlier.push(line);
                None
            }
        });
        let (url, line) = url.unwrap_or_else(|| panic!("the server printed no URL: {earlier:?}"));
        Self { child, url, line, earlier, stderr }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only if the program has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn content() -> PathBuf {
    let directory = tempdir().join("content");
    fs::create_dir_all(directory.join("prompts")).unwrap();
    fs::create_dir_all(directory.join("resources")).unwrap();
    fs::create_dir_all(directory.join("tools")).unwrap();
    fs::write(directory.join("server.toml"), "name = \"notes\"\nversion = \"2.0.0\"\n").unwrap();
    fs::write(directory.join("prompts/greet.md"), "---\ndescription: Greets.\n---\nGreet {name}.\n").unwrap();
    fs::write(directory.join("resources/a.txt"), "the text of a\n").unwrap();
    fs::write(directory.join("tools/bad.toml"), "this is not a manifest").unwrap();
    directory
}

#[test]
fn serves_a_directory_over_http_until_sigterm() {
    let directory = content();
    let mut command = mcp();
    command.arg("serve").arg(&directory).args(["--port", "0"]);
    let mut serving = Serving::start(command);
    check(&serving.url, "info URL", 0, "notes 2.0.0", "");
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let line = format!("prompt URL greet name=Ada --revision {revision}");
        check(&serving.url, &line, 0, "user: Greet Ada.", "");
    }
    check(&serving.url, "read URL file:///a.txt", 0, "the text of a\n", "");
    if signal(&mut serving.child, "TERM") {
        assert_eq!(wait(&mut serving.child).code(), Some(0));
        assert_eq!(serving.stderr.next(), None);
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn serves_a_directory_over_stdio() {
    let directory = content();
    let program = env!("CARGO_BIN_EXE_mcp");
    let mut command = mcp();
    command.args(["read", "file:///a.txt", "--", program, "serve"]).arg(&directory).arg("--stdio");
    let output = command.bounded_output();
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "the text of a\n"), "{output:?}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn prints_the_url_as_json_and_warns_about_files_with_a_fault() {
    let directory = content();
    let mut command = mcp();
    command.arg("serve").arg(&directory).args(["--port", "0", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let line = Lines::of(child.stdout.take().unwrap()).next().unwrap();
    let url: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(url["url"].as_str().unwrap().ends_with("/mcp"), "{line}");
    let warning = Lines::of(child.stderr.take().unwrap()).next().unwrap();
    assert!(warning.contains("a file is not served") && warning.contains("bad.toml"), "{warning}");
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn warns_about_a_directory_without_content() {
    for (parts, file, is_empty) in [
        (&[][..], None, true),
        (&["tools", "prompts"], None, true),
        (&["tools", "resources"], Some("tools/.gitkeep"), true),
        (&["resources"], Some("resources/a.txt"), false),
    ] {
        let directory = tempdir().join("empty");
        fs::create_dir_all(&directory).unwrap();
        for part in parts {
            fs::create_dir_all(directory.join(part)).unwrap();
        }
        if let Some(file) = file {
            fs::write(directory.join(file), "the text of a\n").unwrap();
        }
        let mut command = mcp();
        command.arg("serve").arg(&directory).args(["--port", "0"]);
        let serving = Serving::start(command);
        let warns = serving.earlier.iter().any(|line| line.ends_with(": the server has no content"));
        assert_eq!(warns, is_empty, "{file:?} {parts:?}: {:?}", serving.earlier);
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn rejects_options_without_an_effect() {
    for (line, option) in [("--timeout 1", "--timeout"), ("--policy none", "--policy"), ("--json --yes", "--yes")] {
        let err = format!("the option {option} has no effect on `mcp serve`");
        check("", &format!("serve . --port 0 {line}"), 2, "", &err);
    }
}

#[test]
fn rejects_a_missing_directory_and_a_used_port() {
    check("", "serve /no/such/directory", 2, "", "/no/such/directory: ");
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = used.local_addr().unwrap().port();
    let directory = content();
    let line = format!("serve {} --port {port}", directory.display());
    check("", &line, 1, "", &format!("the server cannot listen on 127.0.0.1:{port}: Address already in use"));
    fs::remove_dir_all(directory).unwrap();
}
