//! The client that `cargo xtask interop` runs against servers of other projects.
//!
//! Its argument is a [`Config`] as JSON. The program prints one line of JSON per check, like the scripts of the other clients.

#![expect(clippy::print_stdout, reason = "its reports are its output")]

use std::{process::ExitCode, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::{
    checks::{CHECKS, Outcome, Peer},
    subjects::Subject,
};

mod checks;
mod protected;
mod subjects;

/// No check takes longer.
const CHECK_LIMIT: Duration = Duration::from_secs(30);

/// The server and its address.
#[derive(Debug, Deserialize)]
struct Config {
    /// The name of the server in [`subjects`].
    subject: String,
    era: Era,
    /// A folder that the server may use.
    dir: String,
    #[serde(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Era {
    Legacy,
    Modern,
    Auto,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
enum Target {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Map<String, Value>,
    },
    Http {
        url: String,
    },
    Sse {
        url: String,
    },
    /// A server that requires tokens. This program starts it.
    Protected(protected::Program),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(config) = std::env::args().nth(1) else { return ExitCode::from(2) };
    let config: Config = match serde_json::from_str(&config) {
        Ok(config) => config,
        Err(error) => {
            report("connect", &Outcome::Failed(format!("the configuration: {error}")));
            return ExitCode::from(2);
        }
    };
    if let Target::Protected(program) = &config.target {
        protected::run(&config.subject, config.era, program).await;
        return ExitCode::SUCCESS;
    }
    let subject = subjects::named(&config.subject, &config.dir);
    run(&config, subject).await;
    ExitCode::SUCCESS
}

async fn run(config: &Config, subject: Option<Subject>) {
    let Some(subject) = subject else {
        return report("connect", &Outcome::Failed(format!("no server `{}` is known", config.subject)));
    };
    let peer = match tokio::time::timeout(CHECK_LIMIT, Peer::connect(config, subject)).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(problem)) => return report("connect", &Outcome::Failed(problem)),
        Err(_) => return report("connect", &Outcome::Failed("no connection in time".into())),
    };
    report("connect", &peer.connected());
    for (name, check) in CHECKS {
        let outcome = tokio::time::timeout(CHECK_LIMIT, check(&peer)).await;
        report(name, &outcome.unwrap_or_else(|_| Outcome::Failed("no answer in time".into())));
    }
    peer.client.close().await;
}

fn report(check: &str, outcome: &Outcome) {
    let (status, reason) = match outcome {
        Outcome::Ok => ("ok", ""),
        Outcome::NotOffered(reason) => ("n/a", reason.as_str()),
        Outcome::Failed(reason) => ("fail", reason.as_str()),
    };
    println!("{}", json!({ "check": check, "status": status, "reason": reason }));
}
