//! The checks, in the order of the columns.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_client::{
    Client, ClientBuilder, Error, Update,
    protocol::{CreateMessageResult, ElicitAction, ElicitResult, JsonObject, ProtocolVersion, Root},
};
use mcp_client_http::Http;
use mcp_transport::{Connect, child::ChildProcess};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Era, Target,
    subjects::{Call, Subject},
};

/// How a check ended.
pub(crate) enum Outcome {
    Ok,
    /// The server does not have the feature, or the client cannot observe it.
    NotOffered(String),
    Failed(String),
}

/// The time limit for actions that a server starts later, such as the request for the client's roots.
const SOON: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

type Check = for<'a> fn(&'a Peer) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// The checks that run on an open connection.
pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("tools", |peer| Box::pin(async { tools(peer).await.into() })),
    ("call", |peer| Box::pin(call(peer))),
    ("error", |peer| Box::pin(error(peer))),
    ("resources", |peer| Box::pin(resources(peer))),
    ("prompts", |peer| Box::pin(prompts(peer))),
    ("complete", |peer| Box::pin(complete(peer))),
    ("sampling", |peer| Box::pin(answered(peer, peer.subject.sampling.as_ref()))),
    ("elicitation", |peer| Box::pin(elicitation(peer))),
    ("roots", |peer| Box::pin(answered(peer, peer.subject.roots.as_ref()))),
    ("subscription", |peer| Box::pin(subscription(peer))),
    ("progress", |peer| Box::pin(progress(peer))),
    ("cancellation", |peer| Box::pin(cancellation(peer))),
    ("ping", |peer| Box::pin(async { peer.client.ping().await.map_err(error_text).into() })),
];

/// A connected client, and the known features of its server.
pub(crate) struct Peer {
    pub(crate) client: Client,
    subject: Subject,
    era: Era,
    /// Whether the server keeps no client capabilities: the TypeScript SDK 2.x serves the older revisions so by
    /// default.
    stateless: bool,
}

impl Peer {
    pub(crate) async fn connect(config: &Config, subject: Subject) -> Result<Self, String> {
        let builder = Client::builder("interop", "1.0.0")
            .on_sample(async |_| Ok(CreateMessageResult::new("a-model", "forty-two")))
            .on_elicit(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))))
            .on_elicit_url(async |_| Ok(ElicitResult::new(ElicitAction::Accept)))
            .roots([Root::new(format!("file://{}", config.dir)).with_name("work")]);
        let legacy = ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake());
        let builder = match config.era {
            Era::Legacy => builder.versions(legacy),
            Era::Modern => builder.versions([ProtocolVersion::LATEST]),
            Era::Auto => builder,
        };
        let client = open(builder, &config.target).await?;
        let is_http = matches!(config.target, Target::Http { .. });
        let stateless = config.subject == "typescript-v2" && is_http && client.version().has_handshake();
        Ok(Self { client, subject, era: config.era, stateless })
    }

    /// Whether the connection has the expected revision.
    pub(crate) fn connected(&self) -> Outcome {
        let (version, name) = (self.client.version(), self.client.server_info().name);
        let right = match self.era {
            Era::Legacy => version.has_handshake(),
            Era::Modern => version.is_stateless(),
            Era::Auto => true,
        };
        let unnamed = name.is_empty() && version.has_handshake();
        let negotiated = format!("version {version} of {name:?} was negotiated");
        expect(right && !unnamed, negotiated).into()
    }

    async fn call(&self, (tool, arguments, part): &Call) -> Result<(), String> {
        let result = self.client.call_tool(tool, arguments).await.map_err(error_text)?;
        let text = result.text();
        expect(!result.is_error() && text.contains(part), format!("{tool} says {text:?}"))
    }
}

async fn open(builder: ClientBuilder, target: &Target) -> Result<Client, String> {
    let connect: Arc<dyn Connect> = match target {
        Target::Stdio { command, args, env } => {
            let variables = env.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
            Arc::new(ChildProcess::new(command).args(args).envs(variables))
        }
        Target::Http { url } => Arc::new(Http::new(url).map_err(|error| error.to_string())?),
        Target::Sse { url } => Arc::new(Http::sse(url).map_err(|error| error.to_string())?),
        Target::Protected(_) => return Err("a server that requires tokens has its own checks".into()),
    };
    builder.connect(connect).await.map_err(error_text)
}

async fn tools(peer: &Peer) -> Result<(), String> {
    let listed = peer.client.list_tools().await.map_err(error_text)?;
    let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
    match peer.subject.tools.iter().find(|name| !names.contains(name)) {
        Some(missing) => Err(format!("{missing} is not among {names:?}")),
        None => Ok(()),
    }
}

async fn call(peer: &Peer) -> Outcome {
    if peer.subject.calls.is_empty() {
        return lacking("its calls would leave this machine");
    }
    for call in &peer.subject.calls {
        // A server that works in the roots of its client must request them first.
        if let Err(problem) = soon(|| peer.call(call)).await {
            return Outcome::Failed(problem);
        }
    }
    Outcome::Ok
}

async fn error(peer: &Peer) -> Outcome {
    let Some((tool, arguments)) = &peer.subject.error else { return lacking("no call of it is known to fail") };
    // Arguments that the schema refuses are an error of the protocol for some servers, and a result for others.
    match peer.client.call_tool(tool, arguments).await {
        Ok(result) => expect(result.is_error() && !result.text().is_empty(), format!("{tool}: {result:?}")).into(),
        Err(error) => expect(error.rpc().is_some(), error_text(error)).into(),
    }
}

