//! The client: starts the server with every kind of descriptor and checks its output.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests without a harness")]

use std::{
    env,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio, id},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    process::{Pid, Signal, kill_process},
};

/// The variable that selects the server role.
pub(crate) const ROLE: &str = "MCP_TRANSPORT_TEST_SERVER";

/// The time limit of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) fn main() {
    for kind in [Kind::Pipe, Kind::Socket, Kind::NamedPipe] {
        check(kind, "the channel is clean and EOF ends the server", echo_then_eof);
        check(kind, "SIGTERM ends the server though a read is parked", echo_then_signal);
        check(kind, "SIGTERM ends the server before the first line", signal_at_once);
    }
    for kind in [Kind::Pipe, Kind::Socket, Kind::NamedPipe] {
        closed_output_ends_the_server(kind);
        println!("test {kind:?}: closed output ends the server while its input is open ... ok");
    }
    files_work_too();
    println!("test files_work_too ... ok");
}

/// The standard handles of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Pipe,
    Socket,
    NamedPipe,
}

/// A server, and our ends of its handles.
struct Server {
    child: Child,
    input: Option<File>,
    output: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
    /// The ends of the server, shared with another process.
    shared: Vec<OwnedFd>,
}

fn check(kind: Kind, name: &str, case: fn(&mut Server)) {
    let mut server = Server::start(kind);
    assert_eq!(server.errors.recv_timeout(DEADLINE).as_deref(), Ok("ready"), "{kind:?}: {name}");
    case(&mut server);
    println!("test {kind:?}: {name} ... ok");
}

fn echo_then_eof(server: &mut Server) {
    server.echo("{\"id\":1}");
    server.echo(&"x".repeat(1 << 20));
    server.echo("{\"id\":3}");
    server.input = None;
    assert!(server.wait().success());
    let errors = server.rest_of_errors();
    assert_eq!(errors.iter().filter(|line| *line == "noise of a handler").count(), 3, "{errors:?}");
    assert_eq!(errors.iter().filter(|line| *line == "noise of a child").count(), 3, "{errors:?}");
    assert_eq!(errors.last().map(String::as_str), Some("end of input"));
}

fn echo_then_signal(server: &mut Server) {
    server.echo("{\"id\":1}");
    signal_at_once(server);
}

fn signal_at_once(server: &mut Server) {
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.wait().success());
    assert_eq!(server.rest_of_errors().last().map(String::as_str), Some("terminated"));
}

/// Closes the output of the server, keeps its input open and sends nothing.
fn closed_output_ends_the_server(kind: Kind) {
    let ((their_input, input), (output, their_output)) = (channel(kind), channel(kind));
    let mut child = command().stdin(their_input).stdout(their_output).stderr(Stdio::piped()).spawn().unwrap();
    let errors = lines(child.stderr.take().unwrap());
    let mut server = Server { child, input: Some(input.into()), output: mpsc::channel().1, errors, shared: Vec::new() };
    assert_eq!(server.errors.recv_timeout(DEADLINE).as_deref(), Ok("ready"), "{kind:?}");
    let start = Instant::now();
    drop(output);
    assert!(server.wait().success());
    assert!(start.elapsed() < Duration::from_secs(5), "{kind:?}: {:?}", start.elapsed());
    assert_eq!(server.rest_of_errors(), ["output closed"]);
}

/// Files cannot be waited for at all: the server reads them to the end.
fn files_work_too() {
    let folder = Folder::new("files");
    let (input, output) = (folder.0.join("input"), folder.0.join("output"));
    fs::write(&input, "{\"id\":1}\n{\"id\":2}").unwrap();
    let status = command()
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read_to_string(&output).unwrap(), "{\"id\":1}\n{\"id\":2}\n");
}

impl Server {
    fn start(kind: Kind) -> Self {
        let ((their_input, input), (output, their_output)) = (channel(kind), channel(kind));
        let shared = vec![their_input.try_clone().unwrap(), their_output.try_clone().unwrap()];
        let mut command = command();
        command.stdin(their_input).stdout(their_output).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command holds the ends of the server. The output has no end while they are open here.
        drop(command);
        let errors = lines(child.stderr.take().unwrap());
        Self { child, input: Some(input.into()), output: lines(File::from(output)), errors, shared }
    }

    /// Sends a line and expects its echo as the next line.
    fn echo(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
        let answer = self.output.recv_timeout(DEADLINE).unwrap();
        assert!(answer == line, "{} bytes were sent, {} came back: {answer:.100}", line.len(), answer.len());
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                for fd in self.shared.drain(..) {
                    assert!(!fcntl_getfl(&fd).unwrap().contains(OFlags::NONBLOCK), "O_NONBLOCK has leaked");
                }
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn rest_of_errors(&self) -> Vec<String> {
        assert_eq!(
            self.output.recv_timeout(DEADLINE),
            Err(mpsc::RecvTimeoutError::Disconnected),
            "the output has no more bytes"
        );
        let mut errors = Vec::new();
        while let Ok(line) = self.errors.recv_timeout(DEADLINE) {
            errors.push(line);
        }
        errors
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may still run after a failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two ends of a channel: to read from, and to write to.
fn channel(kind: Kind) -> (OwnedFd, OwnedFd) {
    match kind {
        Kind::Pipe => {
            let (reader, writer) = io::pipe().unwrap();
            (reader.into(), writer.into())
        }
        Kind::Socket => {
            let (reader, writer) = UnixStream::pair().unwrap();
            (reader.into(), writer.into())
        }
        Kind::NamedPipe => {
            let folder = Folder::new("named");
            let path = folder.0.join("pipe");
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            // Each open waits for the other.
            let writer = thread::spawn({
                let path = path.clone();
                move || File::options().write(true).open(path).unwrap()
            });
            (File::open(path).unwrap().into(), writer.join().unwrap().into())
        }
    }
}

fn command() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(ROLE, "1");
    command
}

/// Reads lines on a thread, so that waiting for one has a bound.
fn lines(source: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            if sender.send(line.unwrap()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// A directory that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("mcp-transport-{}-{name}", id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
