//! Records a transcript from the current messages of a server.

use std::time::Duration;

use mcp_server_core::Server;
use tokio::time::timeout;

use super::{
    Transcript, TranscriptError, TransportKind,
    client::Received,
    layout,
    parse::{Expected, Item, ItemKind},
    replay::Runner,
};

/// The silence after which the recorder assumes that the server has sent all messages. The replay detects later messages.
const SILENCE: Duration = Duration::from_millis(200);

pub(super) async fn record(
    transcript: &Transcript,
    server: &Server,
    transport: TransportKind,
) -> Result<String, TranscriptError> {
    let mut runner = Runner::new(transcript, server, transport);
    let mut out = String::new();
    let mut items = &transcript.items[..];
    while !items.is_empty() {
        let (block, rest) = items.split_at(block_length(items));
        write_block(&mut runner, block, &mut out).await?;
        items = rest;
    }
    Ok(out)
}

/// Returns the length of the first block: adjacent messages of the client, and the server's messages. A block ends with its
/// paragraph, or before the client's next message.
fn block_length(items: &[Item]) -> usize {
    let mut is_answered = false;
    for (index, item) in items.iter().enumerate() {
        match &item.kind {
            ItemKind::Server(_) => is_answered = true,
            ItemKind::Client(_) if is_answered => return index,
            ItemKind::Prose if item.text.is_empty() => return index + 1,
            _ => {}
        }
    }
    items.len()
}

async fn write_block(runner: &mut Runner<'_>, block: &[Item], out: &mut String) -> Result<(), TranscriptError> {
    let mut last_sent = None;
    for (index, item) in block.iter().enumerate() {
        match &item.kind {
            ItemKind::Let(name, value) => runner.define(item, name, value)?,
            ItemKind::Client(sent) => {
                runner.send(item, sent).await?;
                last_sent = Some(index);
            }
            ItemKind::Prose | ItemKind::Server(_) => {}
        }
    }
    let mut received = receive(runner, block).await?.into_iter();
    let mut expected: Vec<&Expected> = block.iter().filter_map(expected_of).collect();
    let is_free = expected.iter().any(|expected| expected.is_free);
    if expected.is_empty() {
        // The first recording of this block: the messages follow the last message of the client.
        for (index, item) in block.iter().enumerate() {
            push(out, &item.text);
            if Some(index) == last_sent {
                received.by_ref().for_each(|message| push(out, &line(runner, &mut expected, is_free, &message)));
            }
        }
        return Ok(());
    }
    let last = block.iter().rposition(|item| expected_of(item).is_some());
    for (index, item) in block.iter().enumerate() {
        if expected_of(item).is_none() {
            push(out, &item.text);
            continue;
        }
        if let Some(message) = received.next() {
            let written = line(runner, &mut expected, is_free, &message);
            push(out, if is_same(item, &written) { &item.text } else { &written });
        }
        if Some(index) == last {
            received.by_ref().for_each(|message| push(out, &line(runner, &mut expected, is_free, &message)));
        }
    }
    Ok(())
}

fn expected_of(item: &Item) -> Option<&Expected> {
    match &item.kind {
        ItemKind::Server(expected) => Some(expected),
        _ => None,
    }
}

fn push(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Receives messages until every request has its response or is cancelled, and then until the server is silent.
async fn receive(runner: &mut Runner<'_>, block: &[Item]) -> Result<Vec<Received>, TranscriptError> {
    let line = block.first().map(|item| item.line);
    let mut all = Vec::new();
    loop {
        let context = format!("no response to {}", runner.pending_requests());
        if runner.has_no_pending_requests() {
            match timeout(SILENCE, runner.receive(line, &context)).await {
                Ok(Ok(Some(message))) => all.push(message),
                Ok(Ok(None)) | Err(_) => return Ok(all),
                Ok(Err(failure)) => return Err(failure),
            }
        } else {
            match runner.receive(line, &context).await? {
                Some(message) => all.push(message),
                None => return Err(runner.failure(line, format!("the server has closed the connection, {context}"))),
            }
        }
    }
}

/// Returns the line of a message with the placeholders of an expected line: of the same response if the lines are free,
/// otherwise of the next line.
fn line(runner: &mut Runner<'_>, expected: &mut Vec<&Expected>, is_free: bool, message: &Received) -> String {
    let is_answer = |expected: &&Expected| expected.message.get("id") == message.message.get("id");
    let at = if is_free { expected.iter().position(is_answer) } else { None };
    let pattern = (!expected.is_empty()).then(|| expected.remove(at.unwrap_or_default()));
    let merged = runner.names.merge(pattern.map(|pattern| &pattern.message), &message.message);
    let mark = if is_free { "~" } else { "<" };
    layout::message(&format!("{mark}{}", message.status_mark(pattern.map(|pattern| pattern.status))), &merged)
}

/// Returns whether the item has the same content in another layout.
fn is_same(item: &Item, written: &str) -> bool {
    let parsed = super::parse::items("", written);
    match (expected_of(item), parsed.as_deref()) {
        (Some(old), Ok([new])) => expected_of(new)
            .is_some_and(|new| (new.is_free, new.status, &new.message) == (old.is_free, old.status, &old.message)),
        _ => false,
    }
}
