//! Turns a call into a task, at once or while it runs, and drives it to its end.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use mcp_protocol::{
    RpcError,
    tasks::{self, ext},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    live::Live,
    owner::Owner,
    policy::TaskPolicy,
    record::Outcome,
    table::{self, Wanted},
};
use crate::{
    Server,
    context::{Client, Context},
    engine::{Output, Scope, Stop},
};

/// A call on its way: polled by who answers the request, and later by the task that it became.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Output, Stop>> + Send>>;

/// What a call that may become a task knows of that.
#[derive(Default)]
pub(crate) struct Tasking {
    stage: watch::Sender<Stage>,
    live: OnceLock<Arc<Live>>,
    /// What the handler said last, before there was a task.
    words: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// It is a call so far.
    #[default]
    Call,
    /// The handler wants it to be a task.
    Wanted,
    /// It is a task.
    Task,
    /// It stays a call: there is no room.
    Refused,
}

impl Tasking {
    /// The task, once it is one.
    pub(crate) fn live(&self) -> Option<&Arc<Live>> {
        self.live.get()
    }

    /// Takes what the handler says of how it goes.
    pub(crate) fn say(&self, words: &str) {
        match self.live() {
            Some(live) => live.say(words),
            None => *self.words.lock() = Some(words.to_owned()),
        }
    }

    /// Makes it a task now; false when that cannot be.
    pub(crate) async fn detach(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let is_call = *stage == Stage::Call;
            if is_call {
                *stage = Stage::Wanted;
            }
            is_call
        });
        let decided = |stage: &Stage| matches!(stage, Stage::Task | Stage::Refused);
        self.stage.subscribe().wait_for(decided).await.is_ok_and(|stage| *stage == Stage::Task)
    }

    async fn wanted(&self) {
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Wanted).await;
    }

    fn become_task(&self, live: &Arc<Live>) {
        let _ = self.live.set(live.clone());
        self.stage.send_replace(Stage::Task);
    }
}

/// Refuses what was not decided when a call is over, however it came to its end: who waits to be detached learns it.
struct Decided<'a>(Option<&'a Arc<Tasking>>);

impl Drop for Decided<'_> {
    fn drop(&mut self) {
        if let Some(tasking) = self.0 {
            tasking.stage.send_if_modified(|stage| {
                let is_open = *stage != Stage::Task;
                if is_open {
                    *stage = Stage::Refused;
                }
                is_open
            });
        }
    }
}

/// A call that may become a task.
pub(crate) struct Candidate<'a> {
    pub(crate) server: &'a Server,
    pub(crate) scope: &'a Scope,
    pub(crate) context: &'a Context,
    pub(crate) tool: &'a str,
    pub(crate) policy: TaskPolicy,
    pub(crate) ttl: Duration,
    /// Whether a plain result will not do.
    pub(crate) is_required: bool,
}

impl Candidate<'_> {
    /// Runs the call until it is done or has become a task.
    pub(crate) async fn run(self, mut work: Work) -> Result<Output, Stop> {
        let decided = Decided(self.context.tasking());
        if let TaskPolicy::After(time) = self.policy {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.wanted() => None,
                () = tokio::time::sleep(time) => None,
            };
            match done {
                // It was quick, and is a task all the same.
                Some(Ok(Output::Tool(result))) if self.is_required => {
                    let live = self.create().await?;
                    self.server.data.tasks.mark(&live, Outcome::of(&result));
                    let created = self.created(&live);
                    // The record says so before the answer does, and does so when nobody waits for the answer.
                    let (server, ended) = (self.server.clone(), live.clone());
                    let _ = tokio::spawn(async move { server.data.tasks.persist(&ended).await }).await;
                    return Ok(created);
                }
                Some(done) => return done,
                None => {}
            }
        }
        let live = match self.create().await {
            Ok(live) => live,
            // Whoever did not ask for a task, and does not need one, waits as for any other call.
            Err(_) if !self.is_required && self.scope.version.has_extensions() => {
                drop(decided);
                return work.await;
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(asking) = self.context.asking() {
            asking.become_task(&live);
        }
        if let Some(tasking) = self.context.tasking() {
            tasking.become_task(&live);
        }
        let created = self.created(&live);
        tokio::spawn(drive(self.server.clone(), live, work));
        Ok(created)
    }

    async fn wanted(&self) {
        match self.context.tasking() {
            Some(tasking) => tasking.wanted().await,
            None => std::future::pending().await,
        }
    }

    async fn create(&self) -> Result<Arc<Live>, RpcError> {
        let session = match &self.scope.client {
            Client::Session(session) => Some(session),
            Client::Request(_) => None,
        };
        let owner = Owner::of(self.scope.principal.as_deref(), self.scope.is_local);
        let message = self.context.tasking().and_then(|tasking| tasking.words.lock().clone());
        let wanted = Wanted { owner, tool: Some(self.tool), ttl: self.ttl, message, session };
        // Another node may cancel it.
        self.server.data.publisher.fleet();
        self.server.data.tasks.create(wanted).await
    }

    fn created(&self, live: &Live) -> Output {
        let record = live.record();
        if self.scope.version.has_extensions() {
            Output::TaskOfServer(ext::CreateTaskResult::new(record.extension()))
        } else {
            Output::TaskOfClient(tasks::CreateTaskResult::new(record.legacy()))
        }
    }
}

/// Drives a task to its end: that of the handler, or by cancellation, expiry, or the end of the server.
async fn drive(server: Server, live: Arc<Live>, work: Work) {
    let outcome = tokio::select! {
        biased;
        // Whoever cancels has marked it, and may be gone by now.
        () = live.cancel.cancelled() => return server.data.tasks.persist(&live).await,
        done = work => match done {
            Ok(Output::Tool(result)) => Outcome::of(&result),
            Ok(_) => Outcome::Error(RpcError::internal("not a tool result")),
            Err(Stop::Error(error)) => Outcome::Error(error),
            Err(Stop::Cancelled) => Outcome::Cancelled,
        },
        outcome = over(&server, &live) => outcome,
    };
    end(&server, &live, outcome).await;
}

/// Watches over a task that somebody outside of a call works on, until it ends or has expired.
pub(super) async fn watch_over(server: Server, live: Arc<Live>) {
    let outcome = tokio::select! {
        biased;
        // Whoever ended it has marked it, and may be gone by now.
        () = live.ended() => return server.data.tasks.persist(&live).await,
        outcome = over(&server, &live) => outcome,
    };
    end(&server, &live, outcome).await;
    live.cancel.cancel();
}

async fn over(server: &Server, live: &Live) -> Outcome {
    let shutdown = server.shutdown_token().child_token();
    let stopped = async {
        shutdown.cancelled().await;
        tokio::time::sleep(server.limits().drain).await;
    };
    tokio::select! {
        () = tokio::time::sleep_until(live.expires()) => Outcome::Error(table::unknown()),
        () = stopped => Outcome::Error(RpcError::internal("the server was shut down")),
    }
}

async fn end(server: &Server, live: &Arc<Live>, outcome: Outcome) {
    server.data.tasks.settle(live, outcome).await;
    if live.expires() <= tokio::time::Instant::now() {
        server.data.tasks.forget(live.id());
    }
}
