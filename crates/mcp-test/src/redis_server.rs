//! A Redis server of its own on this machine, and a proxy that disturbs connections to it.
//!
//! A test on a machine without the program `redis-server` prints that it is skipped. If the variable `MCP_REQUIRE_REDIS` is
//! set, the test fails instead:
//!
//! ```
//! use mcp_test::redis_server::RedisServer;
//!
//! fn a_test() {
//!     let Some(server) = RedisServer::start_or_skip("a_test") else { return };
//!     assert!(server.url().starts_with("redis://127.0.0.1:"));
//! }
//! # a_test();
//! ```

mod proxy;

use std::{
    env, fmt, fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

pub use self::proxy::{Fault, FaultyProxy};

/// The program, looked up in the search path.
const PROGRAM: &str = "redis-server";
/// The variable that makes a missing program a failure.
const REQUIRED: &str = "MCP_REQUIRE_REDIS";
/// The time in which a server accepts commands after its start.
const START_TIME: Duration = Duration::from_secs(20);
/// The number of ports that are tried.
const ATTEMPTS: usize = 5;
/// The number of servers of this process.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A running server on a free port of this machine, with a directory of its own. Its drop kills the server and removes
/// the directory.
///
/// ```
/// use mcp_test::redis_server::RedisServer;
///
/// if let Some(mut server) = RedisServer::start_or_skip("the example") {
///     let before = server.address();
///     server.kill()?;
///     server.restart()?;
///     assert_eq!(server.address(), before);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RedisServer {
    child: Option<Child>,
    address: SocketAddr,
    directory: PathBuf,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Whether the program `redis-server` is in the search path.
    ///
    /// ```
    /// use mcp_test::redis_server::RedisServer;
    ///
    /// assert_eq!(RedisServer::is_installed(), RedisServer::start(&[]).is_ok());
    /// ```
    pub fn is_installed() -> bool {
        let paths = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&paths).any(|path| path.join(PROGRAM).is_file())
    }

    /// Starts a server with the arguments of a line of its configuration each, for example `--appendonly yes`. The server
    /// keeps nothing on disk if the arguments do not set it.
    ///
    /// # Errors
    /// If the program is missing, or does not accept commands in time.
    pub fn start(arguments: &[&str]) -> io::Result<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("mcp-test-redis-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let arguments = arguments.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
        let mut server = Self { child: None, address: free_address()?, directory, arguments };
        let mut attempts = 1;
        loop {
            match server.restart() {
                Ok(()) => return Ok(server),
                // Another process may have taken the port.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error),
            }
            server.address = free_address()?;
        }
    }

    /// Starts a server that keeps nothing on disk. Returns `None`, and prints the reason, if the program is not installed.
    ///
    /// # Panics
    /// If the server cannot start, or if the program is missing and the variable `MCP_REQUIRE_REDIS` is set.
    #[track_caller]
    pub fn start_or_skip(test: &str) -> Option<Self> {
        Self::start_with_or_skip(test, &[])
    }

    /// Starts a server as [`start`](Self::start) does, or skips as [`start_or_skip`](Self::start_or_skip) does.
    ///
    /// ```
    /// use mcp_test::redis_server::RedisServer;
    ///
    /// let server = RedisServer::start_with_or_skip("the example", &["--appendonly yes", "--appendfsync always"]);
    /// assert_eq!(server.is_some(), RedisServer::is_installed());
    /// ```
    ///
    /// # Panics
    /// As [`start_or_skip`](Self::start_or_skip).
    #[expect(clippy::print_stderr, reason = "a skipped test names its reason")]
    #[track_caller]
    pub fn start_with_or_skip(test: &str, arguments: &[&str]) -> Option<Self> {
        if !Self::is_installed() {
            assert!(env::var_os(REQUIRED).is_none(), "{test} requires {PROGRAM}, which is not in the search path");
            eprintln!("{test} is skipped: {PROGRAM} is not in the search path");
            return None;
        }
        match Self::start(arguments) {
            Ok(server) => Some(server),
            Err(error) => panic!("{PROGRAM} cannot be started: {error}"),
        }
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The directory of the server, for its files and for files of the test.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Kills the server without a chance to write its data (`SIGKILL`).
    ///
    /// # Errors
    /// If the process cannot be killed.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts the server again at its address, with the files of its directory.
    ///
    /// # Errors
    /// If the program is missing, or does not accept commands in time. The kind is `AddrInUse` if its port is in use.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        let log = self.directory.join("log");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--bind", "127.0.0.1", "--port", &self.address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(&self.directory)
            .arg("--logfile")
            .arg(&log)
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = self.child.insert(command.spawn()?);
        let deadline = Instant::now() + START_TIME;
        while !responds(self.address) {
            if child.try_wait()?.is_some() {
                self.child = None;
                let log = fs::read_to_string(&log).unwrap_or_default();
                let in_use = log.contains("Address already in use");
                let kind = if in_use { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, format!("{PROGRAM} has exited: {}", log.trim_end())));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{PROGRAM} does not accept commands")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends a line of a command to the server, as an administrator, and returns the first bytes of its reply.
    ///
    /// ```
    /// use mcp_test::redis_server::RedisServer;
    ///
    /// if let Some(server) = RedisServer::start_or_skip("the example") {
    ///     assert_eq!(server.send("CONFIG SET maxmemory-policy allkeys-lru")?, "+OK\r\n");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the server does not respond within 5 seconds.
    pub fn send(&self, line: &str) -> io::Result<String> {
        send(self.address, line, Duration::from_secs(5))
    }

    /// Stops the process without closing its connections (`SIGSTOP`).
    ///
    /// # Errors
    /// If the process does not run.
    #[cfg(unix)]
    pub fn pause(&self) -> io::Result<()> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// Continues a stopped process (`SIGCONT`).
    ///
    /// # Errors
    /// If the process does not run.
    #[cfg(unix)]
    pub fn resume(&self) -> io::Result<()> {
        self.signal(rustix::process::Signal::CONT)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        let child = self.child.as_ref().ok_or_else(|| io::Error::other("the server does not run"))?;
        Ok(rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)?)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A test that fails leaves no server and no files. The result of the test is more important than this error.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

/// Whether the server accepts commands. A server that loads its data or requires a password responds differently.
fn responds(address: SocketAddr) -> bool {
    let reply = send(address, "PING", Duration::from_secs(1));
    reply.is_ok_and(|reply| reply.starts_with("+PONG") || reply.starts_with("-NOAUTH"))
}

fn send(address: SocketAddr, line: &str, limit: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(format!("{line}\r\n").as_bytes())?;
    let mut reply = [0; 16 * 1024];
    let len = stream.read(&mut reply)?;
    Ok(String::from_utf8_lossy(reply.get(..len).unwrap_or_default()).into_owned())
}
