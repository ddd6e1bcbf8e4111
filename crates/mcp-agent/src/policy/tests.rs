//! Tests of policies and gates.

use std::{
    error::Error,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_protocol::{JsonObject, ToolAnnotations};

use super::*;

const POLICY: &str = r#"
default = "deny"

[[rule]]
server = "git*"
tool = "push*"
annotation.destructive = true
effect = "ask"
reason = "A push is public."

[[rule]]
server = "git*"
effect = "allow"

[[rule]]
principal = "admin-?"
effect = "allow"

[[rule]]
annotation = { read_only = true, openWorld = false }
effect = "allow"
"#;

fn input(server: &str, tool: &str) -> PolicyInput {
    PolicyInput::new(server, tool)
}

fn events(gate: Gate) -> (Gate, Arc<Mutex<Vec<AuditEvent>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    (gate.audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone())), events)
}

struct Answer(Option<bool>);

impl Approver for Answer {
    fn approve<'a>(&'a self, _: &'a PendingApproval) -> BoxFuture<'a, bool> {
        Box::pin(async { if let Some(answer) = self.0 { answer } else { pending().await } })
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = Policy::parse("policy.toml", POLICY).unwrap();
    let hints = ToolAnnotations::new;
    let safe = hints().with_destructive_hint(false);
    let closed = hints().with_read_only_hint(true).with_open_world_hint(false);
    for (input, expected) in [
        (input("github", "push_files"), Some((1, Effect::Ask))),
        (input("github", "push_files").annotations(Some(safe)), Some((2, Effect::Allow))),
        (input("gitlab", "pull"), Some((2, Effect::Allow))),
        (input("files", "push").principal("admin-1"), Some((3, Effect::Allow))),
        (input("files", "push").principal("admin-12"), None),
        (input("files", "push"), None),
        (input("files", "read").annotations(Some(closed)), Some((4, Effect::Allow))),
        (input("files", "read").annotations(Some(hints().with_read_only_hint(true))), None),
    ] {
        let found = policy.decide(&input).map(|decision| (decision.rule.unwrap(), decision.effect));
        assert_eq!(found, expected, "{input:?}");
    }
    assert_eq!(policy.default_effect(), Some(Effect::Deny));
    assert_eq!(policy.rules().len(), 4);
}

#[test]
fn errors_name_the_line_and_the_column() {
    for (text, line, column, expected) in [
        ("defualt = \"deny\"", 1, 1, "unknown field `defualt`"),
        ("[[rule]]\ntool = \"a\"\n", 1, 1, "missing field `effect`"),
        ("[[rule]]\neffect = \"maybe\"", 2, 10, "unknown variant `maybe`"),
        ("[[rule]]\neffect = \"deny\"\ntool = \"\"", 3, 8, "a pattern must not be empty"),
        ("[[rule]]\neffect = \"deny\"\nannotation.readonly = true", 3, 12, "unknown field `readonly`"),
        ("[[rule]]\neffect = \"deny\"\nannotation.read_only = \"yes\"", 3, 24, "invalid type"),
        ("[[rule]]\n# ü\nüeffect = 1", 3, 1, ""),
        ("[rule]\neffect = \"deny\"", 1, 1, "invalid type"),
    ] {
        let error = Policy::parse("p.toml", text).unwrap_err();
        assert_eq!((error.line(), error.column()), (Some(line), Some(column)), "{error}");
        assert!(error.message().contains(expected), "{error}");
        assert!(error.to_string().starts_with(&format!("p.toml:{line}:{column}: ")), "{error}");
    }
    let error = Policy::load("missing/policy.toml").unwrap_err();
    assert!(error.to_string().starts_with("missing/policy.toml: the file cannot be read: "), "{error}");
    assert_eq!(Policy::parse("p", "").unwrap(), Policy::new());
}

#[tokio::test]
async fn the_approvals_of_a_principal_leave_approvals_for_others() {
    let gate = Gate::new().default_effect(Effect::Ask).approver(Answer(None)).max_pending(8);
    let (ada, grace, none) = (input("a", "b").principal("ada"), input("a", "b").principal("grace"), input("a", "b"));
    let mut open = Vec::new();
    for (input, is_refused, pending) in
        [(&ada, false, 1), (&ada, false, 2), (&ada, true, 2), (&grace, false, 3), (&none, false, 4), (&ada, true, 4)]
    {
        let mut check = Box::pin(gate.check(input));
        // The first poll opens the question or refuses the call.
        let refused = tokio::time::timeout(Duration::ZERO, &mut check).await;
        let kind = refused.ok().map(|refused| refused.unwrap_err().kind());
        assert_eq!(kind, is_refused.then_some(RefusalKind::TooManyPending));
        assert_eq!(gate.pending().len(), pending);
        if !is_refused {
            open.push(check);
        }
    }
    drop(open);
    assert!(gate.pending().is_empty());
}

#[tokio::test]
async fn each_effect_has_its_outcome_and_one_audit_event() {
    let policy = || Policy::parse("policy.toml", POLICY).unwrap();
    for (gate, input, expected, decided_by) in [
        (Gate::new(), input("a", "b"), Outcome::Allowed, DecidedBy::Default),
        (Gate::new().policy(policy()), input("git", "pull"), Outcome::Allowed, DecidedBy::Rule(2)),
        (Gate::new().policy(policy()), input("a", "b"), Outcome::Refused(RefusalKind::Denied), DecidedBy::Default),
        (
            Gate::new().policy(policy()),
            input("git", "push"),
            Outcome::Refused(RefusalKind::NoApprover),
            DecidedBy::Rule(1),
        ),
        (
            Gate::new().policy(policy()).approver(Answer(Some(true))),
            input("git", "push"),
            Outcome::Approved,
            DecidedBy::Rule(1),
        ),
        (
            Gate::new().policy(policy()).approver(Answer(Some(false))),
            input("git", "push"),
            Outcome::Refused(RefusalKind::Rejected),
            DecidedBy::Rule(1),
        ),
        (
            Gate::new().policy(policy()).approver(Answer(Some(true))).max_pending(0),
            input("git", "push"),
            Outcome::Refused(RefusalKind::TooManyPending),
            DecidedBy::Rule(1),
        ),
    ] {
        let (gate, events) = events(gate);
        let result = gate.check(&input.principal("ada")).await;
        assert_eq!(result.is_ok(), expected.runs());
        let events = events.lock().unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].outcome, events[0].decided_by), (expected, decided_by));
        assert_eq!(events[0].principal.as_deref(), Some("ada"));
        if let Err(refusal) = result {
            assert_eq!(Outcome::Refused(refusal.kind()), expected);
            assert_eq!(refusal.reason(), (decided_by == DecidedBy::Rule(1)).then_some("A push is public."));
        }
        assert_eq!(gate.pending(), []);
    }
}

