//! One login of three processes, whose refresh token rotates.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, Error, ensure};
use http::{StatusCode, header};
use mcp_client::protocol::Challenge;
use mcp_server::{
    auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Jwt, Rejection},
    prelude::*,
};
use mcp_test::{
    authorization_server::{AuthorizationServer, Endpoint, Misbehavior},
    redis_server::RedisServer,
};
use parking_lot::Mutex;
use tokio::{net::TcpListener, task::block_in_place};

use super::Run;
use crate::{
    fleet::{DURABLE, NODES},
    token_client::Process,
};

const ROTATIONS: usize = 100;

/// An authenticator that rejects revoked tokens.
struct Revocable {
    tokens: Jwt,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The accepted tokens since the last rotation.
    accepted: BTreeSet<String>,
    revoked: BTreeSet<String>,
}

impl Authenticator for Revocable {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let authenticated = self.tokens.authenticate(request).await?;
            let value = request.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let token = value.unwrap_or_default().to_owned();
            let mut state = self.state.lock();
            if state.revoked.contains(&token) {
                return Err(Rejection::Expired);
            }
            state.accepted.insert(token);
            Ok(authenticated)
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        self.tokens.challenges()
    }

    fn authorization_servers(&self) -> Vec<String> {
        self.tokens.authorization_servers()
    }
}

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let redis = block_in_place(|| RedisServer::start(DURABLE)).context("redis-server")?;
    // A second use of a refresh token revokes all tokens of the login.
    let authorization = AuthorizationServer::builder().auto_approve().misbehave(Misbehavior::NoRefreshGrace);
    let authorization = authorization.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let state = Arc::<Mutex<State>>::default();
    let tokens = Jwt::issuer(authorization.issuer())?.audience(&url);
    let config = HttpConfig::new().public_url(&url).authenticate(Revocable { tokens, state: state.clone() });
    let server = Server::builder("protected", "1").tool(tool("name", async |caller: Principal| caller.subject)).build();
    let running = server.clone();
    let serving = tokio::spawn(async move { running.serve_http_on(listener, config).await });

    let mut processes = Vec::new();
    for _ in 0..NODES {
        processes.push(Process::start(&redis.url(), &url)?);
    }
    call(&mut processes).await.context("the login")?;
    let logins = authorization.count(Endpoint::Authorization);
    ensure!(logins == 1, "{logins} logins of {NODES} processes");
    let first = authorization.count(Endpoint::Token);
    let rotations = run.of(ROTATIONS);
    for rotation in 1..=rotations {
        {
            let mut state = state.lock();
            let accepted = std::mem::take(&mut state.accepted);
            state.revoked.extend(accepted);
        }
        call(&mut processes).await.with_context(|| format!("rotation {rotation}"))?;
        let accepted = state.lock().accepted.len();
        ensure!(accepted == 1, "{accepted} access tokens after rotation {rotation}");
    }
    let requests = authorization.count(Endpoint::Token) - first;
    let failed = authorization.requests().into_iter();
    let failed = failed.filter(|request| request.endpoint() == Endpoint::Token && request.status() != StatusCode::OK);
    let failed = failed.count();
    let line = format!("{rotations} rotations, {requests} token requests of {NODES} processes, {failed} failed");
    ensure!(requests == rotations && failed == 0, "{line}");
    server.shutdown();
    serving.await??;
    Ok(line)
}

/// Lets all processes call at the same time.
async fn call(processes: &mut [Process]) -> Result<(), Error> {
    for process in &mut *processes {
        process.call().await?;
    }
    for process in processes {
        process.answered().await?;
    }
    Ok(())
}
