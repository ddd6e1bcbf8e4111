//! Exit codes: signals, and a closed stdout or stderr.

use std::process::Stdio;
#[cfg(unix)]
use std::{io::Read as _, process::Command};

use super::{
    Http, mcp,
    process::{Lines, finish, signal, wait},
    text,
};
#[cfg(unix)]
use super::{fixture, process::TIMEOUT, tempdir};

#[test]
fn each_signal_has_its_own_exit_code() {
    let http = Http::start();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut listening =
            mcp().args(["listen", &http.url]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(Lines::of(listening.stderr.take().unwrap()).next().is_some());
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
    let mut stderr = Lines::of(calling.stderr.take().unwrap());
    // `mcp` lists the tools, then it reads the arguments.
    assert!(stderr.any(|line| line.starts_with("<-") && line.contains("\"tools\":[")));
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
        let output = finish(mcp().args(line.clone()).stdout(closed()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(code), ""), "{:?}", line.collect::<Vec<_>>());
    }
    for (line, code) in
        [("tools URL nothing", 2), ("call URL fail", 1), ("tools URL --trace", 0), ("tools http://127.0.0.1:1/", 3)]
    {
        let line = line.split(' ').map(|word| if word == "URL" { http.url.as_str() } else { word });
        let output = finish(mcp().args(line.clone()).stdout(Stdio::null()).stderr(closed()).spawn().unwrap());
        assert_eq!(output.status.code(), Some(code), "{:?}", line.collect::<Vec<_>>());
    }
}
