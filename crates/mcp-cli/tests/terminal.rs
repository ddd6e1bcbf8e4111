//! Questions at a terminal: one after the other, and no longer than somebody waits for the answer.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Http, endings, mcp, tempdir};

/// How long anything may take here.
const LONG: Duration = Duration::from_secs(20);

/// The program, at a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    shown: Receiver<Vec<u8>>,
    /// What was shown and not looked for yet.
    rest: String,
}

impl Terminal {
    fn run(server: &str, line: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let child = mcp()
            .args(line.split(' ').map(|word| if word == "URL" { server } else { word }))
            .envs([("NO_COLOR", "1".into()), ("TERM", "xterm".into()), ("XDG_STATE_HOME", tempdir().into_os_string())])
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let (tell, shown) = channel();
        let mut screen = File::from(master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the last program at the terminal is an error here.
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                if tell.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard: File::from(master), shown, rest: String::new() }
    }

    /// Waits until this is shown, and gives what was shown before it.
    fn sees(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some((before, rest)) = self.rest.split_once(text) {
                let before = before.to_owned();
                self.rest = rest.to_owned();
                return before;
            }
            let left = LONG.saturating_sub(start.elapsed());
            let Ok(more) = self.shown.recv_timeout(left) else { panic!("no `{text}` in `{}`", self.rest) };
            self.rest.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    fn interrupt(&mut self) {
        assert!(endings::signal(&mut self.child, "INT"));
    }

    fn ended(&mut self) -> ExitStatus {
        endings::ended(&mut self.child)
    }
}

#[test]
fn questions_come_one_after_the_other() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::run(&http.url, &format!("call URL both --revision {version}"));
        terminal.sees("fixture asks: ");
        let before = terminal.sees("name: ");
        let is_first = before.contains("The first?");
        terminal.types(if is_first { "Ada\n" } else { "Ben\n" });
        let between = terminal.sees("fixture asks: ");
        assert!(!between.contains("name: "), "{between}");
        terminal.sees("name: ");
        terminal.types(if is_first { "Ben\n" } else { "Ada\n" });
        terminal.sees("Ada and Ben");
        assert_eq!(terminal.ended().code(), Some(0), "{version}");
    }
}

#[test]
fn a_question_ends_with_whoever_wants_to_know() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL greet");
    terminal.sees("name: ");
    terminal.types("\u{4}");
    terminal.sees("declined");
    assert_eq!(terminal.ended().code(), Some(1));

    let mut terminal = Terminal::run(&http.url, "call URL greet");
    terminal.sees("name: ");
    terminal.interrupt();
    terminal.sees("(the question is over)");
    assert_eq!(terminal.ended().code(), Some(130));
}

#[test]
fn a_question_that_is_taken_back_ends_before_the_result_is_shown() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL hurry --revision 2025-11-25");
    terminal.sees("name: ");
    terminal.types("half an ans");
    super::check(&http.url, "call URL release", 0, "released", "");
    let before = terminal.sees("(the question is over)");
    assert!(!before.contains("hurried"), "{before}");
    terminal.sees("hurried");
    assert_eq!(terminal.ended().code(), Some(0));
}

#[test]
fn an_interrupt_in_a_shell_ends_the_question_and_not_the_shell() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::run(&http.url, &format!("shell URL --revision {version}"));
        terminal.sees("mcp> ");
        terminal.types("call greet\n");
        terminal.sees("name: ");
        terminal.types("Ad");
        terminal.sees("Ad");
        terminal.interrupt();
        terminal.sees("(the question is over)");
        terminal.sees("mcp> ");
        terminal.types("call add a=1 b=2\n");
        terminal.sees("{\"sum\":3}");
        terminal.sees("mcp> ");
        terminal.types("\u{4}");
        assert_eq!(terminal.ended().code(), Some(0), "{version}");
    }
}

#[test]
fn nobody_is_sent_to_a_page_unasked() {
    let http = Http::start();
    let mut terminal = Terminal::run(&http.url, "call URL visit");
    let said = terminal.sees("[y/n] ");
    assert!(said.contains("this page of xn--bnk-5cd.example in a browser"), "{said}");
    assert!(said.contains("http://bank.com@xn--bnk-5cd.example/"), "{said}");
    for warning in ["not encrypted", "before the @", "other scripts"] {
        assert!(said.contains(warning), "{warning}: {said}");
    }
    // Enter alone is no consent.
    terminal.types("\n");
    terminal.sees("[y/n] ");
    terminal.types("n\n");
    terminal.sees("declined");
    assert_eq!(terminal.ended().code(), Some(1));
}

#[test]
fn the_model_is_asked_with_consent() {
    let http = Http::start();
    for (answer, code, said) in [("n", 4, "the user rejected the request"), ("y", 0, "six times seven")] {
        let mut terminal = Terminal::run(&http.url, "call URL think --sample-with cat");
        let shown = terminal.sees("[y/n/a]");
        assert!(shown.contains("What is six times seven?"), "{shown}");
        terminal.types(&format!("{answer}\n"));
        terminal.sees(said);
        assert_eq!(terminal.ended().code(), Some(code));
    }
}
