//! Processes that are killed during a login or a refresh.

use std::{path::Path, time::Duration};

use mcp_oauth::FileStore;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};

use crate::{
    children::{Child, STOPPED},
    common::{World, until},
    stores::Dir,
};

/// The point at which the parent kills a process: its token request has no answer yet.
const IN_FLIGHT: &str = "in flight";

/// A process that is killed, and the number of logins that the next process needs.
struct Kill {
    /// A [point](crate::children) of the child process, or [`IN_FLIGHT`].
    point: &'static str,
    /// With an authorization server that accepts a used refresh token for a short time, and with another.
    logins: [usize; 2],
}

const fn kill(point: &'static str, logins: [usize; 2]) -> Kill {
    Kill { point, logins }
}

const LOGIN: &[Kill] = &[
    kill("before lock tokens 1", [1, 1]),
    kill("after lock tokens 1", [1, 1]),
    // The authorization server registered the client, and the process has not stored it.
    kill("before save client 1", [1, 1]),
    kill("after save client 1", [1, 1]),
    kill("after save client 2", [1, 1]),
    kill("page 1", [1, 1]),
    kill(IN_FLIGHT, [1, 1]),
    // The authorization server issued tokens, and the process has not stored them.
    kill("before save tokens 1", [1, 1]),
    kill("after save tokens 1", [0, 0]),
];

const REFRESH: &[Kill] = &[
    kill("before lock tokens 1", [0, 0]),
    kill("after lock tokens 1", [0, 0]),
    kill(IN_FLIGHT, [0, 1]),
    // The authorization server rotated the refresh token, and the process has not stored its successor.
    kill("before save tokens 1", [0, 1]),
    kill("after save tokens 1", [0, 0]),
];

/// Runs a process until a point of a login or a refresh, and kills it. The next process must work, with as many logins as
/// expected.
async fn run(work: &str, number: usize, kill: &Kill, has_grace: bool) {
    let case = format!("{work} {} {has_grace}", kill.point);
    let builder = AuthorizationServer::builder();
    let builder = if has_grace { builder } else { builder.misbehave(Misbehavior::NoRefreshGrace) };
    let world = World::with(builder).await;
    let dir = Dir::new(&format!("kill-{work}-{number}-{has_grace}"));
    let store = FileStore::open(&dir.0).unwrap();
    let auth = || world.builder().store(store.clone()).build();
    if work == "refresh" {
        world.site.token(&auth()).await;
        world.site.expire(&store).await;
    }
    let (requests, logins) = (world.authorization.count(Endpoint::Token), world.user.count());
    let is_in_flight = kill.point == IN_FLIGHT;
    if is_in_flight {
        let slow = ResponseFault::Slow(Duration::from_secs(600));
        world.authorization.misbehave_times(Misbehavior::Response(Endpoint::Token, slow), 1);
    }
    let mut child = Child::start(&world.site, &dir.0, (!is_in_flight).then_some(kill.point));
    child.call("");
    if is_in_flight {
        until(|| world.authorization.count(Endpoint::Token) > requests).await;
    } else {
        assert_eq!(child.line().await, STOPPED, "{case}");
    }
    child.kill();

    check_records(&dir.0, &case);
    let token = world.site.token(&auth()).await;
    let expected = kill.logins[usize::from(!has_grace)];
    assert_eq!(world.user.count() - logins, expected, "{case}");
    // The process after it works without a login.
    assert_eq!(world.site.token(&auth()).await, token, "{case}");
    assert_eq!(world.user.count() - logins, expected, "{case}");
    check_records(&dir.0, &case);
}

/// Checks that each record is complete.
fn check_records(dir: &Path, case: &str) {
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            let record: serde_json::Value = serde_json::from_str(&text).expect(case);
            assert!(record["client_id"].is_string(), "{case}: {path:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_during_a_login_costs_at_most_one_login() {
    for (number, kill) in LOGIN.iter().enumerate() {
        run("login", number, kill, true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_during_a_refresh_costs_at_most_one_login() {
    for (number, kill) in REFRESH.iter().enumerate() {
        for has_grace in [true, false] {
            run("refresh", number, kill, has_grace).await;
        }
    }
}
