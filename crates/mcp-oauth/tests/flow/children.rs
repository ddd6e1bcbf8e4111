//! Processes of their own that log in and refresh with one store of files. A child process is this test program.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use mcp_oauth::{Answer, Error, FileStore, Login, OAuth, StoreLock, TokenStore, UserAgent};
use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use tokio::sync::mpsc;
use url::Url;

use crate::{
    common::{Site, User, World},
    stores::Dir,
};

/// The endpoint of the server and the directory of the store of a child process.
const ENDPOINT: &str = "MCP_OAUTH_TEST_ENDPOINT";
const DIR: &str = "MCP_OAUTH_TEST_DIR";
/// The [`Point`] at which a child process stops.
const POINT: &str = "MCP_OAUTH_TEST_POINT";
/// The start of each line of a child process for its parent.
const MARK: &str = "> ";
/// The line of a child process that stopped.
pub(crate) const STOPPED: &str = "stopped";
/// The longest wait for a line of a child process.
const LIMIT: Duration = Duration::from_secs(60);

/// A child process. It ends with its drop.
pub(crate) struct Child {
    process: std::process::Child,
    stdin: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Child {
    /// Starts a client of a server. It stops at a point, if there is one.
    pub(crate) fn start(site: &Site, dir: &Path, point: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "children::a_process_serves_the_lines_of_its_parent", "--nocapture"]);
        command.env(ENDPOINT, site.endpoint.as_str()).env(DIR, dir);
        if let Some(point) = point {
            command.env(POINT, point);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The first line follows a text of the test program.
                if let Some(at) = line.find(MARK) {
                    let _ = sender.send(line[at + MARK.len()..].to_owned());
                }
            }
        });
        Self { process, stdin, lines }
    }

    /// Requests a call. The server rejects the token `revoked`.
    pub(crate) fn call(&mut self, revoked: &str) {
        writeln!(self.stdin, "{revoked}").unwrap();
    }

    /// Returns the next line of the process: the token of a call, or [`STOPPED`].
    pub(crate) async fn line(&mut self) -> String {
        tokio::time::timeout(LIMIT, self.lines.recv()).await.unwrap().expect("the process still runs")
    }

    /// Ends the process at once: on Unix with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A moment of the work on tokens: `page`, or `before save tokens 1` for the first save of a record of tokens.
#[derive(Debug, Default)]
struct Point {
    text: Option<String>,
    count: AtomicUsize,
}

impl Point {
    /// Stops this process if it is at the point. The parent then kills it.
    fn reach(&self, when: &str, operation: &str, key: &str) {
        let Some((point, number)) = self.text.as_deref().and_then(|text| text.rsplit_once(' ')) else { return };
        let kind = key.split('/').next().unwrap_or_default();
        let is_reached = point == format!("{when} {operation} {kind}").trim();
        if is_reached && self.count.fetch_add(1, Ordering::SeqCst) + 1 == number.parse::<usize>().unwrap() {
            stop();
        }
    }
}

fn stop() -> ! {
    let mut out = std::io::stdout();
    writeln!(out, "{MARK}{STOPPED}").unwrap();
    loop {
        std::thread::park();
    }
}

/// A store of files whose process stops at a point.
struct StoppingStore {
    files: FileStore,
    point: Point,
}

impl StoppingStore {
    async fn run<T>(&self, operation: &str, key: &str, run: impl Future<Output = T>) -> T {
        self.point.reach("before", operation, key);
        let result = run.await;
        self.point.reach("after", operation, key);
        result
    }
}

impl TokenStore for StoppingStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(self.run("load", key, self.files.load(key)))
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.run("save", key, self.files.save(key, record)))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.run("remove", key, self.files.remove(key)))
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        Box::pin(self.run("lock", key, self.files.lock(key, limit)))
    }
}

/// A user who takes a short time, so that other processes need the login too.
struct ChildUser {
    user: User,
    point: Point,
}

impl UserAgent for ChildUser {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        self.point.reach("page", "", "");
        self.user.open(login)
    }
}

fn point() -> Point {
    Point { text: std::env::var(POINT).ok(), count: AtomicUsize::new(0) }
}

#[tokio::test]
async fn a_process_serves_the_lines_of_its_parent() {
    let user = User { delay: Duration::from_millis(100), ..User::default() };
    let (Ok(endpoint), Some(dir)) = (std::env::var(ENDPOINT), std::env::var_os(DIR)) else {
        // Without a parent, the test checks that a child process works.
        let (world, dir) = (World::new().await, Dir::new("child"));
        let mut child = Child::start(&world.site, &dir.0, None);
        child.call("");
        let token = child.line().await;
        child.call(&token);
        assert_ne!(child.line().await, token);
        return;
    };
    let site = Site::at(Url::parse(&endpoint).unwrap());
    let store = StoppingStore { files: FileStore::open(dir).unwrap(), point: point() };
    let auth = OAuth::builder().client_name("Test").user_agent(ChildUser { user, point: point() }).store(store).build();
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    while let Some(revoked) = lines.recv().await {
        site.revoke(&revoked);
        println!("{MARK}{}", site.token(&auth).await);
    }
}
