//! The gateway forwards the notifications of a limited number of running tasks: of one principal, and of all.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, TaskProgress};
use mcp_protocol::{ProgressParams, ProtocolVersion};
use mcp_server::Server;
use tokio::time::timeout;

use crate::{
    common::{Pipe, SOON, connect_as},
    task_notices::{Tasks, next, start},
};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const TASKS: usize = 1024;
const OF_PRINCIPAL: usize = 256;

/// The tasks of all users, in the order of their starts.
struct World {
    tasks: Tasks,
    started: usize,
}

impl World {
    /// Starts a task. Returns its number, and its progress.
    async fn start(&mut self, client: &Client) -> (usize, TaskProgress) {
        let (_, progress) = start(client).await;
        self.started += 1;
        (self.started - 1, progress)
    }

    /// Starts tasks, and returns the last one.
    async fn start_many(&mut self, client: &Client, count: usize) -> (usize, TaskProgress) {
        for _ in 1..count {
            self.start(client).await;
        }
        self.start(client).await
    }

    fn report(&self, task: usize) {
        self.tasks.with(task, |notifier| notifier.progress(ProgressParams::new(0, 2.0)));
    }
}

async fn arrives(progress: &mut TaskProgress) -> bool {
    timeout(SOON, progress.next()).await.unwrap().unwrap().progress == 2.0
}

async fn has_none(progress: &mut TaskProgress) -> bool {
    timeout(Duration::ZERO, progress.next()).await.is_err()
}

#[tokio::test]
async fn the_notifications_of_further_tasks_are_not_forwarded() {
    let tasks = Tasks::default();
    let server = Server::builder::<()>("s", "1").versions([VERSION]).source(tasks.clone()).build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
    let mut users = Vec::new();
    for user in 0..=TASKS / OF_PRINCIPAL {
        let client = connect_as(&gateway, &format!("user-{user}")).await;
        client.list_tools().await.unwrap();
        users.push(client);
    }
    let mut world = World { tasks, started: 0 };

    // The bound of a principal does not affect another principal.
    let (last, mut of_last) = world.start_many(&users[0], OF_PRINCIPAL).await;
    let (further, mut of_further) = world.start(&users[0]).await;
    let (other, mut of_other) = world.start(&users[1]).await;
    for task in [further, last, other] {
        world.report(task);
    }
    assert!(arrives(&mut of_last).await && arrives(&mut of_other).await);
    // The server sent this report before the others.
    assert!(has_none(&mut of_further).await);

    // The bound of all principals.
    world.start_many(&users[1], OF_PRINCIPAL - 1).await;
    for user in &users[2..TASKS / OF_PRINCIPAL] {
        (_, of_last) = world.start_many(user, OF_PRINCIPAL).await;
    }
    let last = world.started - 1;
    let (further, mut of_further) = world.start(&users[TASKS / OF_PRINCIPAL]).await;
    for task in [further, last] {
        world.report(task);
    }
    assert!(arrives(&mut of_last).await);
    assert!(has_none(&mut of_further).await);

    // A task that ends makes room for another task.
    let mut notices = users[0].notifications();
    world.tasks.change(0, "completed");
    next(&mut notices, "notifications/tasks/status").await;
    let (later, mut of_later) = world.start(&users[TASKS / OF_PRINCIPAL]).await;
    world.report(later);
    assert!(arrives(&mut of_later).await);
    assert!(has_none(&mut of_further).await);
}
