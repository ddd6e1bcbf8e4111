//! Newline-delimited JSON over a pipe in memory: framing, limits, backpressure, and the end.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{
    error::Error as _,
    future::poll_fn,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_transport::{
    Frame, FrameSender, Line, Transport, TransportError, TrySendError,
    ndjson::{Ndjson, Options},
    recv,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, empty, split};

use self::common::{Broken, Counting, Panicking, Slices};

type Peer = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// A transport, and its peer behind a pipe of `buffer` bytes.
fn pair(buffer: usize, options: &Options) -> (Ndjson<ReadHalf<DuplexStream>>, Peer) {
    let (ours, theirs) = duplex(buffer);
    let (reader, writer) = split(ours);
    (Ndjson::with_options(reader, writer, options), split(theirs))
}

/// Fails instead of hanging; under a paused clock at once.
async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap()
}

/// Ends the transport, which has no other sender. Returns the written bytes.
async fn sent(transport: Ndjson<ReadHalf<DuplexStream>>, mut reader: ReadHalf<DuplexStream>) -> String {
    let ending = async {
        let sender = transport.sender();
        let end = sender.shutdown().await;
        drop((sender, transport));
        end
    };
    let mut got = String::new();
    let (end, read) = bounded(async { tokio::join!(ending, reader.read_to_string(&mut got)) }).await;
    end.unwrap();
    read.unwrap();
    got
}

/// Polls once.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Receives until the end. An error appears as its text.
async fn receive(transport: &mut impl Transport) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(next) = recv(transport).await {
        all.push(next.map_or_else(|e| e.to_string(), |f| String::from_utf8(f.message.to_vec()).unwrap()));
    }
    all
}

