//! A scripted server on the other end of a pair of pipes in memory, framed as on stdio.

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

/// How much a pipe holds, as on Linux.
const PIPE: usize = 64 << 10;
/// How many messages wait for a client that does not read.
const QUEUE: usize = 64;

impl Connect for ScriptedServer {
    /// # Panics
    /// When the script holds what can only be done over HTTP.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        assert!(!self.script.needs_http(), "the script answers with an HTTP status: use `listen`");
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            tokio::spawn(serve(Arc::clone(&self.script), ours));
            let (reader, writer) = split(theirs);
            Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        "a scripted server".to_owned()
    }
}

/// What a reply writes in one piece, so that replies which are played side by side do not mix.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Large {
        head: String,
        bytes: usize,
        tail: String,
    },
    /// The end of the connection, after what comes before.
    End,
}

/// Writes a text of so many bytes between two others, a little at a time.
pub(super) async fn write_large(
    writer: &mut (impl AsyncWrite + Unpin),
    head: &str,
    bytes: usize,
    tail: &str,
) -> io::Result<()> {
    writer.write_all(head.as_bytes()).await?;
    let some = [b'x'; 8 << 10];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(some.len());
        writer.write_all(&some[..now]).await?;
        left -= now;
    }
    writer.write_all(tail.as_bytes()).await
}

async fn serve(script: Arc<Script>, pipe: DuplexStream) {
    let _open = script.open();
    let crashed = script.crashed();
    let (reader, writer) = split(pipe);
    let (queue, pieces) = mpsc::channel(QUEUE);
    tokio::select! {
        () = crashed => {}
        () = read(&script, reader, queue) => {}
        _ = write(writer, pieces) => {}
    }
}

/// Reads until the client leaves. Replies are played at once and side by side.
async fn read(script: &Script, reader: impl AsyncRead + Unpin, queue: mpsc::Sender<Piece>) {
    let mut lines = BufReader::new(reader).lines();
    let mut playing = JoinSet::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
        let reply = script.take(&message);
        playing.spawn(play(reply, message["id"].clone(), queue.clone()));
    }
}

async fn play(reply: Reply, request: Value, queue: mpsc::Sender<Piece>) {
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
                // An error says that the connection has ended, here and below.
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
