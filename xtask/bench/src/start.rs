//! `bench start`: the time from the start of a stdio server to its first answers, and the memory of the idle server.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lexopt::{Arg, Parser, ValueExt as _};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    time::{sleep, timeout},
};

use crate::{
    case::{INITIALIZED, Revision, list_line},
    cpu,
    error::Error,
    figure::{Aim, Figure},
    library::Library,
    peer::{Peer, START_LIMIT, Start},
};

/// The starts of each program for each figure.
const STARTS: usize = 60;
/// The time between the last answer and the reading of the memory.
const SETTLE: Duration = Duration::from_millis(300);
/// The highest accepted memory in megabytes.
const MEMORY_AIM: f64 = 6.0;
const OURS: &str = "ours";
const BARE: &str = "bare";

/// The first messages of a client, and the answers that it waits for.
struct Opening {
    id: &'static str,
    title: &'static str,
    revision: Revision,
    /// Each step is written after the answer to the step before.
    steps: Vec<String>,
}

/// Measures all programs in turns.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    let (programs, starts) = parse(args)?;
    let core = cpu::pair().map(|(server, generator)| cpu::pin(generator).map(|()| server)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = Revision::Session;
    let list = |revision| list_line(revision, 1);
    let openings = [
        Opening {
            id: "start-initialize",
            title: "cold start, answer to initialize",
            revision: session,
            steps: vec![session.initialize() + "\n"],
        },
        Opening {
            id: "start-list",
            title: "cold start, answer to tools/list",
            revision: session,
            steps: vec![session.initialize() + "\n", format!("{INITIALIZED}\n{}", list(session))],
        },
        Opening {
            id: "start-list",
            title: "cold start, answer to tools/list",
            revision: Revision::Stateless,
            steps: vec![list(Revision::Stateless)],
        },
    ];
    let mut figures = Vec::new();
    for opening in &openings {
        let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for number in 0..=starts {
            for (name, program) in &programs {
                let timing = opening.time(program, core, name == BARE);
                let time = runtime.block_on(timing).map_err(|error| error.when(name))?;
                // The first start reads the program from the disk.
                if number > 0 {
                    times.entry(name).or_default().push(time.as_secs_f64() * 1e3);
                }
            }
        }
        let medians = times.into_iter().map(|(name, times)| (name.to_owned(), median(times))).collect();
        figures.push(figure(opening.id, opening.title, Some(opening.revision), "ms", medians, Aim::AtMostRmcp(1.0)));
    }
    let mut sizes = BTreeMap::new();
    for (name, program) in programs.iter().filter(|(name, _)| name != BARE) {
        let resident = runtime.block_on(openings[1].resident(program, core)).map_err(|error| error.when(name))?;
        sizes.insert(name.clone(), resident);
    }
    figures.push(figure("idle-server", "memory of an idle stdio server", None, "MB", sizes, Aim::AtMost(MEMORY_AIM)));
    println!("\nstdio servers of one tool, medians of {starts} starts");
    for figure in &figures {
        println!("{figure}");
    }
    Ok(figures)
}

/// Reads the options. Returns the programs with their names, and the number of starts.
fn parse(args: &[String]) -> Result<(Vec<(String, PathBuf)>, usize), Error> {
    let (mut programs, mut starts) = (Vec::new(), STARTS);
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long(name @ ("ours" | "bare")) => {
                let name = name.to_owned();
                programs.push((name, PathBuf::from(parser.value()?)));
            }
            Arg::Long("peers") => {
                for library in Library::all(&PathBuf::from(parser.value()?))? {
                    programs.push((library.name.to_owned(), library.program("stdio")?));
                }
            }
            Arg::Long("starts") => {
                let count = parser.value()?.parse().ok().filter(|count| (1..=10_000).contains(count));
                starts = count.ok_or_else(|| Error::new("--starts takes 1 to 10000"))?;
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    if !programs.iter().any(|(name, _)| name == OURS) {
        return Err(Error::new("`start` needs --ours PROGRAM"));
    }
    Ok((programs, starts))
}

/// The value of ours, beside the other values.
fn figure(
    id: &str,
    title: &str,
    revision: Option<Revision>,
    unit: &str,
    mut values: BTreeMap<String, f64>,
    aim: Aim,
) -> Figure {
    let ours = values.remove(OURS).unwrap_or(f64::NAN);
    let revision = revision.map(|revision| revision.name().to_owned());
    Figure { revision, peers: values, ..Figure::new(id, title, ours, unit, aim) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Opening {
    /// Starts a program, and returns the time until its last answer.
    async fn time(&self, program: &Path, core: Option<usize>, is_bare: bool) -> Result<Duration, Error> {
        let start = Instant::now();
        let mut server = serve(program, core)?;
        // A program that echoes lines needs no handshake.
        let steps = if is_bare { &self.steps[self.steps.len() - 1..] } else { &*self.steps };
        let answer = answer(&mut server, steps).await?;
        let time = start.elapsed();
        if !is_bare {
            verify(&answer)?;
        }
        Ok(time)
    }

    /// Returns the resident memory of a server after its answers, in megabytes.
    async fn resident(&self, program: &Path, core: Option<usize>) -> Result<f64, Error> {
        let mut server = serve(program, core)?;
        verify(&answer(&mut server, &self.steps).await?)?;
        sleep(SETTLE).await;
        let bytes = cpu::resident(server.pid()).ok_or_else(|| Error::new("no resident memory is known here"))?;
        Ok(bytes as f64 / 1e6)
    }
}

fn serve(program: &Path, core: Option<usize>) -> Result<Peer, Error> {
    Peer::start(&Start { program: Some(program.to_owned()), cpu: core, ..Start::default() })
}

/// Rejects an error as an answer.
fn verify(answer: &str) -> Result<(), Error> {
    let message: Value = serde_json::from_str(answer)?;
    let result = &message["result"];
    if result["tools"].as_array().is_some_and(|tools| tools.len() == 1) || result["serverInfo"].is_object() {
        return Ok(());
    }
    Err(Error::new(format!("a wrong answer: {message}")))
}

/// Writes each step to a server, and reads one line after each. Returns the last line.
async fn answer(server: &mut Peer, steps: &[String]) -> Result<String, Error> {
    let mut line = String::new();
    for step in steps {
        timeout(START_LIMIT, server.stdin.write_all(step.as_bytes())).await??;
        line = server.line(START_LIMIT).await?;
    }
    if line.is_empty() { Err(Error::new("a server ended without an answer")) } else { Ok(line) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn our_value_is_beside_the_others() {
        let values = [(OURS, 3.0), (BARE, 1.0), ("rmcp", 2.0)].map(|(name, value)| (name.to_owned(), value));
        let figure = figure("a", "a", None, "ms", BTreeMap::from(values), Aim::AtMostRmcp(1.0));
        assert_eq!((figure.value, figure.peers.len(), figure.is_met()), (3.0, 2, false));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn an_answer_has_one_tool_or_the_server() {
        for (result, is_right) in [
            (json!({ "tools": [{}] }), true),
            (json!({ "serverInfo": {} }), true),
            (json!({ "tools": [] }), false),
            (json!({}), false),
        ] {
            let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
            assert_eq!(verify(&answer).is_ok(), is_right, "{answer}");
        }
    }
}
