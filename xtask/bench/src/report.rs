//! From rounds to a table: a ratio is the median of the ratios of pairs, because both rounds of a pair share their conditions.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    case::{Case, Over, Revision},
    error::Error,
    figure::{Aim, BARE, Doubt, Figure, OURS},
    handover::is_distant,
    library::library_of,
};

/// The result of one round of one peer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub(crate) calls: u64,
    pub(crate) elapsed: Duration,
    /// The user and system time of the program under test.
    pub(crate) server: Option<Duration>,
    /// The same for the generator.
    pub(crate) generator: Option<Duration>,
    /// The 99th percentile of the times of calls over HTTP.
    pub(crate) p99: Option<Duration>,
    /// The wrong passwords that the server received beside the calls.
    pub(crate) wrong_passwords: u64,
}

impl Round {
    pub(crate) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Microseconds of the server's time on a core per call; `None` if that was less than the clock of the system shows.
    fn cost(&self) -> Option<f64> {
        let used = self.server.filter(|used| !used.is_zero())?;
        Some(used.as_secs_f64() * 1e6 / self.calls.max(1) as f64)
    }

    /// The share of one core that a process used.
    fn share(&self, used: Option<Duration>) -> f64 {
        used.unwrap_or_default().as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The rounds of a case: pairs of ours and the bare peer, and the rounds of other libraries beside them.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) pairs: Vec<(Round, Round)>,
    pub(crate) others: BTreeMap<&'static str, Vec<Round>>,
    /// The cores that other work used in each round of a program.
    pub(crate) other_work: BTreeMap<&'static str, Vec<f64>>,
    /// The nanoseconds of a handover between the cores, before each round of a program.
    pub(crate) handovers: BTreeMap<&'static str, Vec<f64>>,
    /// Another library did not start, or failed in a round.
    pub(crate) is_incomplete: bool,
    /// The late work of a program did not end before its round.
    pub(crate) is_late: bool,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    title: &'static str,
    revision: Revision,
    aim: Aim,
    /// The median ratio and the median calls in a second of each form of another library.
    others: BTreeMap<&'static str, (f64, f64)>,
    least: Option<f64>,
    ours: f64,
    bare: f64,
    ratio: Spread,
    cost: Option<(f64, f64, Spread)>,
    guesses: Option<Guesses>,
    /// The median time of a handover between the cores, in nanoseconds.
    handover: Option<f64>,
    /// The reasons why the times of the rounds are not reliable.
    doubts: Vec<Doubt>,
    /// Whether the run measured the row twice.
    repeated: bool,
}

/// The effect of wrong passwords on the calls beside them.
#[derive(Debug)]
struct Guesses {
    per_second: f64,
    /// The 99th percentiles in milliseconds: with wrong passwords, and without them.
    p99: (f64, f64),
    ratio: Spread,
    most: Option<f64>,
}

impl Guesses {
    fn of(case: &Case, rounds: &[(Round, Round)]) -> Option<Self> {
        let times: Vec<(f64, f64)> = rounds
            .iter()
            .filter(|_| case.wrong_passwords > 0)
            .filter_map(|(with, without)| Some((with.p99?.as_secs_f64() * 1e3, without.p99?.as_secs_f64() * 1e3)))
            .collect();
        let rate = |(with, _): &(Round, Round)| with.wrong_passwords as f64 / with.elapsed.as_secs_f64().max(1e-9);
        (!times.is_empty()).then(|| Self {
            per_second: Spread::of(rounds.iter().map(rate)).median,
            p99: (
                Spread::of(times.iter().map(|(with, _)| *with)).median,
                Spread::of(times.iter().map(|(_, without)| *without)).median,
            ),
            ratio: Spread::of(times.iter().map(|(with, without)| with / without)),
            most: case.most_p99,
        })
    }
}

/// The doubts that apply.
pub(crate) fn doubts_of(doubts: impl IntoIterator<Item = (bool, Doubt)>) -> Vec<Doubt> {
    doubts.into_iter().filter_map(|(applies, doubt)| applies.then_some(doubt)).collect()
}

/// More cores of other work disturb a measurement.
const MOST_OTHER_WORK: f64 = 0.1;

/// Whether other work disturbed the rounds of a program, from the cores that it used in each of them. The value of a program is a
/// median, so the median of these cores counts.
pub(crate) fn is_disturbed(cores: &[f64]) -> bool {
    median(cores) > MOST_OTHER_WORK
}

/// The median of values. Without a value, it is not a number.
pub(crate) fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).median
}

