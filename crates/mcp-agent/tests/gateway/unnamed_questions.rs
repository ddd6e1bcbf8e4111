//! Questions that name no call, while several calls run in one process: they reach a call of their user, and of no other user.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use mcp_agent::{Gateway, Host, ServerOptions, Sharing};
use mcp_client::{Client, ClientBuilder, transport::Connect};
use mcp_protocol::{ElicitResult, JsonObject, ProtocolVersion};
use mcp_server::prelude::*;
use tokio::{
    join,
    sync::Semaphore,
    task::{JoinHandle, yield_now},
    time::timeout,
};

use crate::common::{Processes, REVISIONS, SOON, client, connect_client_as};

const LEGACY: ProtocolVersion = REVISIONS[0];

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// The steps of a tool: each call adds a permit to `begun`, and continues with a permit of `next`.
#[derive(Clone)]
struct Steps {
    begun: Arc<Semaphore>,
    next: Arc<Semaphore>,
}

impl Steps {
    fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), next: Arc::new(Semaphore::new(0)) }
    }

    async fn run(self) {
        self.begun.add_permits(1);
        self.next.acquire().await.unwrap().forget();
    }

    async fn until_begun(&self) {
        timeout(SOON, self.begun.acquire()).await.unwrap().unwrap().forget();
    }
}

/// A server whose tool `form` asks, and whose tool `wait` does not.
struct Asking {
    form: Steps,
    wait: Steps,
    /// `wait` continues directly behind the question of `form`.
    ends_wait: Arc<AtomicBool>,
    processes: Processes,
}

impl Asking {
    fn new() -> Self {
        let (form, wait) = (Steps::new(), Steps::new());
        let (of_form, of_wait, ends_wait) = (form.clone(), wait.clone(), Arc::new(AtomicBool::new(false)));
        let (ends, next_of_wait) = (ends_wait.clone(), wait.next.clone());
        let asks = move |inputs: Inputs| {
            let (steps, ends, next_of_wait) = (of_form.clone(), ends.clone(), next_of_wait.clone());
            async move {
                steps.run().await;
                let behind = async {
                    if ends.load(Ordering::SeqCst) {
                        yield_now().await;
                        next_of_wait.add_permits(1);
                    }
                };
                let (answer, ()) = join!(inputs.elicit("name", "Your name?"), behind);
                let Answer { name } = answer?;
                Ok::<_, ToolError>(name)
            }
        };
        let waits = move || {
            let steps = of_wait.clone();
            async move {
                steps.run().await;
                "waited"
            }
        };
        let server = Server::builder("s", "1").versions([LEGACY]).tool(tool("form", asks)).tool(tool("wait", waits));
        let server = server.build();
        Self { form, wait, ends_wait, processes: Processes::new(move |_| server.clone()) }
    }

    async fn gateway(&self, down: ProtocolVersion) -> Server {
        let connector: Arc<dyn Connect> = Arc::new(self.processes.clone());
        let options = ServerOptions::new().sharing(Sharing::All);
        let host = Host::builder("gateway", "1").server_with("s", connector, options).start().await.unwrap();
        Gateway::builder(host).build().unwrap().versions([down]).build()
    }
}

fn user(name: &'static str) -> ClientBuilder {
    let answer = move || ElicitResult::accept(JsonObject::new().with("name", name));
    client().on_elicit(move |_form| std::future::ready(Ok(answer())))
}

/// Calls a tool. Returns its text, or the text of its error.
fn call(client: &Client, name: &'static str) -> JoinHandle<String> {
    let client = client.clone();
    tokio::spawn(async move {
        let called = timeout(SOON, client.call_tool(format!("s__{name}"), ()).into_future()).await.unwrap();
        called.map_or_else(|error| format!("{error:?}"), |result| result.text())
    })
}