#[cfg(feature = "gateway")]
#[tokio::test]
async fn a_refused_later_round_has_the_outcome_the_policy_and_the_reason_of_its_decision() {
    const PUSH: (Option<&str>, Option<&str>) = (Some("policy.toml"), Some("A push is public."));
    let policy = || Policy::parse("policy.toml", POLICY).unwrap();
    let (deny, ask) = ((Effect::Deny, RefusalKind::Denied), (Effect::Ask, RefusalKind::NoApprover));
    for (gate, input, expected, by) in [
        (Gate::new().policy(policy()), input("git", "pull"), None, (None, None)),
        (Gate::new().policy(policy()), input("a", "b"), Some(deny), (None, None)),
        (Gate::new().policy(policy()), input("git", "push"), Some(ask), PUSH),
        (Gate::new().default_effect(Effect::Ask), input("a", "b"), Some(ask), (None, None)),
        // A person approved the first round.
        (Gate::new().policy(policy()).approver(Answer(None)), input("git", "push"), None, (None, None)),
    ] {
        let (gate, events) = events(gate);
        let refusal = match gate.check_round(&input, &[]) {
            Ok(mut round) => round.allow().await.err(),
            Err(refusal) => Some(refusal),
        };
        assert_eq!(refusal.as_ref().map(Refusal::kind), expected.map(|(_, kind)| kind), "{input:?}");
        let named = refusal.as_ref().map_or((None, None), |refusal| (refusal.policy(), refusal.reason()));
        assert_eq!(named, by, "{input:?}");
        let events = std::mem::take(&mut *events.lock().unwrap());
        let refused = expected.map(|(effect, kind)| (effect, Outcome::Refused(kind)));
        let [event] = &events[..] else { panic!("{events:?}") };
        assert_eq!((event.effect, event.outcome), refused.unwrap_or((Effect::Allow, Outcome::Allowed)), "{input:?}");
        assert_eq!((event.policy.as_deref(), event.reason.as_deref()), by, "{input:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_required_audit_refuses_calls_without_a_stored_event() {
    /// Stores events, fails, or never answers.
    struct Sink(Option<bool>, Arc<Mutex<Vec<Outcome>>>);

    impl AuditSink for Sink {
        fn record(&self, event: &AuditEvent) {
            self.1.lock().unwrap().push(event.outcome);
        }

        fn store<'a>(&'a self, event: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
            Box::pin(async {
                match self.0 {
                    Some(true) => {
                        self.record(event);
                        Ok(())
                    }
                    Some(false) => Err("the disk is full".into()),
                    None => pending().await,
                }
            })
        }
    }

    let refused = Outcome::Refused(RefusalKind::NotRecorded);
    for (stores, is_required, expected) in [
        (Some(true), true, Outcome::Allowed),
        (Some(false), true, refused),
        (None, true, refused),
        (Some(false), false, Outcome::Allowed),
    ] {
        let seen = Arc::default();
        let gate = Gate::new().audit(Sink(stores, Arc::clone(&seen)));
        let gate = if is_required { gate.require_audit() } else { gate };
        let outcome = match gate.check(&input("a", "b")).await {
            Ok(()) => Outcome::Allowed,
            Err(refusal) => Outcome::Refused(refusal.kind()),
        };
        assert_eq!(outcome, expected, "{stores:?} {is_required}");
        assert_eq!(seen.lock().unwrap().len(), usize::from(expected.runs()));
        // A refused call needs no stored event.
        let gate = gate.default_effect(Effect::Deny);
        assert_eq!(gate.check(&input("a", "b")).await.unwrap_err().kind(), RefusalKind::Denied);
    }
    let refusal = Gate::new().require_audit().check(&input("a", "b")).await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        r#"the host refuses the call of "b" of "a", because its audit event cannot be stored"#
    );
}

