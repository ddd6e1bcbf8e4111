//! Load over stdin and stdout: a number of calls under way, one more sent for each that is answered.

use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use crate::{
    case::{ECHO_TEXT, INITIALIZED, Revision, Template},
    error::Error,
    http::Lengths,
    peer::Peer,
};

/// The longest answer: more than a text of 1 MiB.
const LONGEST_LINE: u64 = 16 << 20;

/// Opens the session that the revision needs, if it needs one.
pub(crate) async fn open_session(peer: &mut Peer, revision: Revision) -> Result<(), Error> {
    if revision == Revision::Stateless {
        return Ok(());
    }
    peer.stdin.write_all(format!("{}\n", revision.initialize()).as_bytes()).await?;
    line(peer).await?;
    peer.stdin.write_all(format!("{INITIALIZED}\n").as_bytes()).await?;
    Ok(())
}

/// Makes one call with this id. Returns its response.
pub(crate) async fn once(peer: &mut Peer, template: &mut Template) -> Result<(Vec<u8>, u64), Error> {
    let (request, id) = template.next()?;
    peer.stdin.write_all(request).await?;
    Ok((line(peer).await?, id))
}

async fn line(peer: &mut Peer) -> Result<Vec<u8>, Error> {
    let mut line = Vec::new();
    read_line(peer, &mut line).await?;
    line.pop();
    Ok(line)
}

/// Reads a line of bounded length, with its line break.
async fn read_line(peer: &mut Peer, line: &mut Vec<u8>) -> Result<(), Error> {
    line.clear();
    (&mut peer.stdout).take(LONGEST_LINE).read_until(b'\n', line).await?;
    match line.last() {
        Some(b'\n') => Ok(()),
        _ if line.len() as u64 == LONGEST_LINE => Err(Error::new("an answer is too long")),
        _ => Err(Error::new("the server ended its output")),
    }
}

/// Keeps `depth` calls under way until the deadline; returns how many were answered. All answers together must have the
/// expected lengths.
pub(crate) async fn drive(
    peer: &mut Peer,
    template: &mut Template,
    depth: usize,
    deadline: Instant,
    expected: Lengths,
) -> Result<u64, Error> {
    let mut batch = Vec::new();
    let mut missing = 0;
    let mut calls: u64 = 0;
    let mut bytes: u64 = 0;
    let mut wanted = depth;
    loop {
        if Instant::now() < deadline {
            batch.clear();
            for _ in 0..wanted {
                batch.extend_from_slice(template.next()?.0);
            }
            missing += wanted;
            peer.stdin.write_all(&batch).await?;
        }
        if missing == 0 {
            break;
        }
        let read = peer.stdout.fill_buf().await?;
        if read.is_empty() {
            return Err(Error::new("the server ended its output"));
        }
        wanted = read.iter().filter(|byte| **byte == b'\n').count();
        let length = read.len();
        peer.stdout.consume(length);
        missing = missing.checked_sub(wanted).ok_or_else(|| Error::new("more answers than calls"))?;
        calls += wanted as u64;
        bytes += length as u64;
    }
    // Each line has a line break.
    if !expected.contain(calls, bytes.saturating_sub(calls)) {
        return Err(Error::new(format!("{calls} answers have {bytes} bytes, not {expected} each")));
    }
    Ok(calls)
}

/// Keeps `depth` calls under way until the deadline, and parses each answer. Returns the number of answers.
pub(crate) async fn drive_parsed(
    peer: &mut Peer,
    template: &mut Template,
    depth: usize,
    deadline: Instant,
) -> Result<u64, Error> {
    let (mut batch, mut line, mut missing, mut calls) = (Vec::new(), Vec::new(), 0_usize, 0);
    let mut wanted = depth;
    loop {
        // One write for all answers that were there to be read.
        if wanted > 0 && Instant::now() < deadline {
            batch.clear();
            for _ in 0..wanted {
                batch.extend_from_slice(template.next()?.0);
            }
            missing += wanted;
            wanted = 0;
            peer.stdin.write_all(&batch).await?;
        }
        if missing == 0 {
            return Ok(calls);
        }
        loop {
            read_line(peer, &mut line).await?;
            let answer: Value = serde_json::from_slice(&line)?;
            if answer["result"]["content"][0]["text"] != ECHO_TEXT {
                return Err(Error::new("a wrong answer"));
            }
            missing = missing.checked_sub(1).ok_or_else(|| Error::new("more answers than calls"))?;
            (wanted, calls) = (wanted + 1, calls + 1);
            if !peer.stdout.buffer().contains(&b'\n') {
                break;
            }
        }
    }
}
