//! Runs the program.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{process::Output, time::Duration};

use tokio::{process::Command, time::timeout};

async fn run(arguments: &[&str]) -> Output {
    let running = Command::new(env!("CARGO_BIN_EXE_host")).args(arguments).kill_on_drop(true).output();
    timeout(Duration::from_secs(30), running).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_program_lists_the_tools_and_answers_sampling() {
    let listed = run(&[]).await;
    let stdout = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && stdout.starts_with("notes:summarize (~"), "{stdout}");

    let called = run(&["notes__summarize", r#"{ "text": "one two three four five six seven eight nine" }"#]).await;
    let stderr = String::from_utf8(called.stderr).unwrap();
    assert_eq!(String::from_utf8(called.stdout).unwrap(), "one two three four five six seven eight\n", "{stderr}");
    assert!(stderr.contains("the server notes samples during the call of summarize"), "{stderr}");

    let unknown = run(&["notes:other"]).await;
    assert!(!unknown.status.success());
    let stderr = String::from_utf8(unknown.stderr).unwrap();
    assert!(stderr.contains("error: ") && !stderr.contains("UnknownName"), "{stderr}");
    assert!(stderr.contains("notes:summarize"), "{stderr}");
    let help = run(&["--help"]).await;
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: host"));
}