/// The median of times, in linear time. It changes their order.
pub(crate) fn median_time(times: &mut [Duration]) -> Option<Duration> {
    let count = times.len();
    if count == 0 {
        return None;
    }
    let (lower, middle, _) = times.select_nth_unstable(count / 2);
    let other = lower.iter().max().filter(|_| count.is_multiple_of(2)).unwrap_or(middle);
    Some((*other + *middle) / 2)
}

/// The middle of some values, and the ends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |n: usize| values.get(n).copied().unwrap_or(f64::NAN);
        let count = values.len();
        let median =
            if count % 2 == 1 { at(count / 2) } else { f64::midpoint(at((count / 2).wrapping_sub(1)), at(count / 2)) };
        Self { median, least: at(0), most: at(count.wrapping_sub(1)) }
    }
}

impl Row {
    pub(crate) fn new(case: &Case, revision: Revision, measured: &Measured) -> Self {
        let rounds = &*measured.pairs;
        let costs: Vec<(f64, f64)> =
            rounds.iter().filter_map(|(ours, bare)| Some((ours.cost()?, bare.cost()?))).collect();
        let cost = (!costs.is_empty()).then(|| {
            (
                Spread::of(costs.iter().map(|(ours, _)| *ours)).median,
                Spread::of(costs.iter().map(|(_, bare)| *bare)).median,
                Spread::of(costs.iter().map(|(ours, bare)| bare / ours)),
            )
        });
        let is_saturating = !matches!(
            case.over,
            Over::Http { connections: 1 } | Over::Stdio { depth: 1 } | Over::Client { at_once: 1 }
        );
        let other = |theirs: &Vec<Round>| {
            let ratios = theirs.iter().zip(rounds).map(|(theirs, (_, bare))| theirs.per_second() / bare.per_second());
            (Spread::of(ratios).median, Spread::of(theirs.iter().map(Round::per_second)).median)
        };
        let handovers: Vec<f64> = measured.handovers.values().flatten().copied().collect();
        let share = Spread::of(rounds.iter().map(|(_, bare)| bare.share(bare.generator))).median;
        Self {
            name: case.name,
            title: case.title,
            revision,
            aim: case.aim,
            others: measured.others.iter().map(|(name, theirs)| (*name, other(theirs))).collect(),
            least: case.least,
            ours: Spread::of(rounds.iter().map(|(ours, _)| ours.per_second())).median,
            bare: Spread::of(rounds.iter().map(|(_, bare)| bare.per_second())).median,
            ratio: Spread::of(rounds.iter().map(|(ours, bare)| ours.per_second() / bare.per_second())),
            cost,
            guesses: Guesses::of(case, rounds),
            handover: (!handovers.is_empty()).then(|| median(&handovers)),
            doubts: doubts_of([
                (is_saturating && share > 0.97, Doubt::Limited),
                (measured.other_work.values().any(|cores| is_disturbed(cores)), Doubt::Disturbed),
                (measured.handovers.values().any(|times| is_distant(median(times))), Doubt::Distant),
                (measured.is_late, Doubt::Late),
                (measured.is_incomplete, Doubt::Incomplete),
            ]),
            repeated: false,
        }
    }

    /// Measures a row. If the cores had no common cache, it measures the row once more.
    ///
    /// The second row counts if its cores had a common cache, and if it has no other doubt than the first row.
    ///
    /// # Errors
    /// If a measurement fails. A program that fails makes the first row doubtful too.
    pub(crate) fn steady(name: &str, mut measure: impl FnMut() -> Result<Self, Error>) -> Result<Self, Error> {
        let first = measure()?;
        if !first.is_distant() {
            return Ok(first);
        }
        eprintln!("{name}  again, because the cores had no common cache");
        let second = measure()?;
        let is_better = !second.is_distant() && second.doubts.iter().all(|doubt| first.doubts.contains(doubt));
        if !is_better {
            eprintln!("{name}  the first row counts, because the second one is not more reliable");
        }
        Ok(Self { repeated: true, ..if is_better { second } else { first } })
    }

    /// Whether the cores had no common cache.
    fn is_distant(&self) -> bool {
        self.doubts.contains(&Doubt::Distant)
    }

