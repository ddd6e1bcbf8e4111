//! Runs the program with both servers as child processes, in the formats of all providers.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{process::Output, time::Duration};

use serde_json::json;
use tokio::{process::Command, time::timeout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent");

async fn run(arguments: &[&str]) -> Output {
    let running = Command::new(PROGRAM).args(arguments).kill_on_drop(true).output();
    timeout(Duration::from_secs(60), running).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_agent_answers_with_the_servers_of_a_file_for_each_provider() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.mcp.json");
    let server = |name: &str| json!({ "command": PROGRAM, "args": ["--serve", name] });
    let servers = json!({ "mcpServers": { "notes": server("notes"), "shop": server("shop") } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for provider in ["anthropic", "openai", "openai-chat", "openai-responses", "gemini", "bedrock", "mistral", "ollama"]
    {
        let output = run(&[file, provider]).await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{provider}: {stderr}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stdout, "Lemons and flour cost 5 francs.\n", "{provider}: {stderr}");
        // The model corrected the call that failed.
        assert_eq!(stderr.matches("shop__price returned").count(), 2, "{provider}: {stderr}");
        assert_eq!(stderr.matches("shop__price failed").count(), 1, "{provider}: {stderr}");
    }
}

#[tokio::test]
async fn a_file_without_the_tools_of_the_script_has_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.json");
    let servers = json!({ "mcpServers": { "notes": { "command": PROGRAM, "args": ["--serve", "shop"] } } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let output = run(&[file.to_str().unwrap()]).await;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("add a server `notes` with the tool `search`"), "{stderr}");
}

#[tokio::test]
async fn the_agent_starts_its_own_servers_without_a_file() {
    let output = run(&[]).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Lemons and flour cost 5 francs.\n");
    let unknown = run(&["copilot"]).await;
    assert!(!unknown.status.success());
    let stderr = String::from_utf8(unknown.stderr).unwrap();
    assert!(stderr.starts_with("error: copilot is not a provider") && stderr.contains("openai-responses"), "{stderr}");
    let help = run(&["--help"]).await;
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: agent"));
}
