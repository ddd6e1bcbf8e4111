//! How the program ends: by a signal, and when nobody reads what it prints.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{Http, fixture, mcp, tempdir, text};

/// How long anything may take here.
const LONG: Duration = Duration::from_secs(20);

/// Sends a signal; false on a system without `kill`.
pub(crate) fn signal(child: &mut Child, name: &str) -> bool {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    let is_sent = sent.is_ok_and(|status| status.success());
    if !is_sent {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    is_sent
}

/// Waits for the end, for a while.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > LONG {
            child.kill().unwrap();
            panic!("the program does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_ends_it_with_its_own_code() {
    let http = Http::start();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut listening =
            mcp().args(["listen", &http.url]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(listening.stderr.take().unwrap()).lines();
        stderr.next().unwrap().unwrap();
        if signal(&mut listening, name) {
            assert_eq!(ended(&mut listening).code(), Some(code), "{name}");
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_while_it_reads_and_its_server_too() {
    let directory = tempdir();
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A server that ends by neither the end of its input nor a signal.
    let script = format!("trap '' TERM; exec 9>{}; {}; while :; do sleep 1; done", pipe.display(), fixture().display());
    let mut calling = mcp()
        .args(["call", "add", "-", "--trace", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (told, server_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::fs::File::open(pipe).unwrap().read_to_end(&mut Vec::new()).unwrap();
        told.send(()).unwrap();
    });
    let mut stderr = BufReader::new(calling.stderr.take().unwrap()).lines();
    // Once the tools are listed, it reads its arguments.
    let listed =
        stderr.by_ref().map_while(Result::ok).find(|line| line.starts_with("<-") && line.contains("\"tools\":["));
    assert!(listed.is_some());
    assert!(server_ended.try_recv().is_err());
    assert!(signal(&mut calling, "INT"));
    assert_eq!(ended(&mut calling).code(), Some(130));
    server_ended.recv_timeout(LONG).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn it_ends_quietly_when_nobody_reads_what_it_prints() {
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