    /// The row as figures: the ratio, and each further bound of the case.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let figure = |id: &str, title: &str, value: f64, unit: &str, aim| {
            let revision = Some(self.revision.name().to_owned());
            Figure { revision, repeated: self.repeated, ..Figure::new(id, title, value, unit, aim) }
        };
        let mut ratio = figure(self.name, self.title, self.ratio.median, "", self.aim);
        ratio.doubts.clone_from(&self.doubts);
        ratio.cpu = self.cost.as_ref().map(|(_, _, ratio)| ratio.median);
        ratio.spread = Some((self.ratio.least, self.ratio.most));
        ratio.handover = self.handover;
        ratio.rates = BTreeMap::from([(OURS.to_owned(), self.ours), (BARE.to_owned(), self.bare)]);
        let mut forms: Vec<_> = self.others.iter().collect();
        forms.sort_by(|(_, (_, first)), (_, (_, second))| first.total_cmp(second));
        for (name, (theirs, rate)) in forms {
            // The value of a library is that of its form with the most calls, which is the last one.
            ratio.peers.insert(library_of(name).to_owned(), *theirs);
            ratio.rates.insert((*name).to_owned(), *rate);
        }
        let mut figures = vec![ratio];
        if let Some(least) = self.least {
            let title = format!("{}, calls of one core", self.title);
            // The calls of a core do not depend on the load. Other work shares the caches, and so it changes the CPU time.
            let doubts = self.doubts.iter().copied().filter(|doubt| *doubt != Doubt::Limited).collect();
            let aim = Aim::AtLeast(least);
            figures.push(Figure { doubts, ..figure(self.name, &title, self.per_core(), "calls/s", aim) });
        }
        if let Some(Guesses { ratio, most: Some(most), .. }) = &self.guesses {
            let title = format!("{}, ratio of the 99th percentiles", self.title);
            let doubts = self.doubts.clone();
            let spread = Some((ratio.least, ratio.most));
            figures.push(Figure { doubts, spread, ..figure(self.name, &title, ratio.median, "", Aim::AtMost(*most)) });
        }
        figures
    }

    /// The calls in a second that a core of its own allows. Other work changes the CPU time less than the rate of the calls.
    fn per_core(&self) -> f64 {
        self.cost.as_ref().map_or(self.ours, |(ours, ..)| 1e6 / ours)
    }
}

/// Prints the table and how to read it.
pub(crate) fn print(rows: &[Row]) {
    println!(
        "\n{:<18} {:<11} {:>9} {:>9}  {:>5} {:<13} {:>5}   {:>8} {:>8}  {:>5} {:<13}",
        "case", "revision", "calls/s", "bare", "ratio", "(spread)", "aim", "CPU us", "bare", "ratio", "(spread)"
    );
    for row in rows {
        let mark = if row.figures().first().is_none_or(Figure::is_met) { "  " } else { " !" };
        let aim = match (row.aim, row.least) {
            (Aim::AtLeast(aim), _) => format!("{aim:.2}{mark}"),
            (Aim::AtLeastRmcp(factor), _) => format!("{factor} rmcp{mark}"),
            (_, Some(least)) => format!("{least:.0}{}", if row.per_core() < least { " !" } else { "  " }),
            _ => String::new(),
        };
        let cost = match &row.cost {
            Some((ours, bare, ratio)) => format!("{ours:>8.1} {bare:>8.1}  {}", spread(ratio)),
            None => "CPU times cannot be read here".to_owned(),
        };
        println!(
            "{:<18} {:<11} {:>9.0} {:>9.0}  {} {aim:>6}  {cost} {}",
            row.name,
            row.revision.name(),
            row.ours,
            row.bare,
            spread(&row.ratio),
            row.doubts.iter().map(|doubt| doubt.mark()).collect::<String>(),
        );
        for (name, (ratio, rate)) in &row.others {
            println!("{:<30} {rate:>9.0} {:>9}  {ratio:>5.2}", format!("  {name}"), "");
        }
    }
    for row in rows {
        let Some(Guesses { per_second, p99: (with, without), ratio, most }) = &row.guesses else { continue };
        let aim = most.map_or_else(String::new, |most| {
            format!(", at most {most:.1}{}", if ratio.median > most { " !" } else { "" })
        });
        println!(
            "{} {}: 99 % of the calls within {with:.2} ms beside {per_second:.0} wrong passwords/s, {without:.2} ms \
             without them: {}{aim}",
            row.name,
            row.revision.name(),
            spread(ratio).trim(),
        );
    }
    println!(
        "\nratio: the calls in a second by those of the bare peer, and the CPU time of the bare peer by that of this program; \
         1.00 is as fast as the bare peer"
    );
    println!("CPU us: the time of the server, or of the client, on a core per call, user and system; !: below the aim");
    for (doubt, text) in [
        (
            Doubt::Limited,
            "limited: the load, or the server of a client, used its whole core while the bare peer was measured. The ratio of \
             calls is too high, and the ratio of CPU times counts",
        ),
        (
            Doubt::Disturbed,
            "disturbed: other processes used the cores. The ratio of CPU times is more reliable than that of calls",
        ),
        (
            Doubt::Distant,
            "distant: the cores had no common cache, so large responses were slower. Rows with and without this mark differ",
        ),
        (Doubt::Late, "late: the late work of a program did not end before its round"),
        (Doubt::Incomplete, "incomplete: a program of another library has no value"),
    ] {
        if rows.iter().any(|row| row.doubts.contains(&doubt)) {
            println!("{text}");
        }
    }
}

