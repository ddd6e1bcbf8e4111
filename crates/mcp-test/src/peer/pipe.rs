//! A scripted server over pipes in memory, with the framing of stdio.

use std::{io, sync::Arc};

use mcp_transport::{BoxFuture, Connect, Transport, TransportError, ndjson::Ndjson};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, split},
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};

use super::{
    Reply, ScriptedServer,
    reply::{Step, answer, around_large},
    script::Script,
};

/// The capacity of a pipe in bytes, as on Linux.
const PIPE_CAPACITY: usize = 64 << 10;
/// The number of pieces that wait for a client that does not read.
const QUEUE_CAPACITY: usize = 64;

impl Connect for ScriptedServer {
    /// # Panics
    ///
    /// Panics if the script has a reply that needs HTTP.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        assert!(!self.script.needs_http(), "the script answers with an HTTP status: use `listen`");
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_CAPACITY);
            tokio::spawn(serve(Arc::clone(&self.script), ours));
            let (reader, writer) = split(theirs);
            Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        "a scripted server".to_owned()
    }
}

/// A part of a reply that is written as a whole. Concurrent replies do not mix within a piece.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Large {
        head: String,
        bytes: usize,
        tail: String,
    },
    /// Closes the connection after the previous pieces.
    End,
}

/// Writes `head`, a text of `bytes` bytes and `tail`, in small parts.
pub(super) async fn write_large(
    writer: &mut (impl AsyncWrite + Unpin),
    head: &str,
    bytes: usize,
    tail: &str,
) -> io::Result<()> {
    writer.write_all(head.as_bytes()).await?;
    let filler = [b'x'; 8 << 10];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(filler.len());
        writer.write_all(&filler[..length]).await?;
        left -= length;
    }
    writer.write_all(tail.as_bytes()).await
}

async fn serve(script: Arc<Script>, pipe: DuplexStream) {
    let _open = script.open();
    let crashed = script.crashed();
    let (reader, writer) = split(pipe);
    let (queue, pieces) = mpsc::channel(QUEUE_CAPACITY);
    tokio::select! {
        () = crashed => {}
        () = read(&script, reader, queue) => {}
        _ = write(writer, pieces) => {}
    }
}

/// Reads until the client closes the connection. Replies start at once and run concurrently.
async fn read(script: &Script, reader: impl AsyncRead + Unpin, queue: mpsc::Sender<Piece>) {
    let mut lines = BufReader::new(reader).lines();
    let mut replies = JoinSet::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
        let reply = script.take(&message);
        replies.spawn(run(reply, message["id"].clone(), queue.clone()));
    }
}

async fn run(reply: Reply, request: Value, queue: mpsc::Sender<Piece>) {
    for step in reply.steps {
        let piece = match step {
            Step::Wait(time) => {
                sleep(time).await;
                continue;
            }
            Step::Answer { body, id } => line(answer(&body, &id.unwrap_or_else(|| request.clone()))),
            Step::Message(message) => line(message.to_string()),
            Step::Large(bytes) => {
                let (head, tail) = around_large(&request);
                Piece::Large { head, bytes, tail: format!("{tail}\n") }
            }
            Step::Raw(bytes) => Piece::Bytes(bytes),
            Step::CutEvent(event) => {
                // An error means that the connection is closed. The same holds below.
                let _ = queue.send(Piece::Bytes(event.as_bytes()[..event.len() / 2].to_vec())).await;
                Piece::End
            }
            Step::Close => Piece::End,
            Step::Events { .. } | Step::Status { .. } => continue,
        };
        if queue.send(piece).await.is_err() {
            return;
        }
    }
}

fn line(mut message: String) -> Piece {
    message.push('\n');
    Piece::Bytes(message.into_bytes())
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Bytes(bytes) => writer.write_all(&bytes).await?,
            Piece::Large { head, bytes, tail } => write_large(&mut writer, &head, bytes, &tail).await?,
            Piece::End => return Ok(()),
        }
        writer.flush().await?;
    }
    Ok(())
}
