//! `mcp new`: the project that it writes builds, passes its tests and answers calls.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use super::{
    mcp,
    process::{BoundedOutput as _, wait_for},
    tempdir, text,
};

/// The longest time of a build.
const BUILD: Duration = Duration::from_secs(900);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Waits for a build, and returns its status.
fn build(command: &mut Command) -> ExitStatus {
    wait_for(&mut command.stdin(Stdio::null()).spawn().unwrap(), BUILD)
}

#[test]
fn the_new_project_builds_offline_and_answers_calls() {
    let root = workspace();
    let directory = tempdir();
    for (name, options, flags) in [("weather-http", &["--http"][..], &["--stdio"][..]), ("weather-stdio", &[], &[])] {
        let project = directory.join(name);
        let output = mcp().args(["new", "--path"]).arg(&root).arg(&project).args(options).bounded_output();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
        // The target directory of the workspace contains most of the dependencies.
        let target = root.join("target");
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--offline", "--quiet"]).current_dir(&project).env("CARGO_TARGET_DIR", &target);
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        assert!(build(&mut command).success(), "{name}");
        let program = target.join("debug").join(name).with_extension(std::env::consts::EXE_EXTENSION);
        let line = ["call", "count", "text=strawberry", "what=r", "--"];
        let output = mcp().args(line).arg(&program).args(flags).bounded_output();
        assert_eq!(text(&output.stdout), "{\"times\":3}\n", "{}", text(&output.stderr));
        // The project is an example for others, so it has no errors and no warnings.
        let output = mcp().args(["lint", "--strict", "--"]).arg(&program).args(flags).bounded_output();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_new_project_never_overwrites_and_needs_a_source() {
    let root = workspace();
    // This directory is outside of the checkout.
    let outside = std::env::temp_dir().join(format!("mcp-new-{}", std::process::id()));
    fs::create_dir_all(&outside).unwrap();
    let run = |words: &[&str]| {
        let output = mcp().current_dir(&outside).arg("new").args(words).bounded_output();
        (output.status.code(), text(&output.stderr))
    };
    let root = root.to_str().unwrap();
    for (words, message) in [
        (&["weather"][..], "the source of the library is not known; write --path DIR for a checkout or --git URL"),
        (&["weather", "--path", "/"], "/ is not a checkout of the library: it has no crates/mcp-server"),
        (&["weather", "--git", "nothing"], "`nothing` is not the URL of a git repository"),
        (&["2fast", "--path", root], "`2fast` is not a name for a package: it must begin with a letter"),
        (&["weather", "--path", root, "--git", "https://example.com/x"], "cannot be used with"),
    ] {
        let (code, stderr) = run(words);
        assert_eq!(code, Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
        assert!(!outside.join("weather").exists(), "{words:?}");
    }
    fs::create_dir(outside.join("weather")).unwrap();
    let (code, stderr) = run(&["weather", "--path", root]);
    assert_eq!((code, stderr.contains("weather exists already; choose another name")), (Some(2), true), "{stderr}");
    assert_eq!(fs::read_dir(outside.join("weather")).unwrap().count(), 0);

    assert_eq!(run(&["rain", "--git", "https://example.com/mcp.git"]).0, Some(0));
    let manifest = fs::read_to_string(outside.join("rain/Cargo.toml")).unwrap();
    assert!(manifest.contains("mcp-server = { git = \"https://example.com/mcp.git\", default-features = false }"));
    let git = ["new", "a b/sun", "--git", "https://example.com/mcp.git"];
    let output = mcp().current_dir(&outside).args(git).bounded_output();
    let next = "next: cd 'a b/sun' && cargo test && mcp call count text=strawberry what=r -- target/debug/sun\n";
    assert!(text(&output.stdout).ends_with(next), "{output:?}");
    // Inside a checkout, `mcp` finds its root.
    let inside = tempdir().join("inside");
    let output = mcp().current_dir(root).arg("new").arg(&inside).bounded_output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let manifest = fs::read_to_string(inside.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("path = \"{root}/crates/mcp-server\"")), "{manifest}");
    fs::remove_dir_all(inside.parent().unwrap()).unwrap();
    fs::remove_dir_all(&outside).unwrap();
}
