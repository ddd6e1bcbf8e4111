//! A client in a process of its own, whose tokens are in Redis. It makes a call for each line of its input.

use std::{process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context, Error, bail};
use mcp_client::{
    Client,
    oauth::{self, Answer, ErrorKind, Login, OAuth, SharedStore, UserAgent},
    protocol::ProtocolVersion,
    transport::BoxFuture,
};
use mcp_store_redis::{RedisOptions, RedisStore};
use mcp_test::authorization_server::open_page;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The command of this program that runs a client.
pub(crate) const COMMAND: &str = "token-client";
const LIMIT: Duration = Duration::from_secs(60);
const DONE: &str = "done";

/// A running process. The drop of this value kills it.
pub(crate) struct Process {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a client of the server at `url`, with its tokens in Redis.
    pub(crate) fn start(redis: &str, url: &str) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([COMMAND, redis, url]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("the process has no stdin")?;
        let output = BufReader::new(child.stdout.take().context("the process has no stdout")?).lines();
        Ok(Self { _child: child, input, output })
    }

    /// Starts a call.
    pub(crate) async fn call(&mut self) -> Result<(), Error> {
        self.input.write_all(b"call\n").await?;
        Ok(self.input.flush().await?)
    }

    /// Waits for the end of the call.
    pub(crate) async fn answered(&mut self) -> Result<(), Error> {
        let line = timeout(LIMIT, self.output.next_line()).await.context("the process does not answer in time")??;
        match line.as_deref() {
            Some(DONE) => Ok(()),
            Some(error) => bail!("a call failed: {error}"),
            None => bail!("the process has ended"),
        }
    }
}

/// A user who approves each login.
struct User;

impl UserAgent for User {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, oauth::Error>> {
        let failed = |error: std::io::Error| oauth::Error::with_source(ErrorKind::Denied, "the page failed", error);
        Box::pin(async move {
            if let Some(redirect) = open_page(login.url.as_str()).await.map_err(failed)? {
                open_page(&redirect).await.map_err(failed)?;
            }
            Ok(Answer::Redirect)
        })
    }
}

/// Runs the client until its input ends.
pub(crate) async fn run(redis: &str, url: &str) -> Result<(), Error> {
    let store = RedisStore::connect(RedisOptions::from_url(redis)?).await?;
    let auth = OAuth::builder().client_name("fleet-check").user_agent(User);
    let auth = auth.store(SharedStore::new(Arc::new(store))).build();
    let mut client: Option<Client> = None;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    while lines.next_line().await?.is_some() {
        let line = match call(&mut client, &auth, url).await {
            Ok(()) => DONE.to_owned(),
            Err(error) => format!("{error:#}").replace('\n', " "),
        };
        output.write_all(format!("{line}\n").as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

/// Makes a call. The first call connects, and logs in if no process has done so.
async fn call(client: &mut Option<Client>, auth: &OAuth, url: &str) -> Result<(), Error> {
    let client = match client {
        Some(client) => client,
        None => {
            let builder = Client::builder("fleet-check", "0").versions([ProtocolVersion::V2026_07_28]);
            client.insert(builder.auth(auth.clone()).connect(url).await?)
        }
    };
    client.call_tool("name", ()).await?.ok()?;
    Ok(())
}
