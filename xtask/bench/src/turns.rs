//! The rounds of a case: our program, the bare peer and the programs of other libraries take turns.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    case::{Case, Revision},
    cpu::Paused,
    error::Error,
    figure::{BARE, OURS},
    handover,
    options::Options,
    report::{Measured, Round},
    work::{self, Reading},
};

/// A program that is ready for rounds.
pub(crate) trait Program {
    /// Measures one round.
    async fn round(&mut self, length: Duration) -> Result<Round, Error>;

    /// The processes of the program, without this process.
    fn processes(&mut self) -> &mut Processes;

    /// Stops the program.
    fn stop(&mut self) {
        self.processes().stop();
    }

    /// Continues the program, and waits until it has finished the late work of its last round. Returns false if the work does not end.
    async fn resume(&mut self) -> bool {
        self.processes().resume().await
    }
}

/// The processes of a program, which are stopped between its turns. The load, and the server of clients over HTTP, always run.
#[derive(Debug)]
pub(crate) struct Processes {
    ids: Vec<u32>,
    stopped: Vec<Paused>,
}

impl Processes {
    pub(crate) fn new(ids: Vec<u32>) -> Self {
        Self { ids, stopped: Vec::new() }
    }

    fn stop(&mut self) {
        if self.stopped.is_empty() {
            // The next round of a program that has ended fails.
            self.stopped = self.ids.iter().filter_map(|id| Paused::new(*id).ok()).collect();
        }
    }

    async fn resume(&mut self) -> bool {
        self.stopped.clear();
        work::settle().await
    }
}

