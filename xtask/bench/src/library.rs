//! Other libraries beside ours: their servers and clients are programs of `xtask/bench/peers`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::io::AsyncWriteExt;

use crate::{
    case::{Call, Revision},
    error::{Error, within},
    load::{GRACE, since},
    peer::{Peer, START_LIMIT, ended_with_parent},
    report::Round,
};

/// The names of the libraries, as in the names of their programs.
const NAMES: [&str; 2] = ["rmcp", "tower-mcp"];

/// The variables that lead a client through a proxy.
const PROXIES: [&str; 4] = ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// A library with programs in a folder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Library {
    pub(crate) name: &'static str,
    folder: PathBuf,
}

/// A form of a server of a library. The result of a case is the form with the most calls in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Form {
    /// The library and the form, as in the results.
    pub(crate) name: &'static str,
    library: &'static str,
    kind: &'static str,
    /// The argument of the program.
    pub(crate) argument: Option<&'static str>,
    /// Whether a server opens sessions in 2025-11-25.
    pub(crate) has_sessions: bool,
}

impl Form {
    const fn first(library: &'static str, kind: &'static str) -> Self {
        Self { name: library, library, kind, argument: None, has_sessions: true }
    }

    const fn other(name: &'static str, library: &'static str, kind: &'static str, argument: &'static str) -> Self {
        Self { name, library, kind, argument: Some(argument), has_sessions: true }
    }

    /// Whether a case can measure the form. A form without sessions differs from the first form in 2025-11-25 only.
    pub(crate) fn suits(self, call: Call, revision: Revision) -> bool {
        self.has_sessions || (revision == Revision::Session && call != Call::Open)
    }
}

/// The forms of the servers. The first form of a kind has the name of its library.
const FORMS: [Form; 10] = [
    Form::first("rmcp", "http"),
    Form::other("rmcp, one thread", "rmcp", "http", "one-thread"),
    Form { has_sessions: false, ..Form::other("rmcp, without sessions", "rmcp", "http", "without-sessions") },
    Form::first("rmcp", "stdio"),
    Form::other("rmcp, stdio()", "rmcp", "stdio", "blocking"),
    Form::first("tower-mcp", "http"),
    Form::other("tower-mcp, one thread", "tower-mcp", "http", "one-thread"),
    Form::first("tower-mcp", "stdio"),
    Form::other("tower-mcp, without notifications", "tower-mcp", "stdio", "without-notifications"),
    Form::other("tower-mcp, blocking", "tower-mcp", "stdio", "blocking"),
];

/// Returns the library of a form.
pub(crate) fn library_of(form: &str) -> &str {
    FORMS.iter().find(|known| known.name == form).map_or(form, |known| known.library)
}

impl Library {
    /// All libraries, if a folder has programs of one of them. A measurement fails to start a program that is absent.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let libraries = NAMES.map(|name| Self { name, folder: folder.to_owned() }).to_vec();
        if !libraries.iter().any(Self::exists) {
            return Err(Error::new(format!("{} has no programs of other libraries", folder.display())));
        }
        Ok(libraries)
    }

    /// Whether a folder has a program of the library.
    fn exists(&self) -> bool {
        ["http", "stdio", "client"].into_iter().any(|kind| self.program(kind).is_ok())
    }

    /// The forms of its server of a kind: `http` or `stdio`.
    pub(crate) fn forms(&self, kind: &str) -> impl Iterator<Item = Form> {
        FORMS.into_iter().filter(move |form| form.library == self.name && form.kind == kind)
    }

    /// The program of a kind: `http`, `stdio` or `client`.
    pub(crate) fn program(&self, kind: &str) -> Result<PathBuf, Error> {
        let path = self.folder.join(format!("{}-{kind}{}", self.name, std::env::consts::EXE_SUFFIX));
        if path.exists() { Ok(path) } else { Err(Error::new(format!("{} does not exist", path.display()))) }
    }
}

/// A client of another library: a process that calls a server on request.
pub(crate) struct Client {
    peer: Peer,
}

impl Client {
    /// Starts the client with the target that it connects to, and waits for the connection.
    pub(crate) async fn start(library: &Library, revision: Revision, target: &[String]) -> Result<Self, Error> {
        let mut command = ended_with_parent(&library.program("client")?)?;
        command.arg(revision.name()).args(target).stderr(Stdio::null());
        for variable in PROXIES {
            command.env_remove(variable).env_remove(variable.to_ascii_lowercase());
        }
        let mut peer = Peer::spawn(command, None)?;
        match peer.line(START_LIMIT).await?.trim() {
            "ready" => Ok(Self { peer }),
            other => Err(Error::new(format!("the client of {} printed `{other}`", library.name))),
        }
    }

    /// Calls for a while, `at_once` calls at the same time.
    pub(crate) async fn round(&mut self, at_once: usize, length: Duration) -> Result<Round, Error> {
        let used = self.peer.used();
        let order = format!("{at_once} {}\n", length.as_millis());
        within(GRACE, "the input of a client", self.peer.stdin.write_all(order.as_bytes())).await?;
        let line = self.peer.line(length + GRACE).await?;
        let mut words = line.split_whitespace().map(str::parse);
        let (Some(Ok(calls)), Some(Ok(nanos))) = (words.next(), words.next()) else {
            return Err(Error::new(format!("a client printed `{}`, not its calls and its time", line.trim())));
        };
        let server = since(used, self.peer.used());
        Ok(Round {
            calls,
            elapsed: Duration::from_nanos(nanos),
            server,
            generator: None,
            p99: None,
            wrong_passwords: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_a_library_and_its_own_name() {
        for (number, form) in FORMS.iter().enumerate() {
            assert_eq!(library_of(form.name), form.library);
            assert!(NAMES.contains(&form.library) && form.name.starts_with(form.library), "{}", form.name);
            let is_first = |other: &Form| (other.library, other.kind) == (form.library, form.kind);
            assert_eq!(form.argument.is_none(), FORMS.iter().position(is_first) == Some(number), "{}", form.name);
        }
    }

    #[test]
    fn a_folder_with_a_program_of_one_kind_has_libraries() {
        let folder = std::env::temp_dir().join(format!("mcp-bench-libraries-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(Library::all(&folder).is_err());
        for kind in ["http", "stdio", "client"] {
            let program = folder.join(format!("rmcp-{kind}{}", std::env::consts::EXE_SUFFIX));
            std::fs::write(&program, "").unwrap();
            assert_eq!(Library::all(&folder).map(|libraries| libraries.len()).ok(), Some(NAMES.len()), "{kind}");
            std::fs::remove_file(program).unwrap();
        }
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_form_without_sessions_has_calls_of_2025_11_25_only() {
        for (call, revision, expected) in [
            (Call::Echo, Revision::Session, true),
            (Call::Text, Revision::Session, true),
            (Call::Open, Revision::Session, false),
            (Call::Echo, Revision::Stateless, false),
        ] {
            for form in FORMS {
                assert_eq!(form.suits(call, revision), form.has_sessions || expected, "{} {call:?}", form.name);
            }
        }
    }
}
