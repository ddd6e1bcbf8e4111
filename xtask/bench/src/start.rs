//! `bench start`: the time from the start of a stdio server to its first answers, and the memory of the idle server.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lexopt::{Arg, Parser, ValueExt as _};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command, time::sleep};

use crate::{
    case::{INITIALIZED, Revision, list_line},
    cpu,
    error::{Error, within},
    figure::{Aim, BARE, Doubt, Figure, OURS},
    library::Library,
    peer::{Peer, START_LIMIT},
    report::{doubts_of, is_disturbed, median},
    work::{self, Reading},
};

/// The starts of each program for each figure.
const STARTS: usize = 60;
/// The servers of each program whose memory is read.
const READINGS: usize = 5;
/// The time between the last answer and the reading of the memory.
const SETTLE: Duration = Duration::from_millis(300);
/// The highest accepted memory in megabytes.
const MEMORY_AIM: f64 = 6.0;

/// The first messages of a client, and the answers that it waits for.
struct Opening {
    id: &'static str,
    title: &'static str,
    revision: Revision,
    /// Each step is written after the answer to the step before.
    steps: Vec<String>,
}

/// A program of the comparison.
#[derive(Debug)]
struct Candidate {
    name: String,
    path: PathBuf,
}

impl Candidate {
    /// Whether the program belongs to another library. The measurement continues without it if it fails.
    fn is_other(&self) -> bool {
        ![OURS, BARE].contains(&&*self.name)
    }
}

/// The programs and the extent of a measurement.
#[derive(Debug)]
struct Options {
    programs: Vec<Candidate>,
    starts: usize,
    /// A library lacks its program.
    is_incomplete: bool,
}

/// Measures all programs in turns.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    let options = Options::parse(args)?;
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
    let all: Vec<&Candidate> = options.programs.iter().collect();
    let mut figures = Vec::new();
    for opening in &openings {
        let timing = async |program: &Candidate| opening.time(&program.path, core, program.name == BARE).await;
        let mut measured = runtime.block_on(turns(&all, options.starts, timing))?;
        measured.is_incomplete |= options.is_incomplete;
        figures.push(figure(opening.id, opening.title, opening.revision, "ms", measured, Aim::AtMostRmcp(1.0)));
    }
    let servers: Vec<&Candidate> = all.into_iter().filter(|program| program.name != BARE).collect();
    let reading = async |program: &Candidate| openings[1].resident(&program.path, core).await;
    let mut measured = runtime.block_on(turns(&servers, READINGS, reading))?;
    measured.is_incomplete |= options.is_incomplete;
    let title = "memory of an idle stdio server";
    figures.push(figure("idle-server", title, session, "MB", measured, Aim::AtMost(MEMORY_AIM)));
    println!("\nstdio servers of one tool, medians of {} starts and of {READINGS} readings of memory", options.starts);
    for figure in &figures {
        println!("{figure}");
    }
    Ok(figures)
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = Self { programs: Vec::new(), starts: STARTS, is_incomplete: false };
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long(name @ ("ours" | "bare")) => {
                    let name = name.to_owned();
                    options.programs.push(Candidate { name, path: PathBuf::from(parser.value()?) });
                }
                Arg::Long("peers") => {
                    for library in Library::all(&PathBuf::from(parser.value()?))? {
                        match library.program("stdio") {
                            Ok(path) => options.programs.push(Candidate { name: library.name.to_owned(), path }),
                            Err(error) => {
                                eprintln!("{} is not measured: {error}", library.name);
                                options.is_incomplete = true;
                            }
                        }
                    }
                }
                Arg::Long("starts") => {
                    let count = parser.value()?.parse().ok().filter(|count| (1..=10_000).contains(count));
                    options.starts = count.ok_or_else(|| Error::new("--starts takes 1 to 10000"))?;
                }
                _ => return Err(arg.unexpected().into()),
            }
        }
        if !options.programs.iter().any(|program| program.name == OURS) {
            return Err(Error::new("`start` needs --ours PROGRAM"));
        }
        Ok(options)
    }
}

/// The medians of the programs.
#[derive(Debug)]
struct Medians {
    values: BTreeMap<String, f64>,
    /// A program of another library failed, and has no value.
    is_incomplete: bool,
    /// Other processes used the cores.
    is_disturbed: bool,
}

/// Measures the programs `count` times in turns. A program of another library leaves the turns with its first error.
async fn turns(
    programs: &[&Candidate],
    count: usize,
    measure: impl AsyncFn(&Candidate) -> Result<f64, Error>,
) -> Result<Medians, Error> {
    let start = Reading::now();
    let mut left: Vec<(&Candidate, Vec<f64>)> = programs.iter().map(|program| (*program, Vec::new())).collect();
    for number in 0..=count {
        let mut failed = Vec::new();
        for (program, values) in &mut left {
            match measure(program).await {
                // The first start reads the program from the disk.
                Ok(_) if number == 0 => {}
                Ok(value) => values.push(value),
                Err(error) if program.is_other() => {
                    eprintln!("{} is not measured: {error}", program.name);
                    failed.push(program.name.clone());
                }
                Err(error) => return Err(error.when(&program.name)),
            }
        }
        left.retain(|(program, _)| !failed.contains(&program.name));
        // The order alternates, so that the place of a program in it has no effect.
        left.reverse();
    }
    let is_incomplete = left.len() < programs.len();
    let values = left.iter().map(|(program, values)| (program.name.clone(), median(values))).collect();
    let is_disturbed = work::others_since(start).is_some_and(|cores| is_disturbed(&[cores]));
    Ok(Medians { values, is_incomplete, is_disturbed })
}

