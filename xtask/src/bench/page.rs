//! The committed results: `docs/performance/results.json`, the plots beside it, and the tables in `docs/performance.md`.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Error};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::{
    builds::{self, LIBRARIES, PEERS},
    commit::Commit,
    date::today,
    figure::{self, BARE, Doubt, Figure, Series, number},
    machine::Machine,
    plot,
};

const PAGE: &str = "docs/performance.md";
const FOLDER: &str = "docs/performance";
const RESULTS: &str = "docs/performance/results.json";

/// All that a publication contains.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    /// The day of the run, in UTC.
    pub(super) date: String,
    /// The commit at the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<Commit>,
    /// The origin of the builds. A publication can keep the builds of an earlier one.
    pub(super) builds: Builds,
    pub(super) machine: Machine,
    /// The rounds of the load.
    pub(super) rounds: String,
    /// The versions of the other libraries.
    pub(super) versions: BTreeMap<String, String>,
    pub(super) figures: Vec<Figure>,
    pub(super) series: Vec<Series>,
}

/// The origin of the figures of builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Builds {
    /// The day of the builds, in UTC.
    pub(super) date: String,
    /// The commit of the files that the builds follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<Commit>,
    processor: String,
    rust: String,
    versions: BTreeMap<String, String>,
}

impl Builds {
    /// The origin of builds of today.
    pub(super) fn new(machine: &Machine, versions: &BTreeMap<String, String>, commit: Option<Commit>) -> Self {
        let Machine { processor, rust, .. } = machine.clone();
        Self { date: today(), commit, processor, rust, versions: versions.clone() }
    }

    /// Whether both have the same compiler, processor and libraries.
    fn is_like(&self, other: &Self) -> bool {
        *self == Self { date: self.date.clone(), commit: self.commit.clone(), ..other.clone() }
    }
}

/// The versions of the other libraries in their lock file.
///
/// # Errors
/// If the file has no version of a library.
pub(super) fn versions(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let path = root.join(PEERS).join("Cargo.lock");
    let lock: Table = toml::from_str(&fs::read_to_string(&path).context(path.display().to_string())?)?;
    let packages = lock.get("package").and_then(|packages| packages.as_array()).into_iter().flatten();
    let version = |package: &toml::Value| {
        let name = package.get("name")?.as_str().filter(|name| LIBRARIES.contains(name))?;
        Some((name.to_owned(), package.get("version")?.as_str()?.to_owned()))
    };
    let versions: BTreeMap<String, String> = packages.filter_map(version).collect();
    match LIBRARIES.into_iter().find(|library| !versions.contains_key(*library)) {
        Some(missing) => Err(Error::msg(format!("{}: no version of {missing}", path.display()))),
        None => Ok(versions),
    }
}

/// Returns the origin and the figures of the builds on the page.
///
/// # Errors
/// If the page has no builds, or if builds of `today` would have another compiler, processor, library or source.
pub(super) fn published_builds(root: &Path, today: &Builds) -> Result<(Builds, Vec<Figure>), Error> {
    kept_builds(committed(root)?, today, |commit| commit.is_outdated(root))
}

fn kept_builds(
    page: Results,
    today: &Builds,
    is_outdated: impl Fn(&Commit) -> Result<bool, Error>,
) -> Result<(Builds, Vec<Figure>), Error> {
    let Results { builds, figures, .. } = page;
    let kept: Vec<Figure> = figures.into_iter().filter(builds::is_of_builds).collect();
    let reason = match &builds.commit {
        _ if kept.is_empty() || !builds.is_like(today) => {
            format!("have another compiler, processor or library: {builds:?}")
        }
        None => "name no commit".to_owned(),
        Some(commit) if is_outdated(commit)? => format!("have other sources than the commit {commit}"),
        Some(_) => return Ok((builds, kept)),
    };
    Err(Error::msg(format!("the builds in {RESULTS} {reason}; publish without `--no-build`")))
}

/// Reads the committed results.
fn committed(root: &Path) -> Result<Results, Error> {
    let text = fs::read_to_string(root.join(RESULTS)).context(RESULTS)?;
    serde_json::from_str(&text).context(RESULTS)
}

