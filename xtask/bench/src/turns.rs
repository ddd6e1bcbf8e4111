//! The rounds of a case: our program, the bare peer and the programs of other libraries take turns.

use std::time::Duration;

use crate::{
    case::{Case, Revision},
    cpu::Paused,
    error::Error,
    options::Options,
    report::{Measured, Round},
};

/// A program that is ready for rounds.
pub(crate) trait Program {
    /// Measures one round.
    async fn round(&mut self, length: Duration) -> Result<Round, Error>;

    /// The process of the program, if it is not this process.
    fn pid(&self) -> Option<u32>;
}

/// The programs of a case.
pub(crate) struct Turns<P> {
    ours: P,
    bare: P,
    /// The programs of other libraries.
    others: Vec<(&'static str, P)>,
    measured: Measured,
    /// The case and its revision, for messages.
    name: String,
}

impl<P: Program> Turns<P> {
    pub(crate) fn new(case: &Case, revision: Revision, ours: P, bare: P) -> Self {
        let name = format!("{:<18} {revision}", case.name);
        Self { ours, bare, others: Vec::new(), measured: Measured::default(), name }
    }

    /// Adds the program of a library, or notes that the library has none.
    pub(crate) fn add(&mut self, library: &'static str, started: Result<P, Error>) {
        match started {
            Ok(program) => self.others.push((library, program)),
            Err(error) => self.omit(library, &error),
        }
    }

    /// Measures the rounds. A program of another library leaves the case with its first error.
    pub(crate) async fn measure(mut self, options: &Options) -> Result<Measured, Error> {
        for number in 1..=options.rounds {
            // The order alternates, so that a change of the machine within a round has no direction.
            let pair = if number % 2 == 1 {
                let stopped = self.stop_others();
                let ours = self.ours.round(options.round).await?;
                let bare = self.bare.round(options.round).await?;
                drop(stopped);
                self.others(options.round).await;
                (ours, bare)
            } else {
                self.others.reverse();
                self.others(options.round).await;
                self.others.reverse();
                let _stopped = self.stop_others();
                let bare = self.bare.round(options.round).await?;
                (self.ours.round(options.round).await?, bare)
            };
            eprintln!(
                "{}  {number}/{}  {:>9.0} calls/s, bare {:>9.0}",
                self.name,
                options.rounds,
                pair.0.per_second(),
                pair.1.per_second(),
            );
            self.measured.pairs.push(pair);
        }
        Ok(self.measured)
    }

    /// Stops the programs of other libraries until the drop of the result, so that their late work slows no other program down.
    fn stop_others(&self) -> Vec<Paused> {
        // The next round of a program that has ended fails.
        self.others.iter().filter_map(|(_, program)| Paused::new(program.pid()?).ok()).collect()
    }

    /// Measures a round of each other library.
    async fn others(&mut self, length: Duration) {
        let mut failed = Vec::new();
        for (library, program) in &mut self.others {
            match program.round(length).await {
                Ok(round) => self.measured.others.entry(*library).or_default().push(round),
                Err(error) => failed.push((*library, error)),
            }
        }
        for (library, error) in failed {
            self.others.retain(|(name, _)| *name != library);
            self.omit(library, &error);
        }
    }

    /// Removes a library from the results of the case.
    fn omit(&mut self, library: &'static str, error: &Error) {
        eprintln!("{}  {library} is not measured: {error}", self.name);
        self.measured.others.remove(library);
        self.measured.is_incomplete = true;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;
    use crate::case::CASES;

    /// A program that records its name in each round. It fails after a number of rounds.
    struct Recorded {
        name: &'static str,
        rounds_left: usize,
        record: Rc<RefCell<String>>,
    }

    impl Program for Recorded {
        fn pid(&self) -> Option<u32> {
            None
        }

        async fn round(&mut self, _length: Duration) -> Result<Round, Error> {
            *self.record.borrow_mut() += self.name;
            self.rounds_left = self.rounds_left.checked_sub(1).ok_or_else(|| Error::new("a broken program"))?;
            let calls = if self.name == "o" { 1 } else { 2 };
            Ok(Round {
                calls,
                elapsed: Duration::from_secs(1),
                server: None,
                generator: None,
                p99: None,
                wrong_passwords: 0,
            })
        }
    }

    /// Runs four rounds. Returns the order of the rounds and the results.
    fn run(rounds: [usize; 4], is_started: bool) -> (String, Result<Measured, Error>) {
        let record = Rc::new(RefCell::new(String::new()));
        let program = |name, rounds_left| Recorded { name, rounds_left, record: Rc::clone(&record) };
        let mut turns = Turns::new(&CASES[0], Revision::Session, program("o", rounds[0]), program("b", rounds[1]));
        turns.add("rmcp", if is_started { Ok(program("r", rounds[2])) } else { Err(Error::new("no such file")) });
        turns.add("tower-mcp", Ok(program("t", rounds[3])));
        let options = Options::parse(&["--rounds".to_owned(), "4".to_owned()]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let measured = runtime.block_on(turns.measure(&options));
        (record.take(), measured)
    }

    #[test]
    fn the_order_of_the_programs_alternates() {
        let (order, measured) = run([9; 4], true);
        assert_eq!(order, "obrt trbo obrt trbo".replace(' ', ""));
        let measured = measured.unwrap();
        assert!(measured.pairs.iter().all(|(ours, bare)| (ours.calls, bare.calls) == (1, 2)));
        assert_eq!((measured.pairs.len(), measured.others["rmcp"].len(), measured.is_incomplete), (4, 4, false));
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
