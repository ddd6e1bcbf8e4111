//! The transport over the pipes of a child process.

use std::{
    fmt,
    process::ExitStatus,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_protocol::RequestId;
use tokio::{process::ChildStdout, sync::watch, time::timeout};

use super::{
    group::Group,
    keeper::{self, Keeper},
    stderr::{self, LastLines},
};
use crate::{
    BoxFuture, Frame, FrameSender, Transport, TransportError, TrySendError,
    ndjson::{Ndjson, Options},
};

/// How long the transport waits for the end of the process after the end of its output, to report it as the reason.
const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(500);

/// How a process ended.
#[derive(Debug, Clone)]
pub(super) struct Exit {
    /// The exit status; `None` when the system did not report it.
    pub(super) status: Option<ExitStatus>,
    pub(super) last_lines: Arc<[String]>,
}

/// Whether the process shall run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Running,
    Not,
}

/// A transport to a child process.
pub(super) struct ChildTransport {
    lines: Ndjson<ChildStdout>,
    sender: Arc<ChildSender>,
    end: End,
}

/// The state after the last line.
enum End {
    Open,
    /// The output has ended, and the transport waits for the reason.
    Asking(BoxFuture<'static, Option<TransportError>>),
    Told,
}

impl ChildTransport {
    /// Takes the process over and starts its keeper.
    pub(super) fn new(
        mut group: Group,
        program: String,
        options: &Options,
        end_within: Duration,
    ) -> Result<Self, TransportError> {
        let streams = group.streams()?;
        let lines = Ndjson::with_options(streams.stdout, streams.stdin, options);
        let last = LastLines::default();
        let stderr = tokio::spawn(stderr::drain(streams.stderr, program.clone(), last.clone()));
        let (wanted, is_wanted) = watch::channel(Wanted::Running);
        let (ended, has_ended) = watch::channel(None);
        tokio::spawn(Keeper { group, wanted: is_wanted, ended, stderr, last: last.clone(), end_within }.run());
        let sender = ChildSender {
            lines: lines.sender(),
            wanted,
            ended: has_ended,
            program,
            last,
            longest: keeper::longest(end_within),
        };
        Ok(Self { lines, sender: Arc::new(sender), end: End::Open })
    }
}

impl Transport for ChildTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        loop {
            match &mut self.end {
                End::Open => {
                    if let Some(frame) = ready!(self.lines.poll_recv(cx)) {
                        return Poll::Ready(Some(frame));
                    }
                    self.end = End::Asking(self.sender.why_ended());
                }
                End::Asking(why) => {
                    let why = ready!(why.as_mut().poll(cx));
                    self.end = End::Told;
                    return Poll::Ready(why.map(Err));
                }
                End::Told => return Poll::Ready(None),
            }
        }
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

impl fmt::Debug for ChildTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildTransport").field("program", &self.sender.program).finish_non_exhaustive()
    }
}

struct ChildSender {
    lines: Arc<dyn FrameSender>,
    /// Asks the keeper to end the process: by its value, or by being dropped.
    wanted: watch::Sender<Wanted>,
    ended: watch::Receiver<Option<Exit>>,
    program: String,
    last: LastLines,
    /// The maximum time that ending the process takes.
    longest: Duration,
}

impl ChildSender {
    /// Returns the error for the end of the output: how the process ended. `None` when the transport ended it.
    fn why_ended(&self) -> BoxFuture<'static, Option<TransportError>> {
        if *self.wanted.borrow() == Wanted::Not {
            return Box::pin(std::future::ready(None));
        }
        // A process without output cannot serve, so it is ended.
        let wanted = self.wanted.clone();
        let (mut ended, program) = (self.ended.clone(), self.program.clone());
        Box::pin(async move {
            let exit = match timeout(EXIT_AFTER_OUTPUT, ended.wait_for(Option::is_some)).await {
                Ok(Ok(exit)) => exit.clone(),
                Ok(Err(_)) | Err(_) => None,
            };
            wanted.send_replace(Wanted::Not);
            Some(TransportError::other(Ended { program, exit }))
        })
    }
}

impl FrameSender for ChildSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        self.lines.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.lines.try_send(frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.lines.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.lines.close(id);
    }

    /// Closes the input of the process and waits until it has ended. See [`ChildProcess`](super::ChildProcess).
    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.wanted.send_replace(Wanted::Not);
        let flushed = self.lines.shutdown();
        let mut ended = self.ended.clone();
        Box::pin(async move {
            let flushed = flushed.await;
            // The keeper drops its sender when the whole group has ended.
            while ended.changed().await.is_ok() {}
            flushed
        })
    }

    fn diagnostics(&self) -> Vec<String> {
        self.last.lines()
    }

    fn shutdown_within(&self) -> Option<Duration> {
        Some(self.longest)
    }
}

/// The server process ended without a request.
#[derive(Debug)]
struct Ended {
    program: String,
    exit: Option<Exit>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(exit) = &self.exit else {
            return write!(f, "the server `{}` closed its output", self.program);
        };
        write!(f, "the server `{}` ended", self.program)?;
        if let Some(status) = exit.status {
            write!(f, " ({status})")?;
        }
        for (index, line) in exit.last_lines.iter().enumerate() {
            write!(f, "{}{line}", if index == 0 { "; its standard error ended with:\n  " } else { "\n  " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Ended {}