/// Checks that a publication can write its files: before the measurements, which take an hour.
pub(super) fn check(root: &Path) -> Result<(), Error> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    for (name, _) in MARKED {
        replaced(&page, name, "")?;
    }
    let probe = Path::new(FOLDER).join(format!(".write-{}", std::process::id()));
    fs::create_dir_all(root.join(FOLDER)).context(FOLDER)?;
    fs::write(root.join(&probe), "").and_then(|()| fs::remove_file(root.join(&probe))).context(FOLDER)?;
    for path in [PAGE, RESULTS] {
        // An existing file remains as it is. The folder permits a new one.
        match OpenOptions::new().append(true).open(root.join(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context(path),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the results, the plots and the tables.
pub(super) fn publish(root: &Path, results: &Results) -> Result<(), Error> {
    figure::write(&root.join(RESULTS), results).context(RESULTS)?;
    render(root)
}

/// Writes the plots and the tables of the committed results.
pub(super) fn render(root: &Path) -> Result<(), Error> {
    for (path, text) in rendered(root)? {
        fs::write(root.join(&path), text).with_context(|| path.display().to_string())?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// The name of a marked part of the page, and its text.
type Marked = (&'static str, fn(&Results) -> String);

const MARKED: [Marked; 4] =
    [("machine", machine), ("figures", table), ("growth", |results| growth(&results.figures)), ("rounds", of_rounds)];

/// The files that follow from the committed results.
fn rendered(root: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let results = committed(root)?;
    let mut page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    for (name, text) in MARKED {
        page = replaced(&page, name, &text(&results))?;
    }
    let plots = plot::all(&results.figures, &results.series);
    let plots = plots.into_iter().map(|(name, text)| (Path::new(FOLDER).join(name), text));
    Ok(std::iter::once((PathBuf::from(PAGE), page)).chain(plots).collect())
}

/// Puts the older revision of each title first.
pub(super) fn ordered<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<&'a Figure> {
    let mut figures: Vec<&Figure> = figures.collect();
    let titles: Vec<&str> = figures.iter().map(|figure| &*figure.title).collect();
    figures.sort_by_key(|figure| (titles.iter().position(|title| *title == figure.title), &figure.revision));
    figures
}

pub(super) fn is_growth(figure: &Figure) -> bool {
    figure.id.starts_with("growth-")
}

/// Replaces the text between the marks of a name.
fn replaced(page: &str, name: &str, text: &str) -> Result<String, Error> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.with_context(|| format!("{PAGE} has no marks of `{name}`"))?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

/// The row of a commit; none for results without one.
fn commit(name: &str, commit: Option<&Commit>) -> String {
    commit.map_or_else(String::new, |commit| format!("| {name} | {commit} |\n"))
}

fn machine(results: &Results) -> String {
    let Machine { cores, processor, system, rust, load, busy_before_calls } = &results.machine;
    let mut text = format!(
        "| property | value |\n|---|---|\n| date | {} |\n{}| date of the builds | {} |\n{}\
         | processor | {processor}, {cores} cores |\n| system | {system} |\n| compiler | {rust} |\n| rounds of calls | {} |\n\
         | load average before the run | {load:.2} |\n",
        results.date,
        commit("commit", results.commit.as_ref()),
        results.builds.date,
        commit("commit of the builds", results.builds.commit.as_ref()),
        results.rounds
    );
    if let Some(busy) = busy_before_calls {
        text += &format!("| busy cores before the calls | {busy:.2} |\n");
    }
    for (name, version) in &results.versions {
        text += &format!("| {name} | {version} |\n");
    }
    text
}

/// The table beside the other libraries: both revisions of a figure share a row.
fn table(results: &Results) -> String {
    let mut text =
        "| measured | 2025-11-25 | 2026-07-28 | rmcp | tower-mcp | bare limit | aim |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    let figures = ordered(results.figures.iter().filter(|figure| !is_growth(figure)));
    let mut titles: Vec<&str> = Vec::new();
    for figure in &figures {
        if !titles.contains(&&*figure.title) {
            titles.push(&figure.title);
        }
    }
    for title in titles {
        let of_title: Vec<&Figure> = figures.iter().copied().filter(|figure| figure.title == title).collect();
        let Some(first) = of_title.first() else { continue };
        let shown = |figure: &Figure| {
            let value = format!("{} {}", figure.shown(), figure.unit);
            format!("{}{}", value.trim(), marks(figure))
        };
        let of_revision = |date: &str| {
            of_title.iter().find(|figure| figure.revision.as_deref() == Some(date)).map(|figure| shown(figure))
        };
        let (session, stateless) = match first.revision {
            Some(_) => (of_revision("2025-11-25"), of_revision("2026-07-28")),
            None => (Some(shown(first)), Some(shown(first))),
        };
        let dash = || DASH.to_owned();
        let (session, stateless) = (session.unwrap_or_else(dash), stateless.unwrap_or_else(dash));
        let peers = LIBRARIES.map(|library| of_revisions(&of_title, |figure| figure.peers.get(library).copied()));
        let rate = of_revisions(&of_title, |figure| figure.rates.get(BARE).map(|rate| rate.round()));
        let bare = match of_revisions(&of_title, |figure| figure.peers.get(BARE).copied()) {
            bare if bare != DASH => bare,
            _ if rate != DASH => format!("{rate} calls/s"),
            _ => DASH.to_owned(),
        };
        let aim =
            first.aim.text(&first.unit).replace("<=", "≤").replace(">=", "≥").replace('-', "–").replace(" x ", " × ");
        text += &format!("| {title} | {session} | {stateless} | {} | {} | {bare} | {aim} |\n", peers[0], peers[1]);
    }
    text + &legend(&figures) + &repeated(&figures)
}

/// The sentence that names the rows of a second measurement; none without such rows.
fn repeated(figures: &[&Figure]) -> String {
    let name = |figure: &Figure| match &figure.revision {
        Some(revision) => format!("{} ({revision})", figure.title),
        None => figure.title.clone(),
    };
    let names: Vec<String> = figures.iter().copied().filter(|figure| figure.repeated).map(name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("\nMeasured twice, because the cores had no common cache at first: {}.\n", names.join("; "))
}

/// The form of each library that made the most calls, if the library has several forms or if only another form than the first one ran.
fn fastest_forms(figure: &Figure) -> String {
    let forms = LIBRARIES.map(|library| {
        let is_of = |form: &str| form == library || form.starts_with(&format!("{library}, "));
        let measured: Vec<_> = figure.rates.iter().filter(|(form, _)| is_of(form)).collect();
        let (form, _) = measured.iter().max_by(|(_, first), (_, second)| first.total_cmp(second))?;
        let name = form.strip_prefix(&format!("{library}, ")).unwrap_or("first form");
        (measured.len() > 1 || *form != library).then(|| format!("{library}: {name}"))
    });
    let forms: Vec<String> = forms.into_iter().flatten().collect();
    if forms.is_empty() { DASH.to_owned() } else { forms.join("; ") }
}

/// The least and the largest ratio of the rounds, the ratio of the CPU times, and the forms of the other libraries.
fn of_rounds(results: &Results) -> String {
    let figures = ordered(results.figures.iter().filter(|figure| !is_growth(figure)));
    let rows: Vec<String> = figures
        .iter()
        .filter_map(|figure| {
            let (least, most) = figure.spread?;
            let cpu = figure.cpu.map_or_else(|| DASH.to_owned(), number);
            let revision = figure.revision.as_deref().unwrap_or(DASH);
            let (title, value, forms) = (&figure.title, figure.shown(), fastest_forms(figure));
            let (least, most) = (number(least), number(most));
            Some(format!("| {title} | {revision} | {value} | {least} to {most} | {cpu} | {forms} |\n"))
        })
        .collect();
    if rows.is_empty() {
        return format!("The results of {} contain no ratios of single rounds.\n", results.date);
    }
    let head = "| measured | revision | median | rounds | CPU | fastest forms |\n|---|---|---|---|---|---|\n";
    head.to_owned() + &rows.concat()
}

/// A value that does not exist.
const DASH: &str = "–";

/// A value of each revision, the older one first. A dash replaces a value that is missing.
fn of_revisions(figures: &[&Figure], value: impl Fn(&Figure) -> Option<f64>) -> String {
    if figures.iter().all(|figure| value(figure).is_none()) {
        return DASH.to_owned();
    }
    let shown = |figure: &&Figure| value(figure).map_or_else(|| DASH.to_owned(), number);
    figures.iter().map(shown).collect::<Vec<_>>().join(" / ")
}

fn growth(figures: &[Figure]) -> String {
    let mut text = "| measured | value | aim |\n|---|---|---|\n".to_owned();
    for figure in figures.iter().filter(|figure| is_growth(figure)) {
        let aim = figure.aim.text(&figure.unit).replace("<=", "≤").replace(">=", "≥").replace('-', DASH);
        let value = format!("{} {}", figure.shown(), figure.unit);
        text += &format!("| {} | {}{} | {aim} |\n", figure.title, value.trim(), marks(figure));
    }
    let figures: Vec<&Figure> = figures.iter().filter(|figure| is_growth(figure)).collect();
    text + &legend(&figures)
}

/// The marks behind a value: of doubts, and of a missed aim.
pub(super) fn marks(figure: &Figure) -> String {
    format!("{}{}", figure.marks(), if figure.is_met() { "" } else { MISSED })
}

const MISSED: &str = " (!)";

/// The explanations of the marks of figures.
pub(super) fn explained(figures: &[&Figure]) -> Vec<String> {
    let missed = figures.iter().any(|figure| !figure.is_met()).then(|| format!("{MISSED}: the value misses its aim"));
    let doubts = [
        (
            Doubt::Limited,
            "the load, or the server of a client, used its whole core beside the bare peer. The ratio of CPU times in the mark counts",
        ),
        (Doubt::Disturbed, "other processes used the cores during the rounds"),
        (
            Doubt::Distant,
            "the cores of the servers and of the load had no common cache before the rounds of at least one program",
        ),
        (Doubt::Late, "the late work of a program did not end before its round"),
        (
            Doubt::Incomplete,
            "a form of another library failed, so the value of this library is missing, or that of another form",
        ),
    ];
    let shown = doubts.into_iter().filter(|(doubt, _)| figures.iter().any(|figure| figure.doubts.contains(doubt)));
    let doubts = shown.map(|(doubt, meaning)| format!("{}: {meaning}", doubt.mark()));
    missed.into_iter().chain(doubts).map(|line| line.trim_start().to_owned()).collect()
}

/// The explanations below a table.
fn legend(figures: &[&Figure]) -> String {
    explained(figures).iter().map(|line| format!("\n{line}.\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::figure::Aim, workspace};

    #[test]
    fn the_committed_files_show_the_committed_results() {
        let root = workspace::root();
        for (path, text) in rendered(&root).unwrap() {
            let committed = fs::read_to_string(root.join(&path)).unwrap();
            assert!(committed == text, "{} is not current: run `cargo xtask bench render`", path.display());
        }
    }

    #[test]
    fn builds_are_kept_for_the_same_compiler_and_libraries() {
        let root = workspace::root();
        let results = |commit: Option<Commit>| {
            let mut results = committed(&root).unwrap();
            results.builds.commit = commit;
            results
        };
        let commit = Commit { id: "0123456789abcdef".to_owned() };
        let mut builds = results(None).builds;
        builds.date = "1970-01-01".to_owned();
        let (origin, kept) = kept_builds(results(Some(commit.clone())), &builds, |_| Ok(false)).unwrap();
        assert_ne!(origin.date, builds.date);
        for id in ["crates-stdio", "dev-http", "release-auth", "size-oauth"] {
            assert!(kept.iter().any(|figure| figure.id == id), "{id}");
        }
        assert!(!kept.iter().any(|figure| figure.id.starts_with("http-")));
        for (origin, other, is_outdated, reason) in [
            (None, false, false, "name no commit"),
            (Some(commit.clone()), false, true, "other sources than the commit `0123456789ab`"),
            (Some(commit), true, false, "another compiler, processor or library"),
        ] {
            let mut today = results(None).builds;
            if other {
                today.versions.insert("rmcp".to_owned(), "0.0.1".to_owned());
            }
            let error = kept_builds(results(origin), &today, |_| Ok(is_outdated)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn each_missed_aim_has_an_entry() {
        let root = workspace::root();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        let (_, entries) = page.split_once("## Missed aims").unwrap();
        let (entries, _) = entries.split_once("\n## ").unwrap();
        for figure in committed(&root).unwrap().figures.iter().filter(|figure| !figure.is_met()) {
            let found =
                ENTRIES.iter().find(|(prefixes, _)| prefixes.iter().any(|prefix| figure.id.starts_with(prefix)));
            let title = found.unwrap_or_else(|| panic!("no entry for {}", figure.id)).1;
            assert!(entries.contains(&format!("- **{title}.**")), "{}: {title}", figure.id);
        }
    }

    /// The entries of "Missed aims", with the starts of the ids of their figures.
    const ENTRIES: [(&[&str], &str); 18] = [
        (&["stdio-list"], "Lists over stdio"),
        (&["http-"], "Echoes over HTTP"),
        (&["list"], "List of 1,000 tools over HTTP"),
        (&["text"], "Text of 1 MiB"),
        (&["open-32"], "initialize and DELETE"),
        (&["auth-guesses"], "Calls beside wrong passwords"),
        (&["auth-"], "Authentication"),
        (&["stdio-"], "Calls over stdio"),
        (&["client-"], "Clients"),
        (&["crates-", "size-"], "Size and crates"),
        (&["dev-", "release-"], "Cold builds"),
        (&["start-", "idle-server"], "Cold start and resident memory"),
        (&["open-stream"], "An open GET stream"),
        (&["idle-session"], "An idle session"),
        (&["growth-sessions", "growth-tasks"], "Calls beside idle sessions and stored tasks"),
        (&["growth-tools"], "Calls of a server with many tools"),
        (&["growth-connections", "growth-payload"], "Echoes over many connections, and large results"),
        (&["growth-streams", "growth-subscriptions"], "Notification of many streams"),
    ];

    #[test]
    fn the_page_shows_each_plot() {
        let root = workspace::root();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        for (path, _) in rendered(&root).unwrap() {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name == "performance.md" || page.contains(&format!("performance/{name}")), "{name}");
        }
    }

    #[test]
    fn a_publication_needs_its_page_and_its_folder() {
        let root = std::env::temp_dir().join(format!("mcp-bench-page-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("docs")).unwrap();
        assert!(check(&root).is_err_and(|error| error.to_string() == PAGE));
        let marked: String = MARKED.map(|(name, _)| format!("<!-- {name} -->\n<!-- /{name} -->\n")).concat();
        for (name, _) in MARKED {
            fs::write(root.join(PAGE), marked.replace(&format!("<!-- /{name} -->"), "")).unwrap();
            let error = check(&root).unwrap_err().to_string();
            assert!(error.contains(&format!("no marks of `{name}`")), "{error}");
        }
        fs::write(root.join(PAGE), &marked).unwrap();
        fs::write(root.join(FOLDER), "a file").unwrap();
        assert!(check(&root).is_err_and(|error| error.to_string() == FOLDER));
        fs::remove_file(root.join(FOLDER)).unwrap();
        fs::create_dir_all(root.join(RESULTS)).unwrap();
        assert!(check(&root).is_err_and(|error| error.to_string() == RESULTS));
        fs::remove_dir(root.join(RESULTS)).unwrap();
        check(&root).unwrap();
        assert_eq!(fs::read_to_string(root.join(PAGE)).unwrap(), marked);
        assert_eq!(fs::read_dir(root.join(FOLDER)).unwrap().count(), 0, "a check leaves no file");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn each_library_has_a_version() {
        let root = std::env::temp_dir().join(format!("mcp-bench-versions-{}", std::process::id()));
        let lock = root.join(PEERS).join("Cargo.lock");
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let package = |name: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.2.3\"\n");
        fs::write(&lock, LIBRARIES.map(package).concat()).unwrap();
        assert_eq!(versions(&root).unwrap().len(), LIBRARIES.len());
        fs::write(&lock, package(LIBRARIES[0])).unwrap();
        let error = versions(&root).unwrap_err().to_string();
        assert!(error.ends_with(&format!("no version of {}", LIBRARIES[1])), "{error}");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn revisions_share_a_row() {
        let mut figures = Vec::new();
        for (revision, value, rmcp, doubts) in
            [("2026-07-28", 0.7, 0.3, &[] as &[Doubt]), ("2025-11-25", 0.9, 0.4, &[Doubt::Limited])]
        {
            let mut figure = Figure::new("http-32", "HTTP echo", value, "", Aim::AtLeast(0.8));
            figure.revision = Some(revision.to_owned());
            figure.peers.insert("rmcp".to_owned(), rmcp);
            figure.rates.insert("bare".to_owned(), value * 10_000.0);
            figure.rates.insert("rmcp".to_owned(), 3_000.0);
            figure.rates.insert("rmcp, one thread".to_owned(), if doubts.is_empty() { 2_000.0 } else { 4_000.0 });
            figure.doubts = doubts.to_vec();
            figure.cpu = Some(value - 0.02);
            figure.spread = Some((value - 0.05, value + 0.1));
            figures.push(figure);
        }
        let mut start = Figure::new("start", "start", 3.0, "ms", Aim::None);
        start.revision = Some("2025-11-25".to_owned());
        start.peers.insert("bare".to_owned(), 1.6);
        figures.push(start);
        figures.push(Figure::new("size", "size", 5.0, "MB", Aim::AtMost(6.0)));
        figures.push(Figure::new("growth-a", "growth", 1.0, "", Aim::AtMost(1.15)));
        let machine = Machine { busy_before_calls: Some(0.25), ..Machine::read(Path::new("."), 0.5) };
        let (date, rounds) = (today(), "3 rounds of 2 s".to_owned());
        let (versions, series) = (BTreeMap::new(), Vec::new());
        let commit = Some(Commit { id: "0123456789abcdef".to_owned() });
        let builds = Builds { date: "2026-11-28".to_owned(), ..Builds::new(&machine, &versions, None) };
        let mut results = Results { date, commit, builds, machine, rounds, versions, figures, series };
        assert!(!table(&results).contains("twice"));
        results.figures[0].repeated = true;
        let text = table(&results);
        assert!(text.ends_with("at first: HTTP echo (2026-07-28).\n"), "{text}");
        let row = "| HTTP echo | 0.90 (limited: 0.88) | 0.70 (!) | 0.40 / 0.30 | – | 9000 / 7000 calls/s | ≥ 0.8 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("\n(limited): the load") && text.contains("\n(!): the value"), "{text}");
        assert!(!text.contains("(disturbed)"), "{text}");
        assert!(text.contains("| size | 5.00 MB | 5.00 MB | – | – | – | ≤ 6 MB |"), "{text}");
        assert!(text.contains("| start | 3.00 ms | – | – | – | 1.60 | – |"), "{text}");
        assert!(growth(&results.figures).contains("| growth | 1.00 | ≤ 1.15 |"));
        let text = of_rounds(&results);
        let rows = "| HTTP echo | 2025-11-25 | 0.90 | 0.85 to 1.00 | 0.88 | rmcp: one thread |\n\
                    | HTTP echo | 2026-07-28 | 0.70 | 0.65 to 0.80 | 0.68 | rmcp: first form |\n";
        assert!(text.ends_with(rows), "{text}");
        let before = Results { figures: Vec::new(), ..results };
        assert!(of_rounds(&before).contains("no ratios of single rounds"));
        let text = super::machine(&before);
        for row in [
            "| compiler | Rust 1.",
            "| commit | `0123456789ab` |\n| date of the builds | 2026-11-28 |\n| processor |",
            "| rounds of calls | 3 rounds of 2 s |",
            "| load average before the run | 0.50 |\n| busy cores before the calls | 0.25 |",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
    }
}
