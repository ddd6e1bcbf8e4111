//! Input requests at a terminal: their order, their answers and their cancellation.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Instant,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::{
    Http, mcp,
    process::{self, TIMEOUT},
    tempdir,
};

/// The program `mcp` at a pseudo-terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    /// Output that no call of `expect` has consumed.
    rest: String,
}

impl Terminal {
    fn run(server: &str, line: &str) -> Self {
        Self::run_with(server, line, &[("NO_COLOR", "1")])
    }

    pub(crate) fn run_with(server: &str, line: &str, variables: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let child = mcp()
            .args(line.split(' ').map(|word| if word == "URL" { server } else { word }))
            .envs([("TERM", "xterm".into()), ("XDG_STATE_HOME", tempdir().into_os_string())])
            .envs(variables.iter().copied())
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let mut screen = File::from(master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A pseudo-terminal reports an error when its last program exits.
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard: File::from(master), output, rest: String::new() }
    }

    /// Waits for this text, and returns the output before it.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some((before, rest)) = self.rest.split_once(text) {
                let before = before.to_owned();
                self.rest = rest.to_owned();
                return before;
            }
            let left = TIMEOUT.saturating_sub(start.elapsed());
            let Ok(more) = self.output.recv_timeout(left) else { panic!("no `{text}` in `{}`", self.rest) };
            self.rest.push_str(&String::from_utf8_lossy(&more));
        }
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn interrupt(&mut self) {
        assert!(process::signal(&mut self.child, "INT"));
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        process::wait(&mut self.child)
    }
}

#[test]
fn shows_input_requests_in_sequence() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::run(&http.url, &format!("call URL both --revision {version}"));
        terminal.expect("fixture asks: ");
        let before = terminal.expect("name: ");
        let is_first = before.contains("The first?");
        terminal.type_text(if is_first { "Ada\n" } else { "Ben\n" });
        let between = terminal.expect("fixture asks: ");
        assert!(!between.contains("name: "), "{between}");
        terminal.expect("name: ");
        terminal.type_text(if is_first { "Ben\n" } else { "Ada\n" });
        terminal.expect("Ada and Ben");
        assert_eq!(terminal.wait().code(), Some(0), "{version}");
    }
}

#[test]
fn ctrl_d_declines_and_an_interrupt_cancels_the_input_request() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL greet");
    terminal.expect("name: ");
    terminal.type_text("\u{4}");
    terminal.expect("declined");
    assert_eq!(terminal.wait().code(), Some(1));

    let mut terminal = Terminal::run(&http.url, "call URL greet");
    terminal.expect("name: ");
    terminal.interrupt();
    terminal.expect("(the question was cancelled)");
    assert_eq!(terminal.wait().code(), Some(130));
}

#[test]
fn a_cancelled_input_request_closes_before_the_result_is_printed() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL hurry --revision 2025-11-25");
    terminal.expect("name: ");
    terminal.type_text("half an ans");
    super::check(&http.url, "call URL release", 0, "released", "");
    let before = terminal.expect("(the question was cancelled)");
    assert!(!before.contains("hurried"), "{before}");
    terminal.expect("hurried");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn an_interrupt_in_the_shell_cancels_only_the_input_request() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::run(&http.url, &format!("shell URL --revision {version}"));
        terminal.expect("mcp> ");
        terminal.type_text("call greet\n");
        terminal.expect("name: ");
        terminal.type_text("Ad");
        terminal.expect("Ad");
        terminal.interrupt();
        terminal.expect("(the question was cancelled)");
        terminal.expect("mcp> ");
        terminal.type_text("call add a=1 b=2\n");
        terminal.expect("{\"sum\":3}");
        terminal.expect("mcp> ");
        terminal.type_text("\u{4}");
        assert_eq!(terminal.wait().code(), Some(0), "{version}");
    }
}

#[test]
fn opening_a_page_requires_consent_and_shows_the_risks() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL visit");
    let shown = terminal.expect("[y/n] ");
    assert!(shown.contains("this page of xn--bnk-5cd.example in a browser"), "{shown}");
    assert!(shown.contains("http://bank.com@xn--bnk-5cd.example/"), "{shown}");
    for warning in ["not encrypted", "before the @", "other scripts"] {
        assert!(shown.contains(warning), "{warning}: {shown}");
    }
    // An empty line is not consent.
    terminal.type_text("\n");
    terminal.expect("[y/n] ");
    terminal.type_text("n\n");
    terminal.expect("declined");
    assert_eq!(terminal.wait().code(), Some(1));
}

#[test]
fn a_form_without_fields_requires_consent() {
    let http = Http::start();
    for (typed, expected) in [("y\n", "deleted"), ("n\n", "kept"), ("\u{4}", "kept")] {
        let mut terminal = Terminal::run(&http.url, "call URL confirm");
        let shown = terminal.expect("[y/n] ");
        assert!(shown.contains("Delete the note?") && !shown.contains("default"), "{shown}");
        // An empty line is not consent.
        terminal.type_text("\n");
        terminal.expect("[y/n] ");
        terminal.type_text(typed);
        terminal.expect(expected);
        assert_eq!(terminal.wait().code(), Some(0), "{expected}");
    }
}

#[test]
fn sampling_requires_consent() {
    let http = Http::start();
    for (answer, code, expected) in [("n", 4, "the user rejected the request"), ("y", 0, "six times seven")] {
        let mut terminal = Terminal::run(&http.url, "call URL think --sample-with cat");
        let shown = terminal.expect("[y/n/a]");
        assert!(shown.contains("What is six times seven?"), "{shown}");
        terminal.type_text(&format!("{answer}\n"));
        terminal.expect(expected);
        assert_eq!(terminal.wait().code(), Some(code));
    }
}

#[test]
fn the_shell_completes_the_variables_of_a_template() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::run(&http.url, &format!("shell URL --revision {version}"));
        terminal.expect("mcp> ");
        terminal.type_text("read note://o");
        terminal.expect("note://o");
        // The line editor prints the rest of the completed word.
        terminal.type_text("\t");
        terminal.expect("ne ");
        terminal.type_text("\n");
        terminal.expect("note note://one");
        terminal.expect("mcp> ");
        terminal.type_text("\u{4}");
        assert_eq!(terminal.wait().code(), Some(0), "{version}");
    }
}
