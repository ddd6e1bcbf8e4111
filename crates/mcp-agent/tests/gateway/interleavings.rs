//! Users who call tools at the same time: each input request reaches the user of its call, and no other user.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_agent::{Gateway, Host, ServerOptions, Sharing};
use mcp_client::{Client, Error, ToolResult};
use mcp_protocol::ProtocolVersion;
use mcp_server::prelude::*;
use serde_json::json;
use tokio::{sync::Barrier, time::timeout};

use crate::{
    common::{Pipe, REVISIONS, SOON, cells, client, connect_as, connect_client_as},
    rounds::{TOOLS, Turns, User, answer_of_ada, connect, first_round, host, next, reason, send},
};

const NAMES: [&str; 2] = ["ada", "grace"];
/// The interleavings of each case.
const INTERLEAVINGS: usize = 42;
/// The interleavings at one server over a pipe. The server has not asked before. Over HTTP, its input requests name their calls.
const CALLS: usize = 6;

/// The relation of two users.
#[derive(Debug, Clone, Copy)]
enum Users {
    /// Both have no principal, so they share the connections.
    Anonymous,
    /// Each has a principal.
    Principals(Sharing),
}

const USERS: [Users; 3] = [Users::Anonymous, Users::Principals(Sharing::Principal), Users::Principals(Sharing::All)];

#[derive(Debug, Clone, Copy)]
struct Case {
    down: ProtocolVersion,
    up: ProtocolVersion,
    is_http: bool,
    users: Users,
    /// The options of the server announce its input requests.
    is_announced: bool,
}

impl Case {
    /// Returns whether the first input requests of the server can fail: they name no call, and two calls share a connection.
    fn can_reject_the_first_requests(self) -> bool {
        let are_separate = matches!(self.users, Users::Principals(Sharing::Principal));
        !self.is_announced && !self.is_http && !self.up.is_stateless() && !are_separate
    }

    /// Connects two users to a gateway with a new server.
    async fn connect(self, turns: &Turns) -> [Client; 2] {
        let mut options = if self.is_announced { ServerOptions::new().asks() } else { ServerOptions::new() };
        if let Users::Principals(sharing) = self.users {
            options = options.sharing(sharing);
        }
        let host = host(self.up, self.is_http, turns, options).await;
        self.connect_to(host, turns).await
    }

    /// Connects two users to a gateway.
    async fn connect_to(self, host: Host, turns: &Turns) -> [Client; 2] {
        let gateway = Gateway::builder(host).build().unwrap().versions([self.down]).build();
        let user = async |name: &str| {
            let user = client().handler(User::new(name).turns(turns));
            match self.users {
                Users::Anonymous => user.connect(&gateway).await.unwrap(),
                Users::Principals(_) => connect_client_as(user, &gateway, name).await,
            }
        };
        [user(NAMES[0]).await, user(NAMES[1]).await]
    }

    /// Lets the users call tools at the same time, and checks that each of them answers its own questions. The first input requests of
    /// an unknown server can fail.
    async fn run(self) {
        let turns = Turns::default();
        let calls = if self.is_http { INTERLEAVINGS } else { CALLS };
        for start in (0..INTERLEAVINGS).step_by(calls) {
            let users = self.connect(&turns).await;
            for call in 0..calls {
                // The users answer each kind of question, and different kinds at the same time.
                let interleaving = start + call;
                let kinds = [interleaving, interleaving / TOOLS.len()].map(|number| TOOLS[number % TOOLS.len()]);
                let calls = [0, 1].map(|user| users[user].call_tool(format!("s__{}", kinds[user]), ()).into_future());
                let [ada, grace] = calls;
                let (ada, grace) = timeout(SOON, async { tokio::join!(ada, grace) }).await.unwrap();
                let can_fail = call == 0 && self.can_reject_the_first_requests();
                for (user, result) in [ada, grace].into_iter().enumerate() {
                    let expected = answer_of_ada(kinds[user]).replace(NAMES[0], NAMES[user]);
                    let case = format!("{self:?}, interleaving {interleaving}, {}: {result:?}", NAMES[user]);
                    match text(result) {
                        Ok(text) => assert_eq!(text, expected, "{case}"),
                        Err(fault) => assert!(can_fail && fault.contains("it names none of them"), "{case}"),
                    }
                }
            }
        }
    }
}

/// Returns the text of a result, or that of a failure.
fn text(result: Result<ToolResult, Error>) -> Result<String, String> {
    match result {
        Ok(result) if result.is_error() => Err(result.text()),
        Ok(result) => Ok(result.text()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs 252 interleavings in each cell. In half of them, the host does not know that the server asks.
async fn two_users_at_once(is_http: bool) {
    for (down, up) in cells() {
        for users in USERS {
            for is_announced in [true, false] {
                Case { down, up, is_http, users, is_announced }.run().await;
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A server whose tool asks while two calls run.
fn asking_at_once() -> Server {
    let both = Arc::new(Barrier::new(2));
    let form = move |inputs: Inputs| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }
    };
    Server::builder("s", "1").versions([REVISIONS[0]]).tool(tool("form", form)).build()
}

#[tokio::test]
async fn a_first_question_during_two_calls_of_a_connection_fails() {
    for down in REVISIONS {
        for users in [Users::Anonymous, Users::Principals(Sharing::All)] {
            let case = Case { down, up: REVISIONS[0], is_http: false, users, is_announced: false };
            assert!(case.can_reject_the_first_requests());
            let options = ServerOptions::new().sharing(Sharing::All);
            let host = Host::builder("gateway", "1").server_with("s", Pipe::new(asking_at_once()), options);
            let users = case.connect_to(host.start().await.unwrap(), &Turns::default()).await;
            // The server is known after the first calls.
            for is_known in [false, true] {
                let calls = [0, 1].map(|user| users[user].call_tool("s__form", ()).into_future());
                let [ada, grace] = calls;
                let (ada, grace) = timeout(SOON, async { tokio::join!(ada, grace) }).await.unwrap();
                let mut failures = 0;
                for (user, result) in [ada, grace].into_iter().enumerate() {
                    match text(result) {
                        Ok(text) => assert_eq!(text, NAMES[user], "{case:?}"),
                        Err(fault) => {
                            assert!(fault.contains("it names none of them"), "{case:?}: {fault}");
                            failures += 1;
                        }
                    }
                }
                assert_eq!(failures == 0, is_known, "{case:?}: {failures}");
            }
        }
    }
}

#[tokio::test]
async fn two_users_at_once_never_see_the_question_of_the_other() {
    two_users_at_once(false).await;
}

#[tokio::test]
async fn two_users_of_one_connection_never_see_the_question_of_the_other() {
    two_users_at_once(true).await;
}

#[tokio::test]
async fn the_state_of_a_call_continues_no_call_of_another_user() {
    for up in REVISIONS {
        for sharing in [Sharing::Principal, Sharing::All] {
            let host = host(up, false, &Turns::default(), ServerOptions::new().sharing(sharing)).await;
            let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
            let (ada, grace) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "grace").await);
            let (key, state) = first_round(&ada).await;
            let round = |name: &str| {
                next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": name } }))
            };
            for other in [&grace, &connect(&gateway, "anonymous").await] {
                let refused = send(other, round("grace")).await.unwrap_err();
                assert_eq!((refused.code.0, reason(&refused)), (-32602, "request_state_expired"), "{up} {sharing:?}");
            }
            // Another connection of the user continues the call, which the foreign rounds did not change.
            let again = connect_as(&gateway, "ada").await;
            assert_eq!(send(&again, round("ada")).await.unwrap(), "ada", "{up} {sharing:?}");
        }
    }
}
