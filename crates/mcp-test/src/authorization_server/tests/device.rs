//! The device flow.

use mcp_protocol::auth::grant_type::DEVICE_CODE;

use super::*;

/// A server that asks the user.
fn asking() -> Machine {
    let client = RegisteredClient::public("tv");
    Machine::new(AuthorizationServer::builder().client(client).client(RegisteredClient::public("other")))
}

impl Machine {
    async fn start_device(&self) -> Answer {
        let form = [("client_id", "tv"), ("scope", "read"), ("resource", RESOURCE)];
        self.post("/device_authorization", &form, &[]).await
    }

    async fn poll(&self, device_code: &str, client_id: &str) -> Answer {
        let form = [("grant_type", DEVICE_CODE), ("device_code", device_code), ("client_id", client_id)];
        self.post("/token", &form, &[]).await
    }
}

#[tokio::test]
async fn a_device_receives_tokens_once_after_the_approval() {
    let mut machine = asking();
    let started = machine.start_device().await;
    let device_code = started.member("device_code");
    let user_code = started.member("user_code");
    assert_eq!((user_code.len(), &started.json["interval"]), (9, &5.into()));
    assert_eq!(started.member("verification_uri"), format!("{ISSUER}/device"));
    assert_eq!(machine.poll(device_code, "other").await.error(), (400, "invalid_grant"));
    assert_eq!(machine.poll("unknown", "tv").await.error(), (400, "invalid_grant"));
    assert_eq!(machine.poll(device_code, "tv").await.error(), (400, "authorization_pending"));
    // A second poll at once makes the interval longer: 10 seconds.
    assert_eq!(machine.poll(device_code, "tv").await.error(), (400, "slow_down"));
    machine.advance(9);
    assert_eq!(machine.poll(device_code, "tv").await.error(), (400, "slow_down"));
    machine.advance(15);
    assert_eq!(machine.poll(device_code, "tv").await.error(), (400, "authorization_pending"));
    let written = user_code.to_lowercase().replace('-', " ");
    assert!(machine.server.approve_device(&written).await.unwrap());
    assert!(!machine.server.deny_device(user_code).await.unwrap());
    let tokens = machine.poll(device_code, "tv").await;
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!((&claims["aud"], &claims["scope"], &claims["sub"]), (&RESOURCE.into(), &"read".into(), &"user".into()));
    let form = [("client_id", "tv")];
    assert_eq!(machine.refresh(tokens.member("refresh_token"), &form).await.status(), StatusCode::OK);
    assert_eq!(machine.poll(device_code, "tv").await.error(), (400, "invalid_grant"));
}

#[tokio::test]
async fn a_device_receives_the_decision_of_the_user() {
    let machine = asking();
    let denied = machine.start_device().await;
    assert!(machine.server.deny_device(denied.member("user_code")).await.unwrap());
    assert_eq!(machine.poll(denied.member("device_code"), "tv").await.error(), (400, "access_denied"));
    assert!(!machine.server.approve_device("BBBB-BBBB").await.unwrap());
    let automatic = Machine::new(builder().client(RegisteredClient::public("tv")));
    let started = automatic.start_device().await;
    assert_eq!(automatic.poll(started.member("device_code"), "tv").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_device_code_expires() {
    for (seconds, expected) in [(599, "authorization_pending"), (600, "expired_token")] {
        let mut machine = asking();
        let started = machine.start_device().await;
        machine.advance(seconds);
        assert_eq!(machine.poll(started.member("device_code"), "tv").await.error(), (400, expected), "{seconds}");
    }
}

#[tokio::test]
async fn one_of_several_concurrent_polls_receives_tokens() {
    let client = RegisteredClient::public("tv");
    let machine = Machine::new(builder().client(client).store(Arc::new(YieldingStore::default())));
    let code = machine.start_device().await.member("device_code").to_owned();
    let polls: Vec<_> = (0..8)
        .map(|_| {
            let (server, now, code) = (machine.server.clone(), machine.now, code.clone());
            tokio::spawn(async move { Machine { server, now }.poll(&code, "tv").await.status() })
        })
        .collect();
    let mut successes = 0;
    for poll in polls {
        successes += usize::from(poll.await.unwrap() == StatusCode::OK);
    }
    assert_eq!(successes, 1);
}

#[tokio::test]
async fn the_page_of_devices_needs_its_browser() {
    let machine = asking();
    let started = machine.start_device().await;
    assert!(machine.get("/device").await.text().contains("user_code"));
    assert_eq!(machine.get("/device?user_code=BBBB-BBBB").await.status(), StatusCode::NOT_FOUND);
    let page = machine.get(&format!("/device?user_code={}", started.member("user_code"))).await;
    let cookie = page.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let (_, rest) = page.text().split_once("name=\"form\" value=\"").unwrap();
    let token = rest[..43].to_owned();
    assert!(page.text().contains("tv") && page.text().contains(RESOURCE));
    for (cookie, token, decision, expected) in [
        ("", token.as_str(), "approve", StatusCode::FORBIDDEN),
        (cookie.as_str(), "wrong", "approve", StatusCode::FORBIDDEN),
        (cookie.as_str(), token.as_str(), "maybe", StatusCode::BAD_REQUEST),
        (cookie.as_str(), token.as_str(), "approve", StatusCode::OK),
        (cookie.as_str(), token.as_str(), "approve", StatusCode::BAD_REQUEST),
    ] {
        let form = [("form", token), ("user_code", started.member("user_code")), ("decision", decision)];
        let answer = machine.post("/device", &form, &[("cookie", cookie)]).await;
        assert_eq!(answer.status(), expected, "{decision} {answer:?}");
    }
    assert_eq!(machine.poll(started.member("device_code"), "tv").await.status(), StatusCode::OK);
}
