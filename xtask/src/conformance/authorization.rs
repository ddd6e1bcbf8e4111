//! The authorization leg: the suite logs in to the test authorization server, which the example `protected` starts.
//!
//! The suite expects a person with a browser. It prints the URL of the login page and waits for the redirect. This module is
//! the browser: the authorization server approves each login, so that one GET and its redirects end the login.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, bail, ensure};
use serde_json::{Value, json};

use super::{
    Bench, Leg, Release,
    browser::{self, Reply},
    fixture::Protected,
    lists::AUTHORIZATION,
    outcome::{self, Verdict},
    report::{Report, Row},
};
use crate::process::{self, Running};

/// Well above the time of a run, and below the five minutes for which the suite waits for a person.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// The kept lines of the output, which explain a missing result.
const KEPT_LINES: usize = 20;

/// Runs both scenarios at each revision, with and without a resource indicator (RFC 8707).
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<(), Error> {
    let release = Release::Alpha;
    let listed = bench.list(release)?;
    let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(names == AUTHORIZATION, "{release} lists {names:?}, and this leg expects {AUTHORIZATION:?}");
    report.heading(format_args!("suite {release}"));
    let server = Protected::start(&bench.binary, &["--auto-approve"])?;
    for revision in listed.iter().flat_map(|(_, revisions)| revisions).collect::<std::collections::BTreeSet<_>>() {
        for resource in [None, Some(server.url.as_str())] {
            let label = if resource.is_some() { "with a resource" } else { "no resource" };
            let outcome = login(bench, release, &server.issuer, revision, resource);
            for (name, of) in &listed {
                if !of.contains(revision) {
                    continue;
                }
                let label = format!("{name} {revision}, {label}");
                report.row(match &outcome {
                    Ok(found) => row(&label, name, found),
                    Err(error) => Row::no_result(&label, &format!("{error:#}")),
                });
            }
        }
    }
    Ok(())
}

/// Judges a scenario. A skipped scenario shows nothing, although the suite counts it as passed.
fn row(label: &str, name: &str, found: &Found) -> Row {
    let Some(checks) = found.results.iter().find(|(scenario, _)| scenario == name).map(|(_, checks)| checks) else {
        return Row::no_result(label, &format!("the suite left no result: {}", found.output));
    };
    let verdict = match Verdict::of(checks, None) {
        Verdict::Passed if checks.skipped > 0 || checks.passed == 0 => {
            Verdict::NoResult(format!("{} check(s) skipped, {} passed", checks.skipped, checks.passed))
        }
        Verdict::Passed if !found.succeeded => Verdict::NoResult(format!("the suite failed: {}", found.output)),
        verdict => verdict,
    };
    Row::new(label.to_owned(), checks.clone(), verdict).took(found.took)
}

/// The results of one run of the suite.
struct Found {
    results: Vec<(String, outcome::Checks)>,
    succeeded: bool,
    output: String,
    took: Duration,
}

fn login(
    bench: &Bench,
    release: Release,
    issuer: &str,
    revision: &str,
    resource: Option<&str>,
) -> Result<Found, Error> {
    // The port is free again before the suite listens on it. Another program could take it in between.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let client = register(issuer, &format!("http://127.0.0.1:{port}/callback"))?;
    let with = if resource.is_some() { "-resource" } else { "" };
    let output = bench.fresh_output(&format!("{release}-authorization-{revision}{with}"))?;
    let mut command = bench.tools.suite(release);
    command.args([&Leg::Authorization.to_string(), "--url", issuer, "--client-id", &client]);
    command.args(["--port", &port.to_string(), "--spec-version", revision, "--output-dir"]).arg(&output);
    if let Some(resource) = resource {
        command.args(["--resource", resource]);
    }
    browse(&mut command, issuer, &output)
}

/// Registers a public client (RFC 7591) and returns its id.
fn register(issuer: &str, redirect_uri: &str) -> Result<String, Error> {
    let metadata = json_of(&browser::get(&format!("{issuer}/.well-known/oauth-authorization-server"))?)?;
    let endpoint = metadata["registration_endpoint"].as_str().context("the metadata has no registration endpoint")?;
    let client = json!({
        "client_name": "conformance", "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    });
    let registered = json_of(&browser::post_json(endpoint, &client)?)?;
    let id = registered["client_id"].as_str().with_context(|| format!("no client id: {registered}"))?;
    Ok(id.to_owned())
}

fn json_of(reply: &Reply) -> Result<Value, Error> {
    ensure!((200..300).contains(&reply.status), "status {}: {}", reply.status, reply.body);
    serde_json::from_str(&reply.body).with_context(|| reply.body.clone())
}

/// Runs the suite, and visits each URL of the authorization server that it prints.
fn browse(command: &mut Command, issuer: &str, output: &Path) -> Result<Found, Error> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", process::display(command)))?;
    let (send, lines) = mpsc::channel();
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
    ];
    for stream in streams.into_iter().flatten() {
        let send = send.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                // The thread reads the stream to its end, also without a receiver: a full pipe would stop the suite.
                let _ = send.send(line);
            }
        });
    }
    drop(send);
    let child = Running(child);
    let mut kept: Vec<String> = Vec::new();
    loop {
        match lines.recv_timeout(RUN_LIMIT.saturating_sub(started.elapsed())) {
            Ok(line) if line.starts_with(issuer) && line.contains("response_type=code") => {
                browser::visit(&line).context("the login")?;
            }
            Ok(line) => {
                if kept.len() < KEPT_LINES && !line.trim().is_empty() {
                    kept.push(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => bail!("no end after {} s: {}", RUN_LIMIT.as_secs(), kept.join(" / ")),
        }
    }
    let status = child.wait(RUN_LIMIT)?;
    let results = outcome::read(output)?;
    Ok(Found { results, succeeded: status.success(), output: kept.join(" / "), took: started.elapsed() })
}
