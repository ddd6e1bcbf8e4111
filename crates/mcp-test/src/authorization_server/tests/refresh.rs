//! Refresh tokens.

use super::*;
use crate::authorization_server::Misbehavior;

#[tokio::test]
async fn each_refresh_returns_a_new_refresh_token() {
    let mut machine = Machine::new(builder());
    let mut tokens = machine.log_in().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        machine.advance(3_600);
        let refreshed = machine.refresh(tokens.member("refresh_token"), &[("resource", RESOURCE)]).await;
        let claims = machine.claims(refreshed.member("access_token")).await;
        assert_eq!((&claims["aud"], &claims["sub"]), (&RESOURCE.into(), &"alice".into()));
        seen.push(tokens.member("refresh_token").to_owned());
        assert!(!seen.contains(&refreshed.member("refresh_token").to_owned()));
        tokens = refreshed;
    }
}

#[tokio::test]
async fn invalid_refreshes_do_not_use_up_the_token() {
    let machine = Machine::new(builder().client(RegisteredClient::public("other")));
    let tokens = machine.log_in().await;
    let token = tokens.member("refresh_token");
    for (name, value, expected) in [
        ("refresh_token", "unknown", (400, "invalid_grant")),
        ("refresh_token", "", (400, "invalid_request")),
        ("client_id", "other", (400, "invalid_grant")),
        ("client_id", "unknown", (401, "invalid_client")),
        ("scope", "read admin", (400, "invalid_scope")),
        ("resource", "https://other.example/", (400, "invalid_target")),
    ] {
        assert_eq!(machine.refresh(token, &[(name, value)]).await.error(), expected, "{name}={value}");
    }
    let narrow = machine.refresh(token, &[("scope", "read")]).await;
    assert_eq!(narrow.member("scope"), "read");
    // The next refresh has all scopes again.
    let wide = machine.refresh(narrow.member("refresh_token"), &[]).await;
    assert_eq!(wide.member("scope"), "read write");
}

#[tokio::test]
async fn a_lost_response_can_be_repeated_within_the_grace_time() {
    for (seconds, misbehavior, expected) in
        [(0, None, 200), (59, None, 200), (60, None, 400), (0, Some(Misbehavior::NoRefreshGrace), 400)]
    {
        let mut machine = Machine::new(builder());
        let tokens = machine.log_in().await;
        let first = machine.refresh(tokens.member("refresh_token"), &[]).await;
        if let Some(misbehavior) = misbehavior {
            machine.server.misbehave(misbehavior);
        }
        machine.advance(seconds);
        let second = machine.refresh(tokens.member("refresh_token"), &[]).await;
        assert_eq!(second.status(), expected, "{seconds}");
        let later = machine.refresh(first.member("refresh_token"), &[]).await;
        if expected == 200 {
            assert_eq!(second.member("refresh_token"), first.member("refresh_token"));
            assert_ne!(second.member("access_token"), first.member("access_token"));
        }
        // A late repetition revokes the family.
        assert_eq!(later.status(), expected, "{seconds}");
    }
}

#[tokio::test]
async fn a_token_whose_successor_was_used_revokes_the_family() {
    let machine = Machine::new(builder());
    let tokens = machine.log_in().await;
    let other = machine.log_in().await;
    let first = machine.refresh(tokens.member("refresh_token"), &[]).await;
    let second = machine.refresh(first.member("refresh_token"), &[]).await;
    assert_eq!(machine.refresh(tokens.member("refresh_token"), &[]).await.error(), (400, "invalid_grant"));
    assert_eq!(machine.refresh(second.member("refresh_token"), &[]).await.error(), (400, "invalid_grant"));
    // Another login of the same user is another family.
    assert_eq!(machine.refresh(other.member("refresh_token"), &[]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn concurrent_refreshes_return_the_same_successor() {
    let machine = Machine::new(builder().store(Arc::new(YieldingStore::default())));
    let token = machine.log_in().await.member("refresh_token").to_owned();
    let attempts: Vec<_> = (0..8)
        .map(|_| {
            let (server, now, token) = (machine.server.clone(), machine.now, token.clone());
            tokio::spawn(async move {
                Machine { server, now }.refresh(&token, &[]).await.member("refresh_token").to_owned()
            })
        })
        .collect();
    let mut successors = Vec::new();
    for attempt in attempts {
        successors.push(attempt.await.unwrap());
    }
    successors.dedup();
    assert_eq!(successors.len(), 1);
    assert_eq!(machine.refresh(&successors[0], &[]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_refresh_token_expires() {
    for (seconds, expected) in [(99, 200), (100, 400)] {
        let mut machine = Machine::new(builder().refresh_token_lifetime(Duration::from_secs(100)));
        let tokens = machine.log_in().await;
        machine.advance(seconds);
        assert_eq!(machine.refresh(tokens.member("refresh_token"), &[]).await.status(), expected, "{seconds}");
    }
}

#[tokio::test]
async fn offline_access_is_needed_where_it_is_a_scope() {
    let machine = Machine::new(builder().scopes(["read", "offline_access"]));
    for (scope, expected) in [("", false), ("read", false), ("read offline_access", true)] {
        let code = machine.authorize(&[("scope", scope)]).await.redirected("code").unwrap();
        let tokens = machine.redeem(&code, &[]).await;
        assert_eq!(tokens.json.get("refresh_token").is_some(), expected, "{scope}");
    }
}

#[tokio::test]
async fn an_outage_of_the_store_uses_up_no_token() {
    let store = Arc::new(YieldingStore::default());
    let machine = Machine::new(builder().store(Arc::clone(&store) as Arc<dyn KeyValue>));
    let tokens = machine.log_in().await;
    store.is_away.store(true, Ordering::Relaxed);
    let answer = machine.refresh(tokens.member("refresh_token"), &[]).await;
    assert_eq!(answer.error(), (503, "temporarily_unavailable"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(machine.authorize(&[]).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    store.is_away.store(false, Ordering::Relaxed);
    assert_eq!(machine.refresh(tokens.member("refresh_token"), &[]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_store_contains_no_secret() {
    let store = Arc::new(MemoryStore::new());
    let machine = Machine::new(builder().opaque_tokens().store(Arc::clone(&store) as Arc<dyn KeyValue>));
    let code = machine.code().await;
    let tokens = machine.redeem(&code, &[]).await;
    let refreshed = machine.refresh(tokens.member("refresh_token"), &[]).await;
    let page = store.list("", None, 1_000).await.unwrap();
    assert!(page.entries.len() >= 5);
    let records: Vec<_> = page.entries.iter().map(|(key, value)| format!("{key} {value:?} ")).collect();
    let texts: Vec<_> = page.entries.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect();
    let all = format!("{records:?} {texts:?}");
    let secrets = [&tokens, &refreshed].map(|answer| [answer.member("access_token"), answer.member("refresh_token")]);
    for secret in secrets.iter().flatten().chain([&code.as_str(), &VERIFIER]) {
        assert!(!all.contains(secret), "{secret}");
    }
}