#[tokio::test(start_paused = true)]
async fn waits_for_people_and_hooks_are_bounded() {
    struct Stuck;
    impl PolicyHook for Stuck {
        fn decide<'a>(&'a self, _: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
            Box::pin(pending())
        }
    }
    let ask = || Gate::new().default_effect(Effect::Ask).approver(Answer(None));
    let refusal = ask().check(&input("a", "b")).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::ApprovalTimedOut);
    let refusal = Gate::new().hook(Stuck).check(&input("a", "b")).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::HookTimedOut);

    // A caller that drops its call ends the question.
    let (gate, events) = events(ask());
    let seen = gate.clone();
    let call = tokio::spawn(async move { gate.check(&input("a", "b").principal("ada")).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pending = seen.pending();
    assert_eq!((pending.len(), pending[0].input.tool.as_str()), (1, "b"));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(seen.pending(), []);
    assert_eq!(events.lock().unwrap()[0].outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn hooks_decide_in_order_and_read_arguments() {
    struct Path;
    impl PolicyHook for Path {
        fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
            let found = input.arguments.contains_key("path");
            Box::pin(async move { found.then(|| Decision::new(Effect::Deny).reason("No paths.")) })
        }
    }
    let rule = || Policy::new().rule(Rule::new(Effect::Allow).tool("read".parse().unwrap()));
    let call = |tool: &str| input("files", tool).arguments(JsonObject::new().with("path", "/secret"));
    let gate = Gate::new().policy(rule()).hook(Path);
    assert!(gate.check(&call("read")).await.is_ok());
    let refusal = gate.check(&call("write")).await.unwrap_err();
    assert_eq!(refusal.to_string(), "a policy denies the call of \"write\" of \"files\": No paths.");
    assert!(gate.check(&input("files", "write")).await.is_ok());
    assert!(!format!("{:?}", call("write")).contains("secret"));
}