/// The programs of a case.
pub(crate) struct Turns<P> {
    /// The programs with their names: ours, the bare peer, and those of other libraries.
    programs: Vec<(&'static str, P)>,
    rounds: BTreeMap<&'static str, Vec<Round>>,
    /// The cores that other work used in each round of a program.
    other_work: BTreeMap<&'static str, Vec<f64>>,
    /// The nanoseconds of a handover between the cores, before each round of a program.
    handovers: BTreeMap<&'static str, Vec<f64>>,
    is_incomplete: bool,
    /// The late work of a program did not end before its round.
    is_late: bool,
    /// The case and its revision, for messages.
    name: String,
}

impl<P: Program> Turns<P> {
    pub(crate) fn new(case: &Case, revision: Revision, mut ours: P, mut bare: P) -> Self {
        let name = format!("{:<18} {revision}", case.name);
        ours.stop();
        bare.stop();
        let programs = vec![(OURS, ours), (BARE, bare)];
        let (rounds, other_work, handovers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { programs, rounds, other_work, handovers, is_incomplete: false, is_late: false, name }
    }

    /// Adds the program of a library, or notes that the library has none.
    pub(crate) fn add(&mut self, library: &'static str, started: Result<P, Error>) {
        match started {
            Ok(mut program) => {
                program.stop();
                self.programs.push((library, program));
            }
            Err(error) => self.omit(library, &error),
        }
    }

    /// Measures the rounds. In the turn of a program, the other programs are stopped, and its own late work has ended. A program
    /// of another library leaves the case with its first error.
    pub(crate) async fn measure(mut self, options: &Options) -> Result<Measured, Error> {
        for number in 1..=options.rounds {
            let mut failed = Vec::new();
            for (name, program) in &mut self.programs {
                self.is_late |= !program.resume().await;
                let handover = options.cores.and_then(|(server, _)| handover::to(server));
                self.handovers.entry(*name).or_default().extend(handover);
                let start = Reading::now();
                let outcome = program.round(options.round).await;
                self.other_work.entry(*name).or_default().extend(work::others_since(start));
                program.stop();
                match outcome {
                    Ok(round) => self.rounds.entry(*name).or_default().push(round),
                    Err(error) if [OURS, BARE].contains(name) => return Err(error),
                    Err(error) => failed.push((*name, error)),
                }
            }
            for (library, error) in failed {
                self.programs.retain(|(name, _)| *name != library);
                self.omit(library, &error);
            }
            // The order alternates, so that a change of the machine within a round has no direction.
            self.programs.reverse();
            let rate = |name: &str| self.rounds.get(name)?.last().map(Round::per_second);
            eprintln!(
                "{}  {number}/{}  {:>9.0} calls/s, bare {:>9.0}",
                self.name,
                options.rounds,
                rate(OURS).unwrap_or_default(),
                rate(BARE).unwrap_or_default(),
            );
        }
        let mut others = std::mem::take(&mut self.rounds);
        let (ours, bare) = (others.remove(OURS).unwrap_or_default(), others.remove(BARE).unwrap_or_default());
        let pairs = ours.into_iter().zip(bare).collect();
        let Self { other_work, handovers, is_incomplete, is_late, .. } = self;
        Ok(Measured { pairs, others, other_work, handovers, is_incomplete, is_late })
    }

    /// Removes a library from the results of the case.
    fn omit(&mut self, library: &'static str, error: &Error) {
        eprintln!("{}  {library} is not measured: {error}", self.name);
        self.rounds.remove(library);
        self.other_work.remove(library);
        self.handovers.remove(library);
        self.is_incomplete = true;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

    use super::*;
    use crate::case::CASES;

    /// The names of all rounds, and the programs that run now.
    #[derive(Default)]
    struct Record {
        rounds: String,
        running: BTreeSet<&'static str>,
    }

    /// A program that records its name in each round. It fails after a number of rounds.
    struct Recorded {
        name: &'static str,
        rounds_left: usize,
        record: Rc<RefCell<Record>>,
        processes: Processes,
    }

    impl Program for Recorded {
        fn processes(&mut self) -> &mut Processes {
            &mut self.processes
        }

        fn stop(&mut self) {
            assert!(self.record.borrow_mut().running.remove(self.name), "{} is stopped twice", self.name);
        }

        async fn resume(&mut self) -> bool {
            self.record.borrow_mut().running.insert(self.name);
            self.rounds_left != 1
        }

        async fn round(&mut self, _length: Duration) -> Result<Round, Error> {
            let mut record = self.record.borrow_mut();
            assert_eq!(record.running, BTreeSet::from([self.name]), "another program runs");
            record.rounds += self.name;
            self.rounds_left = self.rounds_left.checked_sub(1).ok_or_else(|| Error::new("a broken program"))?;
            let calls = if self.name == "o" { 1 } else { 2 };
            Ok(Round { calls, elapsed: Duration::from_secs(1), ..Round::default() })
        }
    }

    /// Runs four rounds. Returns the order of the rounds and the results.
    fn run(rounds: [usize; 4], is_started: bool) -> (String, Result<Measured, Error>) {
        let record = Rc::<RefCell<Record>>::default();
        let program = |name, rounds_left| {
            record.borrow_mut().running.insert(name);
            Recorded { name, rounds_left, record: Rc::clone(&record), processes: Processes::new(Vec::new()) }
        };
        let mut turns = Turns::new(&CASES[0], Revision::Session, program("o", rounds[0]), program("b", rounds[1]));
        turns.add("rmcp", if is_started { Ok(program("r", rounds[2])) } else { Err(Error::new("no such file")) });
        turns.add("tower-mcp", Ok(program("t", rounds[3])));
        let options = Options::parse(&["--rounds".to_owned(), "4".to_owned()]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let measured = runtime.block_on(turns.measure(&options));
        (record.take().rounds, measured)
    }

    #[test]
    fn the_order_of_the_programs_alternates() {
        let (order, measured) = run([9; 4], true);
        assert_eq!(order, "obrt trbo obrt trbo".replace(' ', ""));
        let measured = measured.unwrap();
        assert!(measured.pairs.iter().all(|(ours, bare)| (ours.calls, bare.calls) == (1, 2)));
        assert_eq!((measured.pairs.len(), measured.others["rmcp"].len(), measured.is_incomplete), (4, 4, false));
        assert!(!measured.is_late && run([4, 9, 9, 9], true).1.unwrap().is_late, "the last round begins too early");
    }

    #[test]
    fn a_broken_program_of_another_library_leaves_the_case() {
        for (rounds, is_started, expected) in [
            ([9, 9, 9, 9], false, "obt tbo obt tbo"),
            ([9, 9, 0, 9], true, "obrt tbo obt tbo"),
            ([9, 9, 1, 9], true, "obrt trbo obt tbo"),
        ] {
            let (order, measured) = run(rounds, is_started);
            assert_eq!(order, expected.replace(' ', ""));
            let measured = measured.unwrap();
            assert!(measured.is_incomplete && !measured.others.contains_key("rmcp"));
            assert_eq!((measured.pairs.len(), measured.others["tower-mcp"].len()), (4, 4));
        }
    }

    #[test]
    fn an_error_of_our_program_or_of_the_bare_peer_ends_the_case() {
        for rounds in [[2, 9, 9, 9], [9, 2, 9, 9]] {
            assert!(run(rounds, true).1.is_err());
        }
    }
}
