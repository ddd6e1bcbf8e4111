//! Rewrites a transcript to what the server says now.

use std::time::Duration;

use mcp_server_core::Server;
use tokio::time::timeout;

use super::{
    Failure, Over, Transcript, layout,
    line::Heard,
    parse::{Expected, Item, ItemKind},
    replay::Runner,
};

/// How long the server may be silent before it has said all: nobody can know, so what comes later is for the replay to
/// find missing.
const SILENCE: Duration = Duration::from_millis(200);

pub(super) async fn record(transcript: &Transcript, server: &Server, over: Over) -> Result<String, Failure> {
    let mut runner = Runner::new(transcript, server, over);
    let mut out = String::new();
    let mut items = &transcript.items[..];
    while !items.is_empty() {
        let (block, rest) = items.split_at(block_length(items));
        write_block(&mut runner, block, &mut out).await?;
        items = rest;
    }
    Ok(out)
}

/// A block is what the client sends at once, and what the server answers. It ends with its paragraph, or where the client
/// speaks again.
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

async fn write_block(runner: &mut Runner<'_>, block: &[Item], out: &mut String) -> Result<(), Failure> {
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
    let mut heard = hear(runner, block).await?.into_iter();
    let mut expected: Vec<&Expected> = block.iter().filter_map(expected_of).collect();
    let is_free = expected.iter().any(|expected| expected.is_free);
    if expected.is_empty() {
        // Nothing was recorded yet: the answers go behind what was sent last.
        for (index, item) in block.iter().enumerate() {
            push(out, &item.text);
            if Some(index) == last_sent {
                heard.by_ref().for_each(|heard| push(out, &line(runner, &mut expected, is_free, &heard)));
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
        if let Some(heard) = heard.next() {
            let written = line(runner, &mut expected, is_free, &heard);
            push(out, if is_same(item, &written) { &item.text } else { &written });
        }
        if Some(index) == last {
            heard.by_ref().for_each(|heard| push(out, &line(runner, &mut expected, is_free, &heard)));
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

/// What the server answers: until every request is answered that was not cancelled, and from then on until it is silent.
async fn hear(runner: &mut Runner<'_>, block: &[Item]) -> Result<Vec<Heard>, Failure> {
    let line = block.first().map(|item| item.line);
    let mut all = Vec::new();
    loop {
        let waiting_for = format!("and did not answer {}", runner.unanswered());
        if runner.is_answered() {
            match timeout(SILENCE, runner.hear(line, &waiting_for)).await {
                Ok(Ok(Some(heard))) => all.push(heard),
                Ok(Ok(None)) | Err(_) => return Ok(all),
                Ok(Err(failure)) => return Err(failure),
            }
        } else {
            match runner.hear(line, &waiting_for).await? {
                Some(heard) => all.push(heard),
                None => return Err(runner.failure(line, format!("the server has ended, {waiting_for}"))),
            }
        }
    }
}

/// The line for a message. Of free lines the first that fits is used up, else the next one lends its placeholders.
fn line(runner: &mut Runner<'_>, expected: &mut Vec<&Expected>, is_free: bool, heard: &Heard) -> String {
    let is_answer = |expected: &&Expected| expected.message.get("id") == heard.message.get("id");
    let at = if is_free { expected.iter().position(is_answer) } else { None };
    let pattern = (!expected.is_empty()).then(|| expected.remove(at.unwrap_or_default()));
    let merged = runner.names.merge(pattern.map(|pattern| &pattern.message), &heard.message);
    let mark = if is_free { "~" } else { "<" };
    layout::message(&format!("{mark}{}", heard.status_mark(pattern.map(|pattern| pattern.status))), &merged)
}

/// Whether a line says what is there already, only in another layout.
fn is_same(item: &Item, written: &str) -> bool {
    let parsed = super::parse::items("", written);
    match (expected_of(item), parsed.as_deref()) {
        (Some(old), Ok([new])) => expected_of(new)
            .is_some_and(|new| (new.is_free, new.status, &new.message) == (old.is_free, old.status, &old.message)),
        _ => false,
    }
}
