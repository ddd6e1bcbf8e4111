//! Policies in a host: refusals, approvals, audit events, and the rules of configuration files.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    CallError, Catalog, Host, HostBuilder, ServerOptions, StartError,
    config::{ConfigFile, Environment, Scope, ServerDefinition},
    policy::{
        Action, AuditEvent, DecidedBy, Decision, Effect, Gate, Outcome, PendingApproval, Policy, PolicyHook,
        PolicyInput, RefusalKind, Rule,
    },
};
use mcp_client::{CancellationToken, transport::BoxFuture};
use mcp_server::prelude::*;
use mcp_test::peer::ScriptedServer;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::common::{TEST_TIMEOUT, scripted, server, text};

fn builder() -> HostBuilder {
    Host::builder("test", "1")
}

fn git() -> ScriptedServer {
    scripted(&["push", "pull", "log"]).on("tools/call", text("done"))
}

fn policy(text: &str) -> Policy {
    Policy::parse("/etc/demo/policy.toml", text).unwrap()
}

fn calls(server: &ScriptedServer) -> usize {
    server.seen_of("tools/call").len()
}

/// Returns the kind and the text of the refusal of a call.
async fn refused(host: &Host, name: &str) -> (RefusalKind, String) {
    let error = timeout(TEST_TIMEOUT, host.call(name, ()).into_future()).await.unwrap().unwrap_err();
    let CallError::Refused(refusal) = &error else { panic!("{error}") };
    assert!(error.result().is_error);
    (refusal.kind(), error.to_string())
}

#[tokio::test]
async fn a_denied_call_does_not_reach_its_server() {
    let git = git();
    let host = builder()
        .server("git", git.clone())
        .policy(policy("[[rule]]\ntool = \"push\"\neffect = \"deny\"\nreason = \"The code is frozen.\"\n"))
        .start()
        .await
        .unwrap();
    for name in ["git:push", "git__push"] {
        let (kind, text) = refused(&host, name).await;
        assert_eq!(kind, RefusalKind::Denied);
        assert_eq!(text, "rule 1 of policy.toml denies the call of \"push\" of \"git\": The code is frozen.");
    }
    assert_eq!(calls(&git), 0);
    assert_eq!(host.call("git:pull", ()).await.unwrap().text(), "done");
    assert_eq!(calls(&git), 1);
}

#[tokio::test]
async fn a_call_that_asks_waits_for_the_approver() {
    let git = git();
    let ask = "[[rule]]\ntool = \"push\"\neffect = \"ask\"\n";
    let host = builder().server("git", git.clone()).policy(policy(ask)).start().await.unwrap();
    let (kind, text) = refused(&host, "git:push").await;
    assert_eq!(kind, RefusalKind::NoApprover);
    assert!(text.contains("rule 1 of policy.toml") && text.contains("the host has no approver"), "{text}");

    let approver = |call: PendingApproval| async move { call.input.arguments.contains_key("approve") };
    let host = builder().server("git", git.clone()).policy(policy(ask)).approver(approver).start().await.unwrap();
    assert_eq!(refused(&host, "git:push").await.0, RefusalKind::Rejected);
    assert_eq!(calls(&git), 0);
    assert_eq!(host.call("git:push", json!({ "approve": 1 })).await.unwrap().text(), "done");
    assert_eq!(git.seen_of("tools/call")[0]["params"]["arguments"], json!({ "approve": 1 }));
}

#[tokio::test]
async fn a_pending_approval_is_visible_and_ends_with_its_call() {
    let git = git();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let approver = move |call: PendingApproval| {
        asked.send(call.input.tool).unwrap();
        std::future::pending()
    };
    let host = builder()
        .server("git", git.clone())
        .default_effect(Effect::Ask)
        .approver(approver)
        // The wait for a person is not a part of the time of the call.
        .call_timeout(Duration::from_millis(1))
        .start()
        .await
        .unwrap();
    let token = CancellationToken::new();
    let cancelled = host.call("git:push", ()).cancelled_by(token.clone().cancelled_owned());
    let cancelled = tokio::spawn(cancelled.into_future());
    assert_eq!(timeout(TEST_TIMEOUT, questions.recv()).await.unwrap().as_deref(), Some("push"));
    assert_eq!(host.pending_approvals().len(), 1);
    token.cancel();
    let error = timeout(TEST_TIMEOUT, cancelled).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, CallError::Cancelled { .. }), "{error}");
    assert!(host.pending_approvals().is_empty());

    let dropped = tokio::spawn(host.call("git:pull", ()).into_future());
    timeout(TEST_TIMEOUT, questions.recv()).await.unwrap();
    dropped.abort();
    let _ = dropped.await;
    assert!(host.pending_approvals().is_empty());
    assert_eq!(calls(&git), 0);
}