#[tokio::test]
async fn a_question_during_several_calls_of_a_user_reaches_the_user() {
    for down in REVISIONS {
        for asks_first in [false, true] {
            let server = Asking::new();
            let ada = connect_client_as(user("ada"), &server.gateway(down).await, "ada").await;
            let (first, second) = if asks_first { ("form", "wait") } else { ("wait", "form") };
            let begun = |name| if name == "form" { &server.form } else { &server.wait };
            let mut calls = Vec::new();
            for name in [first, second] {
                calls.push((name, call(&ada, name)));
                begun(name).until_begun().await;
            }
            server.form.next.add_permits(1);
            if asks_first {
                // The question reaches the latest call, whose client answers during its own call.
                calls.reverse();
            }
            let (name, form) = calls.pop().unwrap();
            assert_eq!((name, form.await.unwrap()), ("form", "ada".to_owned()), "{down} {asks_first}");
            let (name, wait) = calls.pop().unwrap();
            assert!(!wait.is_finished(), "{down} {asks_first}");
            server.wait.next.add_permits(1);
            assert_eq!((name, wait.await.unwrap()), ("wait", "waited".to_owned()), "{down} {asks_first}");
            assert_eq!(server.processes.started(), 2, "{down} {asks_first}");
        }
    }
}

#[tokio::test]
async fn a_question_reaches_the_user_if_the_selected_call_ends_directly_behind_it() {
    for down in REVISIONS {
        let server = Asking::new();
        let ada = connect_client_as(user("ada"), &server.gateway(down).await, "ada").await;
        let form = call(&ada, "form");
        server.form.until_begun().await;
        let wait = call(&ada, "wait");
        server.wait.until_begun().await;
        server.ends_wait.store(true, Ordering::SeqCst);
        server.form.next.add_permits(1);
        assert_eq!(form.await.unwrap(), "ada", "{down}");
        assert_eq!(wait.await.unwrap(), "waited", "{down}");
    }
}

#[tokio::test]
async fn a_question_reaches_the_user_if_the_user_cancels_the_selected_call() {
    // Between two rounds, a client of 2026-07-28 cannot cancel its call.
    let server = Asking::new();
    let (asked, questions) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let of_user = asked.clone();
    let slow = client().on_elicit(move |_form| {
        let (asked, number) = (of_user.clone(), questions.fetch_add(1, Ordering::SeqCst));
        async move {
            if number == 0 {
                asked.add_permits(1);
                std::future::pending::<()>().await;
            }
            Ok(ElicitResult::accept(JsonObject::new().with("name", format!("ada {number}"))))
        }
    });
    let ada = connect_client_as(slow, &server.gateway(LEGACY).await, "ada").await;
    let form = call(&ada, "form");
    server.form.until_begun().await;
    let wait = call(&ada, "wait");
    server.wait.until_begun().await;
    server.form.next.add_permits(1);
    timeout(SOON, asked.acquire()).await.unwrap().unwrap().forget();
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    assert_eq!(form.await.unwrap(), "ada 1");
}

#[tokio::test]
async fn a_question_after_a_cancelled_call_of_the_same_user_reaches_the_user() {
    for down in REVISIONS {
        let server = Asking::new();
        let ada = connect_client_as(user("ada"), &server.gateway(down).await, "ada").await;
        let cancelled = call(&ada, "wait");
        server.wait.until_begun().await;
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
        let form = call(&ada, "form");
        server.form.until_begun().await;
        server.form.next.add_permits(1);
        assert_eq!(form.await.unwrap(), "ada", "{down}");
    }
}

#[tokio::test]
async fn a_question_during_calls_of_several_users_reaches_no_user() {
    const ANONYMOUS: &str = "";
    for (down, other) in REVISIONS.into_iter().flat_map(|down| [(down, "grace"), (down, ANONYMOUS)]) {
        let server = Asking::new();
        let gateway = server.gateway(down).await;
        let connect = async |name: &'static str, as_user: &'static str| match as_user {
            ANONYMOUS => user(name).connect(&gateway).await.unwrap(),
            as_user => connect_client_as(user(name), &gateway, as_user).await,
        };
        // The clients without a principal are two clients too.
        let ada = connect("ada", if other == ANONYMOUS { ANONYMOUS } else { "ada" }).await;
        let grace = connect("grace", other).await;
        let wait = call(&ada, "wait");
        server.wait.until_begun().await;
        let form = call(&grace, "form");
        server.form.until_begun().await;
        server.form.next.add_permits(1);
        let refused = form.await.unwrap();
        assert!(refused.contains("several calls can have caused"), "{down} {other}: {refused}");
        server.wait.next.add_permits(1);
        assert_eq!(wait.await.unwrap(), "waited", "{down} {other}");
        assert_eq!(server.processes.started(), 2, "{down} {other}");
    }
}
