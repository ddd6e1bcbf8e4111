//! Models of the queue of updates: each order of the threads that report, open, interrupt, end and read.

use mcp_protocol::Message;
use mcp_schedule::model::{block_on, check, spawn, step};

use super::*;

fn updated() -> Notification {
    let json = br#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}"#;
    let Ok(Message::Notification(raw)) = Message::parse(json) else { panic!("a notification") };
    Notification::new(&raw)
}

fn queue() -> Arc<UpdateQueue> {
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions = vec!["a:".into()];
    Arc::new(UpdateQueue::new(filter))
}

#[test]
fn an_update_before_the_end_reaches_the_reader() {
    check(|| {
        let queue = queue();
        let reporting = spawn({
            let queue = queue.clone();
            move || {
                queue.receive(&updated());
                queue.end(None);
            }
        });
        let received = block_on(async {
            let mut received = 0;
            while let Some(update) = std::future::poll_fn(|cx| queue.poll(cx)).await {
                assert!(matches!(update, Ok(Update::ResourceUpdated { .. })));
                received += 1;
            }
            received
        });
        reporting.join().unwrap();
        assert_eq!(received, 1);
    });
}

#[test]
fn an_acknowledgement_or_the_end_ends_the_wait_for_the_subscription() {
    check(|| {
        let queue = queue();
        let (opening, ending) = (queue.clone(), queue.clone());
        let opening = spawn(move || _ = opening.open(0, SubscriptionFilter::new()));
        let ending = spawn(move || ending.end(None));
        // The order of the threads decides about the result.
        let _ = block_on(queue.opened());
        opening.join().unwrap();
        ending.join().unwrap();
        assert!(!queue.is_open() && block_on(queue.opened()).is_err());
    });
}

#[test]
fn a_late_acknowledgement_does_not_open_an_interrupted_subscription() {
    check(|| {
        let queue = queue();
        let opening = spawn({
            let queue = queue.clone();
            move || queue.open(0, SubscriptionFilter::new())
        });
        // The state is in a channel of Tokio.
        step();
        let was_open = queue.interrupt();
        step();
        assert!(!opening.join().unwrap(), "the first acknowledgement follows no gap");
        assert!(!queue.is_open(), "was open: {was_open}");
        let has_gap = queue.open(queue.attempt(), SubscriptionFilter::new());
        assert!(queue.is_open() && (has_gap || !was_open));
    });
}