#[tokio::test]
async fn the_wait_for_an_approval_is_bounded() {
    let never = |_: PendingApproval| std::future::pending();
    let gate = Gate::new().default_effect(Effect::Ask).approver(never).approval_timeout(Duration::from_millis(20));
    let host = builder().server("git", git()).gate(gate).start().await.unwrap();
    assert_eq!(refused(&host, "git:push").await.0, RefusalKind::ApprovalTimedOut);
}

#[tokio::test]
async fn the_number_of_open_questions_is_bounded() {
    let (asked, mut questions) = watch::channel(0);
    let never = move |_: PendingApproval| {
        asked.send_modify(|count| *count += 1);
        std::future::pending()
    };
    let gate = Gate::new().default_effect(Effect::Ask).approver(never).max_pending(2);
    let host = builder().server("git", git()).gate(gate).start().await.unwrap();
    let call = || tokio::spawn(host.call("git:push", ()).into_future());
    let open = [call(), call()];
    timeout(TEST_TIMEOUT, questions.wait_for(|count| *count == 2)).await.unwrap().unwrap();
    assert_eq!(refused(&host, "git:push").await.0, RefusalKind::TooManyPending);
    assert_eq!(host.pending_approvals().len(), 2);
    // A cancelled call ends its question.
    for call in open {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert!(host.pending_approvals().is_empty());
}

#[tokio::test]
async fn a_tool_that_changes_during_the_approval_is_decided_again() {
    let changing = server("s", &["t"]);
    let changed = changing.clone();
    let (send_changes, changes) = watch::channel(None);
    let approver = move |call: PendingApproval| {
        let (changed, mut changes) = (changed.clone(), changes.clone());
        async move {
            if call.input.annotations.is_none() {
                changed.tools().remove("t");
                let destructive = tool("t", async || "changed").destructive();
                changed.tools().add(destructive).unwrap();
                // The person answers after the host has read the changed list.
                let host: Host = changes.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                let is_read = |catalog: &Catalog| catalog.tools().iter().any(|tool| tool.tool().annotations.is_some());
                host.catalog_changes().wait_for(is_read).await.unwrap();
            }
            call.input.annotations.is_none()
        }
    };
    let host = builder().server("s", &changing).default_effect(Effect::Ask).approver(approver).start().await.unwrap();
    send_changes.send(Some(host.clone())).unwrap();
    let error = timeout(TEST_TIMEOUT, host.call("s:t", ()).into_future()).await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Refused(refusal) if refusal.kind() == RefusalKind::Rejected), "{error}");
}

#[tokio::test]
async fn each_decision_has_an_audit_event() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let docs = Server::builder("docs", "1")
        .tool(tool("t", async || "t"))
        .resource(resource("config://app", async || "dark"))
        .resource(resource("config://key", async || "secret"))
        .prompt(prompt("review", async || "Review it."))
        .build();
    let rules =
        "[[rule]]\nresource = \"config://key\"\neffect = \"deny\"\n[[rule]]\nprompt = \"rev*\"\neffect = \"deny\"\n
        [[rule]]\nprincipal = \"guest-*\"\neffect = \"deny\"\n";
    let host = builder()
        .server("docs", &docs)
        .policy(policy(rules))
        .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone()))
        .start()
        .await
        .unwrap();
    host.call("docs:t", ()).await.unwrap();
    host.call("docs:t", ()).principal("ada").await.unwrap();
    host.call("docs:t", ()).principal("guest-1").await.unwrap_err();
    host.read("docs", "config://app").await.unwrap();
    let denied = host.read("docs", "config://key").await.unwrap_err().to_string();
    assert_eq!(denied, "rule 1 of policy.toml denies the read of \"config://key\" of \"docs\"");
    let denied = host.prompt("docs:review", ()).await.unwrap_err().to_string();
    assert_eq!(denied, "rule 2 of policy.toml denies the prompt \"review\" of \"docs\"");
    let events = events.lock().unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.action, event.tool.as_str(), event.decided_by)).collect();
    assert_eq!(
        seen,
        [
            (Action::CallTool, "t", DecidedBy::Default),
            (Action::CallTool, "t", DecidedBy::Default),
            (Action::CallTool, "t", DecidedBy::Rule(3)),
            (Action::ReadResource, "config://app", DecidedBy::Default),
            (Action::ReadResource, "config://key", DecidedBy::Rule(1)),
            (Action::GetPrompt, "review", DecidedBy::Rule(2)),
        ]
    );
    assert_eq!(events[2].policy.as_deref(), Some("/etc/demo/policy.toml"));
    assert_eq!(events[2].principal.as_deref(), Some("guest-1"));
    assert!(events[..2].iter().all(|event| event.outcome == Outcome::Allowed));
}