async fn resources(peer: &Peer) -> Outcome {
    let Some((uri, part)) = peer.subject.resource else { return lacking("it has no resources") };
    let read = async {
        peer.client.list_resources().await.map_err(error_text)?;
        peer.client.list_resource_templates().await.map_err(error_text)?;
        let read = peer.client.read_resource(uri).await.map_err(error_text)?;
        let text = read.contents.first().and_then(|contents| contents.as_text()).unwrap_or_default();
        expect(text.contains(part), format!("{uri} is {text:?}"))
    };
    read.await.into()
}

async fn prompts(peer: &Peer) -> Outcome {
    let Some((name, argument, value, part)) = peer.subject.prompt else { return lacking("it has no prompts") };
    let get = async {
        let listed = peer.client.list_prompts().await.map_err(error_text)?;
        expect(listed.iter().any(|prompt| prompt.name == name), format!("{name} is not listed"))?;
        let got = peer.client.get_prompt(name, [(argument, value)]).await.map_err(error_text)?;
        let text = got.messages.first().and_then(|message| message.content.as_text()).unwrap_or_default();
        expect(text.contains(part), format!("{name} is {text:?}"))
    };
    get.await.into()
}

async fn complete(peer: &Peer) -> Outcome {
    let Some((reference, argument, start, whole)) = &peer.subject.completion else {
        return lacking("it completes nothing");
    };
    match peer.client.complete(reference.clone(), *argument, *start).await {
        Ok(result) => {
            let values = result.completion.values;
            expect(values.iter().any(|value| value == whole), format!("{start} is completed to {values:?}")).into()
        }
        Err(error) => Outcome::Failed(error_text(error)),
    }
}

/// A call in which the server sends an input request to this client.
async fn answered(peer: &Peer, call: Option<&Call>) -> Outcome {
    match call {
        Some(_) if peer.stateless => lacking("its older revisions over HTTP have no sessions to ask in"),
        Some(call) => soon(|| peer.call(call)).await.into(),
        None => lacking("it does not ask for this"),
    }
}

/// A form, and pages that have to be visited first where the server has some.
async fn elicitation(peer: &Peer) -> Outcome {
    match (answered(peer, peer.subject.elicitation.as_ref()).await, &peer.subject.pages) {
        (Outcome::Ok, Some(call)) => peer.call(call).await.into(),
        (form, _) => form,
    }
}

async fn subscription(peer: &Peer) -> Outcome {
    let Some((uri, trigger, has_sessions)) = peer.subject.subscription else {
        return lacking("none of its resources change");
    };
    if peer.client.version().has_listen() == has_sessions {
        return lacking("none of its resources change in this era");
    }
    let watched = async {
        let mut changes = peer.client.subscribe([uri]).await.map_err(error_text)?;
        let honoured = changes.honoured().resource_subscriptions;
        expect(honoured == [uri], format!("the server accepted a subscription to {honoured:?}"))?;
        peer.client.call_tool(trigger, json!({})).await.map_err(error_text)?;
        let changed = tokio::time::timeout(SOON, changes.next()).await;
        let changed =
            changed.map_err(|_| format!("the server sent no update of {uri}"))?.transpose().map_err(error_text)?;
        let expected = Update::ResourceUpdated { uri: uri.to_owned() };
        expect(changed.as_ref() == Some(&expected), format!("what changed is {changed:?}"))?;
        drop(changes);
        peer.client.call_tool(trigger, json!({})).await.map(drop).map_err(error_text)
    };
    watched.await.into()
}

async fn progress(peer: &Peer) -> Outcome {
    let Some((tool, quick, _)) = &peer.subject.slow else { return lacking("none of its tools reports progress") };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&seen);
    let call = peer.client.call_tool(tool, quick);
    let call = call.on_progress(move |update| {
        reports.lock().push(update.progress);
    });
    let result = call.await;
    let seen = seen.lock();
    match result {
        Ok(_) => expect(seen.len() >= 4 && seen.is_sorted(), format!("progress came as {seen:?}")).into(),
        Err(error) => Outcome::Failed(error_text(error)),
    }
}

/// Cancels a running call. The connection stays open.
async fn cancellation(peer: &Peer) -> Outcome {
    let Some((tool, _, slow)) = &peer.subject.slow else { return lacking("none of its tools takes its time") };
    let (cancel, runs) = (CancellationToken::new(), Arc::new(Notify::new()));
    let (token, running) = (cancel.clone(), Arc::clone(&runs));
    let call = peer
        .client
        .call_tool(tool, slow)
        .cancelled_by(token.cancelled_owned())
        .on_progress(move |_| running.notify_one());
    let given_up = async {
        runs.notified().await;
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = call => ended,
        () = given_up => return Outcome::Failed("the call goes on".into()),
    };
    let checked = async {
        match ended {
            Ok(result) => return Err(format!("the call came to its end: {}", result.text())),
            Err(error) => expect(error.is_cancelled(), error_text(error))?,
        }
        expect(peer.client.pending() == 0, "a call is pending still")?;
        tools(peer).await
    };
    checked.await.into()
}

/// Tries again for a while.
async fn soon<F: Future<Output = Result<(), String>>>(mut attempt: impl FnMut() -> F) -> Result<(), String> {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let result = attempt().await;
        if result.is_ok() || tokio::time::Instant::now() >= deadline {
            return result;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn lacking(reason: &str) -> Outcome {
    Outcome::NotOffered(reason.to_owned())
}

fn expect(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// The text of an error and its sources.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
/// The text of an error and those of its sources.
pub(crate) fn error_text(error: Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Ok,
            Err(reason) => Self::Failed(reason),
        }
    }
}