fn spread(spread: &Spread) -> String {
    format!("{:>5.2} {:<13}", spread.median, format!("({:.2}-{:.2})", spread.least, spread.most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CASES;

    #[test]
    fn a_spread_has_a_median() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]).median, 2.5);
        assert!(Spread::of([]).median.is_nan());
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn times_have_a_median() {
        for (times, median) in [
            (&[] as &[u64], None),
            (&[7], Some(7)),
            (&[9, 1], Some(5)),
            (&[9, 1, 2], Some(2)),
            (&[8, 1, 4, 2], Some(3)),
        ] {
            let mut times: Vec<Duration> = times.iter().copied().map(Duration::from_millis).collect();
            assert_eq!(median_time(&mut times), median.map(Duration::from_millis), "{times:?}");
        }
    }

    #[test]
    fn the_effect_of_wrong_passwords_is_a_ratio_of_percentiles() {
        let case = CASES.iter().find(|case| case.wrong_passwords > 0).unwrap();
        let round = |p99, wrong_passwords| Round {
            calls: 100,
            elapsed: Duration::from_millis(500),
            p99: Some(Duration::from_millis(p99)),
            wrong_passwords,
            ..Round::default()
        };
        let pairs = [(round(4, 500), round(2, 0)), (round(9, 400), round(3, 0)), (round(5, 500), round(5, 0))];
        let guesses = Guesses::of(case, &pairs).unwrap();
        assert_eq!((guesses.per_second, guesses.p99, guesses.ratio.median), (1_000.0, (5.0, 3.0), 2.0));
        assert!(Guesses::of(&CASES[0], &pairs).is_none());
    }

    #[test]
    fn ratios_are_computed_pair_by_pair() {
        let round = |calls, cpu, generator| Round {
            calls,
            elapsed: Duration::from_secs(1),
            server: Some(Duration::from_millis(cpu)),
            generator: Some(Duration::from_millis(generator)),
            ..Round::default()
        };
        let pairs = [
            (round(500, 1000, 400), round(1000, 1000, 990)),
            (round(50, 100, 400), round(100, 100, 990)),
            (round(800, 1000, 400), round(1000, 1000, 990)),
        ];
        let others = BTreeMap::from([
            ("rmcp", vec![round(200, 1000, 400), round(10, 100, 400), round(900, 1000, 400)]),
            ("rmcp, one thread", vec![round(250, 1000, 400), round(20, 100, 400), round(600, 1000, 400)]),
        ]);
        let other_work = BTreeMap::from([("ours", vec![0.1; 3]), ("rmcp", vec![0.0, 0.9, 0.1])]);
        let handovers = BTreeMap::from([("ours", vec![170.0, 26.0, 27.0]), ("rmcp", vec![25.0, 26.0, 27.0])]);
        let is_incomplete = true;
        let measured = Measured { pairs: pairs.to_vec(), others, other_work, handovers, is_incomplete, is_late: false };
        let row = Row::new(&CASES[1], Revision::Session, &measured);
        assert_eq!((row.ratio.median, row.ratio.least, row.ratio.most), (0.5, 0.5, 0.8));
        let figures = row.figures();
        assert_eq!((figures[0].value, figures[0].peers["rmcp"], figures[0].rates["rmcp"]), (0.5, 0.25, 200.0));
        assert_eq!((figures[0].peers.len(), figures[0].rates["rmcp, one thread"]), (1, 250.0));
        assert!(!figures[0].is_met());
        assert_eq!(figures[0].doubts, [Doubt::Limited, Doubt::Incomplete]);
        assert_eq!((figures[0].cpu, figures[0].handover), (Some(0.5), Some(26.5)));
        assert_eq!(figures[0].spread, Some((0.5, 0.8)));
        let (ours, bare, ratio) = row.cost.unwrap();
        assert_eq!((ours, bare, ratio.median), (2000.0, 1000.0, 0.5));
        assert_eq!(row.per_core(), 500.0);
        let measured = Measured { pairs: pairs.to_vec(), ..Measured::default() };
        assert!(Row::new(&CASES[0], Revision::Session, &measured).doubts.is_empty(), "one connection waits by nature");
    }

    #[test]
    fn the_form_with_the_most_calls_has_the_value_of_its_library() {
        let round = |calls| Round { calls, elapsed: Duration::from_secs(1), ..Round::default() };
        // The second form has the larger median of ratios, and fewer calls in a second.
        let pairs = [100, 1_000, 10_000].map(|bare| (round(bare), round(bare)));
        let first = [50, 500, 9_000].map(round).to_vec();
        let second = [60, 400, 6_000].map(round).to_vec();
        let others = BTreeMap::from([("rmcp", first), ("rmcp, one thread", second)]);
        let measured = Measured { pairs: pairs.to_vec(), others, ..Measured::default() };
        let figures = Row::new(&CASES[1], Revision::Session, &measured).figures();
        assert_eq!((figures[0].peers["rmcp"], figures[0].rates["rmcp, one thread"]), (0.5, 400.0));
    }

    #[test]
    fn cores_without_a_common_cache_leave_a_mark() {
        let round = Round { calls: 100, elapsed: Duration::from_secs(1), ..Round::default() };
        for (ours, rmcp, expected) in [
            (vec![26.0, 27.0, 170.0], vec![26.0; 3], false),
            (vec![26.0, 167.0, 170.0], vec![26.0; 3], true),
            (vec![26.0; 3], vec![160.0; 3], true),
        ] {
            let handovers = BTreeMap::from([("ours", ours), ("rmcp", rmcp)]);
            let measured = Measured { pairs: vec![(round, round); 3], handovers, ..Measured::default() };
            let figures = Row::new(&CASES[2], Revision::Session, &measured).figures();
            assert_eq!(figures[0].doubts.contains(&Doubt::Distant), expected, "{measured:?}");
        }
    }

    #[test]
    fn a_row_of_distant_cores_is_measured_once_more() {
        let (near, distant) = (Some((200, 26.0)), Some((100, 170.0)));
        for (first, second, expected) in [
            (near, None, Some((200, false, false))),
            (distant, near, Some((200, true, false))),
            (distant, Some((200, 160.0)), Some((100, true, true))),
            (distant, None, None),
            (None, near, None),
        ] {
            // A measurement with a number of calls, and with the nanoseconds of a handover; an error for none.
            let mut outcomes = [first, second].into_iter();
            let row = Row::steady("list", || {
                let (calls, handover) = outcomes.next().flatten().ok_or_else(|| Error::new("a broken program"))?;
                let round = Round { calls, elapsed: Duration::from_secs(1), ..Round::default() };
                let handovers = BTreeMap::from([("ours", vec![handover; 3])]);
                let measured = Measured { pairs: vec![(round, round); 3], handovers, ..Measured::default() };
                Ok(Row::new(&CASES[2], Revision::Session, &measured))
            });
            let figure = row.ok().and_then(|row| row.figures().into_iter().next());
            let kept = figure
                .map(|figure| (figure.rates[OURS] as u64, figure.repeated, figure.doubts.contains(&Doubt::Distant)));
            assert_eq!(kept, expected, "{first:?} {second:?}");
        }
    }

    #[test]
    fn other_work_disturbs_each_case() {
        let round = Round {
            calls: 100,
            elapsed: Duration::from_secs(1),
            server: Some(Duration::from_millis(900)),
            generator: Some(Duration::from_millis(300)),
            ..Round::default()
        };
        for case in CASES {
            for (ours, rmcp, expected) in [
                (vec![], vec![], false),
                (vec![0.05, 0.1, 0.02], vec![0.0; 3], false),
                (vec![0.9, 0.0, 0.05], vec![0.0; 3], false),
                (vec![0.9, 0.0, 0.15], vec![0.0; 3], true),
                (vec![0.0; 3], vec![0.2; 3], true),
            ] {
                let other_work = BTreeMap::from([("ours", ours), ("rmcp", rmcp)]);
                let measured = Measured { pairs: vec![(round, round); 3], other_work, ..Measured::default() };
                let figures = Row::new(case, Revision::Session, &measured).figures();
                assert_eq!(figures[0].doubts.contains(&Doubt::Disturbed), expected, "{} {measured:?}", case.name);
            }
        }
    }
}