#[tokio::test]
async fn policies_decide_before_the_rules_of_a_server_and_these_before_the_default() {
    struct Hook;
    impl PolicyHook for Hook {
        fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
            Box::pin(async { (input.tool == "log").then(|| Decision::new(Effect::Deny)) })
        }
    }
    let glob = |text: &str| text.parse().unwrap();
    let options = ServerOptions::new()
        .rule(Rule::new(Effect::Deny).tool(glob("pull")))
        .rule(Rule::new(Effect::Allow).tool(glob("*")));
    let host = builder()
        .server_with("git", git(), options)
        .server("other", git())
        .policy(policy("default = \"deny\"\n[[rule]]\nserver = \"git\"\ntool = \"push\"\neffect = \"ask\"\n"))
        .policy_hook(Hook)
        .start()
        .await
        .unwrap();
    assert_eq!(refused(&host, "git:push").await.0, RefusalKind::NoApprover);
    assert!(refused(&host, "git:log").await.1.starts_with("a policy denies"));
    assert!(refused(&host, "git:pull").await.1.starts_with("rule 1 of the server \"git\" denies"));
    assert!(refused(&host, "other:push").await.1.starts_with("a policy denies"));
}

/// Returns the effects of the lists of a definition for some tools: allowed without an approval, or the refusal.
async fn effects(definition: &ServerDefinition, tools: &[&'static str], default: Effect) -> Vec<bool> {
    let host = builder().default_effect(default).start().await.unwrap();
    // The program does not exist, but the lists decide before the start.
    let mut allowed = Vec::new();
    host.add_definition(definition).unwrap();
    for name in tools {
        let input = PolicyInput::new(&*definition.name, *name);
        allowed.push(host.decide(&input).await.is_ok());
    }
    allowed
}

#[tokio::test]
async fn the_lists_of_configuration_files_are_rules_of_their_server() {
    let tools = ["get", "search", "other"];
    for (path, text, default, expected) in [
        (
            "/p/.mcp.json",
            r#"{ "mcpServers": { "s": { "command": "no-such-program", "x-mcp": { "trustTools": ["*"], "askTools": ["sea*"] } } } }"#,
            Effect::Ask,
            [true, false, true],
        ),
        (
            "/h/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            r#"{ "mcpServers": { "s": { "command": "no-such-program", "autoApprove": ["get"] } } }"#,
            Effect::Ask,
            [true, false, false],
        ),
        (
            "/h/.gemini/settings.json",
            r#"{ "mcpServers": { "s": { "command": "no-such-program", "trust": true } } }"#,
            Effect::Deny,
            [true, true, true],
        ),
        (
            "/h/.codex/config.toml",
            "[mcp_servers.s]\ncommand = \"no-such-program\"\ndefault_tools_approval_mode = \"prompt\"\n
             [mcp_servers.s.tools.get]\napproval_mode = \"approve\"\n",
            Effect::Allow,
            [true, false, false],
        ),
        (
            "/h/.codex/config.toml",
            "[mcp_servers.s]\ncommand = \"no-such-program\"\ndefault_tools_approval_mode = \"approve\"\n
             [mcp_servers.s.tools.search]\napproval_mode = \"prompt\"\n",
            Effect::Deny,
            [true, false, true],
        ),
        (
            "/p/.mcp.json",
            r#"{ "mcpServers": { "s": { "command": "no-such-program" } } }"#,
            Effect::Allow,
            [true, true, true],
        ),
    ] {
        let config = ConfigFile::parse(Path::new(path), text, Scope::Named, &Environment::default()).unwrap();
        assert_eq!(config.errors, [], "{path}");
        assert_eq!(effects(&config.servers[0], &tools, default).await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_policy_file_that_is_missing_or_invalid_prevents_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    let start = || builder().server("git", git()).policy_file(&path).start();
    let missing = start().await.unwrap_err();
    assert!(matches!(missing, StartError::Policy(_)), "{missing}");
    std::fs::write(&path, "[[rule]]\neffect = \"maybe\"\n").unwrap();
    assert!(start().await.unwrap_err().to_string().contains("policy.toml:2:10"));
    std::fs::write(&path, "[[rule]]\ntool = \"push\"\neffect = \"deny\"\n").unwrap();
    let host = start().await.unwrap();
    assert_eq!(refused(&host, "git:push").await.0, RefusalKind::Denied);
}

#[tokio::test]
async fn calls_without_a_policy_have_no_decision() {
    let decided = Arc::new(AtomicUsize::new(0));
    let host = builder().server("git", git()).start().await.unwrap();
    assert_eq!(host.call("git:push", ()).await.unwrap().text(), "done");
    let counted = Arc::clone(&decided);
    let sink = move |_: &AuditEvent| _ = counted.fetch_add(1, Ordering::Relaxed);
    let host = builder().server("git", git()).audit(sink).start().await.unwrap();
    host.call("git:push", ()).await.unwrap();
    assert_eq!(decided.load(Ordering::Relaxed), 1);
}