/// Receives the frames of `input`, which the peer writes through a pipe of `buffer` bytes.
async fn received(buffer: usize, max_line: usize, input: &str) -> Vec<String> {
    let (mut transport, (_reader, mut writer)) = pair(buffer, &Options::default().max_line(max_line));
    let write = async move {
        writer.write_all(input.as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    bounded(async { tokio::join!(write, receive(&mut transport)).1 }).await
}

#[tokio::test]
async fn reassembles_lines_from_any_chunks() {
    for buffer in [1, 3, 64, 1 << 20] {
        let input = "{\"id\":1}\n\r\n{\"id\":2}\r\n   \n{\"id\":3}";
        assert_eq!(received(buffer, 100, input).await, ["{\"id\":1}", "{\"id\":2}", "{\"id\":3}"], "{buffer}");
        assert_eq!(received(buffer, 100, "").await, [""; 0], "{buffer}");
    }
}

#[tokio::test]
async fn reads_ten_thousand_lines_from_one_chunk() {
    let input: Vec<String> = (0..10_000).map(|n| format!("{{\"id\":{n}}}")).collect();
    assert_eq!(received(1 << 20, 1 << 10, &(input.join("\n") + "\n")).await, input);
}

#[tokio::test]
async fn reads_alternating_long_and_short_lines() {
    let input: Vec<String> = [10, 5_000, 70_000, 3, 1 << 20, 65_536, 65_535, 4_096, 4_097, 1, 300_000, 2]
        .into_iter()
        .map(|len| "x".repeat(len))
        .collect();
    for buffer in [1_000, 1 << 16, 1 << 22] {
        assert!(received(buffer, 1 << 20, &(input.join("\r\n") + "\n")).await == input, "{buffer}");
    }
}

#[tokio::test]
async fn a_line_above_the_limit_loses_only_itself() {
    let error = "a message is longer than the limit of 100000 bytes";
    for buffer in [700, 1 << 20] {
        for (len, fits) in [(99_999, true), (100_000, true), (100_001, false), (1_000_000, false)] {
            for line_break in ["\n", "\r\n"] {
                let line = "x".repeat(len);
                let got = received(buffer, 100_000, &format!("1{line_break}{line}{line_break}2{line_break}")).await;
                let middle = if fits { line.as_str() } else { error };
                assert!(got == ["1", middle, "2"], "{buffer} {len} {line_break:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_read_error_ends_the_transport() {
    let mut transport = Ndjson::new(Broken::after(b"1\n2"), tokio::io::sink());
    assert_eq!(recv(&mut transport).await.unwrap().unwrap().message, "1");
    let error = recv(&mut transport).await.unwrap().unwrap_err();
    assert!(error.is_io());
    let source = error.source().and_then(|e| e.downcast_ref::<io::Error>()).unwrap();
    assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
    assert!(recv(&mut transport).await.is_none());
}

#[tokio::test]
async fn a_dropped_receive_loses_nothing() {
    let (mut transport, (_reader, mut writer)) = pair(64, &Options::default());
    assert!(poll(recv(&mut transport)).is_pending());
    writer.write_all(b"{\"id\"").await.unwrap();
    assert!(poll(recv(&mut transport)).is_pending());
    writer.write_all(b":1}\n").await.unwrap();
    assert_eq!(recv(&mut transport).await.unwrap().unwrap().message, "{\"id\":1}");
}

#[tokio::test]
async fn writes_one_frame_per_line_in_few_writes() {
    let (writer, counts) = Counting::new(tokio::io::sink());
    let transport = Ndjson::new(empty(), writer);
    let sender = transport.sender();
    for n in 0..500 {
        sender.try_send(Frame::new(format!("{{\"id\":{n}}}"))).unwrap();
    }
    sender.shutdown().await.unwrap();
    assert_eq!(counts.writes.load(Ordering::Relaxed), 1, "all frames were queued before the writer ran");
    assert_eq!(counts.flushes.load(Ordering::Relaxed), 1);
}

/// The messages that the reader returns before it lets other tasks run.
const TURN: usize = 8;

/// Lets each other ready task run once.
async fn requeue() {
    let mut is_queued = false;
    poll_fn(|cx| {
        if is_queued {
            return Poll::Ready(());
        }
        is_queued = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn another_ready_task_runs_after_each_turn() {
    const MESSAGES: usize = 100;
    let (mut transport, (_peer, mut input)) = pair(1 << 16, &Options::default());
    input.write_all("{}\n".repeat(MESSAGES).as_bytes()).await.unwrap();
    drop(input);
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let reading = tokio::spawn(async move {
        while count.load(Ordering::Relaxed) < MESSAGES {
            recv(&mut transport).await.unwrap().unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // The observer is always ready. The runtime polls the future of the test less often than its tasks.
    let observing = tokio::spawn(async move {
        let (mut before, mut turns) = (0, Vec::new());
        while before < MESSAGES {
            let now = received.load(Ordering::Relaxed);
            turns.extend((now > before).then_some(now - before));
            before = now;
            requeue().await;
        }
        turns
    });
    let turns = bounded(observing).await.unwrap();
    bounded(reading).await.unwrap();
    assert!(turns.iter().all(|messages| *messages <= TURN), "{turns:?}");
    assert_eq!(turns.iter().sum::<usize>(), MESSAGES);
}

#[tokio::test]
async fn the_peer_receives_answers_while_messages_of_the_same_read_wait() {
    let (mut transport, (mut peer, mut input)) = pair(1 << 16, &Options::default());
    input.write_all("{}\n".repeat(1000).as_bytes()).await.unwrap();
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let reading = tokio::spawn(async move {
        while let Some(Ok(frame)) = recv(&mut transport).await {
            count.fetch_add(1, Ordering::Relaxed);
            let sender = transport.sender();
            // Each handler has a task, as in a server.
            tokio::spawn(async move { sender.send(frame).await });
        }
    });
    let answered = tokio::spawn(async move {
        peer.read_exact(&mut [0; 3]).await.unwrap();
        let before = received.load(Ordering::Relaxed);
        peer.read_exact(&mut [0; 999 * 3]).await.unwrap();
        before
    });
    let before = bounded(answered).await.unwrap();
    // The reader, the handlers and the writer each have some turns until the first answer.
    assert!((1..=4 * TURN).contains(&before), "{before}");
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn writes_messages_of_every_size_in_order() {
    let sizes = [1, 10, 16_383, 16_384, 5, 100_000, 7, 1 << 20, 65_536, 3, 3, 30_000, 2];
    for buffer in [1_000, 1 << 22] {
        let (transport, (reader, _writer)) = pair(buffer, &Options::default());
        let sender = transport.sender();
        let messages: Vec<String> = sizes.into_iter().map(|len| "y".repeat(len)).collect();
        for message in &messages {
            sender.try_send(Frame::new(message.clone())).unwrap();
        }
        drop(sender);
        let got = sent(transport, reader).await;
        assert!(got == messages.join("\n") + "\n", "{buffer}");
    }
}

#[tokio::test]
async fn writes_a_multi_line_message_in_one_line() {
    let (transport, (reader, _writer)) = pair(1_000, &Options::default());
    let sender = transport.sender();
    sender.send(Frame::new("{\n  \"a\": \"\\n\"\r\n}")).await.unwrap();
    sender.try_send(Frame::new("{}\n{}\r")).unwrap();
    drop(sender);
    let got = sent(transport, reader).await;
    assert_eq!(got, "{   \"a\": \"\\n\"  }\n{} {} \n");
}

/// Sends a message in three pieces.
async fn send_in_pieces(sender: &dyn FrameSender, [start, body, end]: [&str; 3]) -> Result<(), TransportError> {
    let (start, body, end) = (start.to_owned(), body.to_owned(), Bytes::from(end.to_owned()));
    sender.send_in_pieces(Frame::new(start), Line::new(body), end).await
}

#[tokio::test(start_paused = true)]
async fn writes_the_pieces_of_a_message_in_one_line() {
    let long = "y".repeat(16 << 10);
    let large = "\n".repeat(1 << 20);
    // Each case: the pieces, and the line.
    let cases = [
        (["", "", ""], String::new()),
        (["{\"id\":1,\"result\":", "[]", "}"], "{\"id\":1,\"result\":[]}".to_owned()),
        (["", "[\r\n]", ""], "[  ]".to_owned()),
        (["{\n", "\"\\n\"\n", "\r}"], "{ \"\\n\"  }".to_owned()),
        (["", &long, ""], long.clone()),
        (["[", &long, "\n]"], format!("[{long} ]")),
        ([&long, "", "\n"], format!("{long} ")),
        ([&long[2..], "\n", "1"], format!("{} 1", &long[2..])),
        (["[\n", &large, "\n]"], format!("[ {} ]", " ".repeat(1 << 20))),
        ([&long, &long, &long], long.repeat(3)),
    ];
    for buffer in [1_000, 1 << 23] {
        let (transport, (reader, _writer)) = pair(buffer, &Options::default());
        let sender = transport.sender();
        for (number, (pieces, _)) in cases.iter().enumerate() {
            send_in_pieces(&*sender, *pieces).await.unwrap();
            sender.send(Frame::new(number.to_string())).await.unwrap();
        }
        drop(sender);
        let got = sent(transport, reader).await;
        let expected: String =
            cases.iter().enumerate().map(|(number, (_, line))| format!("{line}\n{number}\n")).collect();
        assert!(got == expected, "{buffer}");
    }
}

#[tokio::test]
async fn writes_a_large_body_from_its_own_memory() {
    let (writer, slices) = Slices::new();
    let transport = Ndjson::new(empty(), writer);
    let body = Line::new("y".repeat(100_000));
    for _ in 0..3 {
        transport.sender().send_in_pieces(Frame::new("["), body.clone(), Bytes::from_static(b"]")).await.unwrap();
    }
    transport.sender().shutdown().await.unwrap();
    let slices = std::mem::take(&mut *slices.lock().unwrap());
    let long: Vec<_> = slices.into_iter().filter(|(_, len)| *len > 2).collect();
    assert_eq!(long, [(body.as_ptr().addr(), body.len()); 3]);
}

#[tokio::test]
async fn limits_the_queue_by_the_bytes_of_all_pieces() {
    // Each case: the lengths of the pieces, and the number of messages that the queue accepts.
    for (lengths, count) in [([100, 100, 100], 3), ([0, 0, 300], 3), ([300, 200, 0], 2), ([1, 499, 1], 1), ([0; 3], 4)]
    {
        let (transport, _peer) = pair(1, &Options::default().queue_frames(4).queue_bytes(1_000));
        let sender = transport.sender();
        let pieces = lengths.map(|len| "z".repeat(len));
        let mut accepted = 0;
        while poll(send_in_pieces(&*sender, pieces.each_ref().map(String::as_str))).is_ready() {
            accepted += 1;
            assert!(accepted <= 10, "the queue has no bound");
        }
        assert_eq!(accepted, count, "{lengths:?}");
    }
}

/// Sends frames of `len` bytes to a peer that does not read, until the queue is full. Returns the number of sent
/// frames.
async fn accepted(len: usize, options: &Options) -> usize {
    let (transport, _peer) = pair(16, options);
    let sender = transport.sender();
    let mut count = 0;
    // Between two sends the writer runs as far as it can.
    while sender.try_send(Frame::new("z".repeat(len))).is_ok() {
        count += 1;
        tokio::task::yield_now().await;
        assert!(count <= 10_000, "the queue has no bound");
    }
    count
}

#[tokio::test]
async fn limits_the_queue_in_messages_and_bytes() {
    let limits = |frames, bytes| Options::default().queue_frames(frames).queue_bytes(bytes);
    // The frames of the writer count towards the queue. The bytes in the pipe do not.
    assert_eq!(accepted(100, &limits(4, 1 << 20)).await, 4);
    assert_eq!(accepted(100, &limits(1, 1 << 20)).await, 1);
    assert_eq!(accepted(300, &limits(100, 1_000)).await, 3);
    assert_eq!(accepted(500, &limits(100, 1_000)).await, 2);
    assert_eq!(accepted(501, &limits(100, 1_000)).await, 1);
    assert_eq!(accepted(5_000, &limits(100, 1_000)).await, 1, "a message above the limit is queued alone");
    assert_eq!(accepted(100, &limits(0, 0)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn senders_wait_in_order_for_a_stalled_peer() {
    let (transport, (mut reader, _writer)) = pair(16, &Options::default().queue_frames(2));
    let sender = transport.sender();
    sender.send(Frame::new("a".repeat(100))).await.unwrap();
    sender.send(Frame::new("b".repeat(100))).await.unwrap();
    assert!(poll(sender.send(Frame::new("dropped"))).is_pending());
    assert!(poll(send_in_pieces(&*sender, ["dropped", "dropped", "dropped"])).is_pending());
    let waiting: Vec<_> = ["c", "d", "e"]
        .into_iter()
        .map(|name| {
            let sender = transport.sender();
            tokio::spawn(async move {
                match name {
                    "d" => send_in_pieces(&*sender, ["dd", &name.repeat(97), "d"]).await,
                    name => sender.send(Frame::new(name.repeat(100))).await,
                }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(waiting.iter().all(|task| !task.is_finished()));

    let mut got = vec![0; 505];
    bounded(reader.read_exact(&mut got)).await.unwrap();
    let expected: String = ["a", "b", "c", "d", "e"].into_iter().map(|name| name.repeat(100) + "\n").collect();
    assert_eq!(String::from_utf8(got).unwrap(), expected);
    for task in waiting {
        bounded(task).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_leaves_the_output_open() {
    let (mut transport, (mut reader, mut writer)) = pair(64, &Options::default());
    writer.shutdown().await.unwrap();
    assert!(recv(&mut transport).await.is_none());
    transport.sender().send(Frame::new("{}")).await.unwrap();
    let mut got = [0; 3];
    bounded(reader.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"{}\n");
}

#[tokio::test(start_paused = true)]
async fn the_caller_bounds_a_shutdown() {
    let (transport, (mut reader, _writer)) = pair(16, &Options::default());
    let sender = transport.sender();
    sender.send(Frame::new("x".repeat(100))).await.unwrap();
    let shutdown = tokio::time::timeout(Duration::from_secs(60), sender.shutdown());
    assert!(shutdown.await.is_err(), "the peer does not read");
    assert!(sender.send(Frame::new("{}")).await.unwrap_err().is_closed());

    // The peer reads again and receives all frames.
    let mut got = vec![0; 101];
    reader.read_exact(&mut got).await.unwrap();
    sender.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_a_transport_times_out() {
    let (ours, mut theirs) = duplex(16);
    let transport = Ndjson::new(empty(), ours);
    transport.sender().send(Frame::new("x".repeat(100))).await.unwrap();
    drop(transport);
    let start = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut got = [0; 16];
    theirs.read_exact(&mut got).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut rest = Vec::new();
    theirs.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, [b'x'; 16], "what the pipe still took, and no more");
    assert_eq!(start.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_transport_writes_queued_frames() {
    let (ours, mut theirs) = duplex(16);
    let transport = Ndjson::new(empty(), ours);
    transport.sender().send(Frame::new("x".repeat(100))).await.unwrap();
    drop(transport);
    let mut got = String::new();
    bounded(theirs.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "x".repeat(100) + "\n");
}

#[tokio::test(start_paused = true)]
async fn a_write_error_reaches_every_sender() {
    let (ours, theirs) = duplex(16);
    drop(theirs);
    let transport = Ndjson::with_options(empty(), ours, &Options::default().queue_frames(1));
    let sender = transport.sender();
    sender.send(Frame::new("1")).await.unwrap();
    let error = bounded(sender.send(Frame::new("2"))).await.unwrap_err();
    assert!(error.is_io(), "{error:?}");
    assert!(matches!(sender.try_send(Frame::new("3")), Err(TrySendError::Closed(_))));
    assert!(bounded(sender.shutdown()).await.unwrap_err().is_io());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_writer_does_not_block_senders() {
    let transport = Ndjson::with_options(empty(), Panicking, &Options::default().queue_frames(1));
    let sender = transport.sender();
    sender.send(Frame::new("1")).await.unwrap();
    assert!(bounded(sender.send(Frame::new("2"))).await.unwrap_err().is_closed());
    assert!(bounded(sender.shutdown()).await.unwrap_err().is_closed());
}
