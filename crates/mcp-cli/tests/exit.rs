//! Exit codes: signals, and a closed stdout or stderr.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{Http, fixture, mcp, tempdir, text};

/// The timeout of every wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends a signal. Returns false on a system without `kill`.
pub(crate) fn signal(child: &mut Child, name: &str) -> bool {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    let is_sent = sent.is_ok_and(|status| status.success());
    if !is_sent {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    is_sent
}

/// Waits until the program exits.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("the program does not exit");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_signal_has_its_own_exit_code() {
    let http = Http::start();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut listening =
            mcp().args(["listen", &http.url]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(listening.stderr.take().unwrap()).lines();
        stderr.next().unwrap().unwrap();
        if signal(&mut listening, name) {
            assert_eq!(wait(&mut listening).code(), Some(code), "{name}");
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_blocked_read_and_the_server_process() {
    let directory = tempdir();
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // This server ignores the end of its input and SIGTERM.
    let script = format!("trap '' TERM; exec 9>{}; {}; while :; do sleep 1; done", pipe.display(), fixture().display());
    let mut calling = mcp()
        .args(["call", "add", "-", "--trace", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, server_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::fs::File::open(pipe).unwrap().read_to_end(&mut Vec::new()).unwrap();
        sender.send(()).unwrap();
    });
    let mut stderr = BufReader::new(calling.stderr.take().unwrap()).lines();
    // `mcp` lists the tools, then it reads the arguments.
    let listed =
        stderr.by_ref().map_while(Result::ok).find(|line| line.starts_with("<-") && line.contains("\"tools\":["));
    assert!(listed.is_some());
    assert!(server_ended.try_recv().is_err());
    assert!(signal(&mut calling, "INT"));
    assert_eq!(wait(&mut calling).code(), Some(130));
    server_ended.recv_timeout(TIMEOUT).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn exits_quietly_when_stdout_or_stderr_is_closed() {
    let http = Http::start();
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for (line, code) in
        [("tools URL", 0), ("tools URL --json", 0), ("info URL", 0), ("completions bash", 0), ("--help", 0)]
    {
        let line = line.split(' ').map(|word| if word == "URL" { http.url.as_str() } else { word });
        let output = mcp().args(line.clone()).stdout(closed()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(code), ""), "{:?}", line.collect::<Vec<_>>());
    }
    for (line, code) in
        [("tools URL nothing", 2), ("call URL fail", 1), ("tools URL --trace", 0), ("tools http://127.0.0.1:1/", 3)]
    {
        let line = line.split(' ').map(|word| if word == "URL" { http.url.as_str() } else { word });
        let output = mcp().args(line.clone()).stdout(Stdio::null()).stderr(closed()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{:?}", line.collect::<Vec<_>>());
    }
}