/// The value of ours, beside the other values.
fn figure(id: &str, title: &str, revision: Revision, unit: &str, measured: Medians, aim: Aim) -> Figure {
    let Medians { values: mut peers, is_incomplete, is_disturbed } = measured;
    let ours = peers.remove(OURS).unwrap_or(f64::NAN);
    let doubts = doubts_of([(is_disturbed, Doubt::Disturbed), (is_incomplete, Doubt::Incomplete)]);
    Figure { revision: Some(revision.name().to_owned()), peers, doubts, ..Figure::new(id, title, ours, unit, aim) }
}

impl Opening {
    /// Starts a program, and returns the milliseconds until its last answer. The program has ended afterwards, so that its end
    /// does not slow the next start.
    async fn time(&self, program: &Path, core: Option<usize>, is_bare: bool) -> Result<f64, Error> {
        let start = Instant::now();
        let mut server = serve(program, core)?;
        // A program that echoes lines needs no handshake.
        let steps = if is_bare { &self.steps[self.steps.len() - 1..] } else { &*self.steps };
        let answer = answer(&mut server, steps).await?;
        let time = start.elapsed();
        server.end().await?;
        if !is_bare {
            verify(&answer)?;
        }
        Ok(time.as_secs_f64() * 1e3)
    }

    /// Returns the resident memory of a server after its answers, in megabytes.
    async fn resident(&self, program: &Path, core: Option<usize>) -> Result<f64, Error> {
        let mut server = serve(program, core)?;
        verify(&answer(&mut server, &self.steps).await?)?;
        sleep(SETTLE).await;
        let bytes = cpu::resident(server.pid()).ok_or_else(|| Error::new("no resident memory is known here"))?;
        server.end().await?;
        Ok(bytes as f64 / 1e6)
    }
}

fn serve(program: &Path, core: Option<usize>) -> Result<Peer, Error> {
    Peer::spawn(Command::new(program), core)
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
        within(START_LIMIT, "the input of a server", server.stdin.write_all(step.as_bytes())).await?;
        line = server.line(START_LIMIT).await?;
    }
    if line.is_empty() { Err(Error::new("a server ended without an answer")) } else { Ok(line) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    /// Measures four programs, one of which fails in a turn, or none. Returns the order of the turns and the medians.
    fn measure(count: usize, broken: Option<(&str, usize)>) -> (String, Result<Medians, Error>) {
        let programs =
            [OURS, BARE, "rmcp", "tower-mcp"].map(|name| Candidate { name: name.to_owned(), path: "".into() });
        let order = RefCell::new(String::new());
        let measuring = async |program: &Candidate| {
            let letter = &program.name[..1];
            let turn = order.borrow().matches(letter).count();
            *order.borrow_mut() += letter;
            match broken {
                Some(broken) if broken == (&*program.name, turn) => Err(Error::new("a broken program")),
                _ => Ok(turn as f64),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(turns(&programs.each_ref(), count, measuring));
        (order.into_inner(), outcome)
    }

    #[test]
    fn the_order_alternates_and_the_first_turn_does_not_count() {
        let (order, measured) = measure(4, None);
        assert_eq!(order, "obrt trbo obrt trbo obrt".replace(' ', ""));
        let values = [OURS, BARE, "rmcp", "tower-mcp"].map(|name| (name.to_owned(), 2.5));
        let measured = measured.unwrap();
        assert_eq!((measured.values, measured.is_incomplete), (values.into(), false));
    }

    #[test]
    fn a_broken_program_of_another_library_leaves_the_turns() {
        for (broken, expected) in [(("rmcp", 0), "obrt tbo obt"), (("tower-mcp", 1), "obrt trbo obr")] {
            let (order, measured) = measure(2, Some(broken));
            assert_eq!(order, expected.replace(' ', ""));
            let measured = Medians { is_disturbed: false, ..measured.unwrap() };
            assert_eq!((measured.is_incomplete, measured.values.len()), (true, 3));
            assert!(!measured.values.contains_key(broken.0));
            let figure = figure("a", "a", Revision::Session, "ms", measured, Aim::AtMostRmcp(1.0));
            assert_eq!((figure.value, figure.peers.len(), &*figure.doubts), (1.5, 2, &[Doubt::Incomplete] as &[Doubt]));
            assert_eq!(figure.is_met(), broken.0 != "rmcp");
        }
        for broken in [OURS, BARE] {
            assert!(measure(2, Some((broken, 1))).1.is_err());
        }
    }

    #[test]
    fn our_value_is_beside_the_others() {
        let values = [(OURS, 3.0), (BARE, 1.0), ("rmcp", 2.0)].map(|(name, value)| (name.to_owned(), value));
        for (is_incomplete, is_disturbed, doubts) in [
            (false, false, &[] as &[Doubt]),
            (false, true, &[Doubt::Disturbed]),
            (true, true, &[Doubt::Disturbed, Doubt::Incomplete]),
        ] {
            let measured = Medians { values: values.clone().into(), is_incomplete, is_disturbed };
            let figure = figure("a", "a", Revision::Session, "ms", measured, Aim::AtMostRmcp(1.0));
            assert_eq!((figure.value, figure.peers.len(), figure.is_met()), (3.0, 2, false));
            assert_eq!((figure.revision.as_deref(), &*figure.doubts), (Some("2025-11-25"), doubts));
        }
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
