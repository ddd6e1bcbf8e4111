//! Rules of [`PubSub`].

use std::sync::Arc;

use tokio::time::{Duration, timeout};

use super::{Check, Rule, Seen, bytes, invalid, same};
use crate::{Delivery, PubSub, Subscription, limits};

pub(super) const RULES: &[Rule<dyn PubSub>] = &[
    ("publishing without a listener succeeds", publish_without_listener),
    ("every subscription of the topic gets every message in order", in_order),
    ("a subscription gets only its own topic, taken literally", own_topic),
    ("a subscription begins when it is made", from_now_on),
    ("a slow reader loses the oldest messages and receives their number", lagged),
    ("a slow reader costs neither publisher nor other readers anything", independent),
    ("a dropped subscription does not disturb the others", dropped),
    ("names, capacity and size are checked", arguments),
];

/// The maximum time for the delivery of a message.
const ARRIVAL: Duration = Duration::from_secs(5);

async fn next(reader: &mut Subscription) -> Result<Delivery, Seen> {
    match timeout(ARRIVAL, reader.recv()).await {
        Ok(Some(delivery)) => Ok(delivery),
        Ok(None) => Err(Seen("the subscription ended".into())),
        Err(_) => Err(Seen("nothing arrived".into())),
    }
}

pub(super) async fn expect(reader: &mut Subscription, messages: &[&str]) -> Result<(), Seen> {
    for message in messages {
        same(&format!("message {message}"), next(reader).await?, Delivery::Message(bytes(message)))?;
    }
    Ok(())
}

fn publish_without_listener(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move { Ok(store.publish("topic", bytes("x")).await?) })
}

fn in_order(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        let (mut a, mut b) = (store.subscribe("t", 10).await?, store.subscribe("t", 10).await?);
        for message in ["1", "2", "", "3"] {
            store.publish("t", bytes(message)).await?;
        }
        expect(&mut a, &["1", "2", "", "3"]).await?;
        expect(&mut b, &["1", "2", "", "3"]).await
    })
}

fn own_topic(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        let mut star = store.subscribe("t/*", 10).await?;
        for topic in ["t", "t/a", "t/", "T/*", "t/*"] {
            store.publish(topic, bytes(topic)).await?;
        }
        expect(&mut star, &["t/*"]).await?;
        same("more", star.try_recv(), None)
    })
}

fn from_now_on(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        store.publish("t", bytes("before")).await?;
        let mut reader = store.subscribe("t", 10).await?;
        store.publish("t", bytes("after")).await?;
        expect(&mut reader, &["after"]).await
    })
}

fn lagged(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        // A second subscription of the same node with a large capacity shows when all messages have arrived.
        let (mut slow, mut wide) = (store.subscribe("t", 3).await?, store.subscribe("t", 100).await?);
        let messages: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        for message in &messages {
            store.publish("t", bytes(message)).await?;
        }
        expect(&mut wide, &messages).await?;
        // The order of subscriptions of one node is open: wait until the slow subscription has received all ten.
        let (mut lost, mut seen) = (0, Vec::new());
        while lost + (seen.len() as u64) < 10 {
            match next(&mut slow).await? {
                Delivery::Lagged(count) => lost += count,
                Delivery::Message(message) => seen.push(message),
            }
        }
        same("lost", lost, 7)?;
        same("kept", seen, vec![bytes("8"), bytes("9"), bytes("10")])?;
        store.publish("t", bytes("11")).await?;
        expect(&mut slow, &["11"]).await
    })
}

fn independent(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        let _stuck = store.subscribe("t", 1).await?;
        let mut reader = store.subscribe("t", 100).await?;
        for n in 0..50 {
            store.publish("t", bytes(&n.to_string())).await?;
        }
        for n in 0..50 {
            expect(&mut reader, &[&n.to_string()]).await?;
        }
        Ok(())
    })
}

fn dropped(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        let (gone, mut stays) = (store.subscribe("t", 10).await?, store.subscribe("t", 10).await?);
        drop(gone);
        store.publish("t", bytes("1")).await?;
        let mut later = store.subscribe("t", 10).await?;
        store.publish("t", bytes("2")).await?;
        expect(&mut stays, &["1", "2"]).await?;
        expect(&mut later, &["2"]).await
    })
}

fn arguments(store: Arc<dyn PubSub>) -> Check {
    Box::pin(async move {
        let long = "t".repeat(limits::MAX_NAME_BYTES + 1);
        invalid("an empty topic", store.publish("", bytes("x")).await)?;
        invalid("too long a topic", store.publish(&long, bytes("x")).await)?;
        invalid("too long a topic", store.subscribe(&long, 1).await)?;
        invalid("a capacity of none", store.subscribe("t", 0).await)?;
        let mut reader = store.subscribe("t", 1).await?;
        invalid("too large a message", store.publish("t", vec![0; limits::MAX_MESSAGE_BYTES + 1].into()).await)?;
        store.publish("t", vec![0; limits::MAX_MESSAGE_BYTES].into()).await?;
        match next(&mut reader).await? {
            Delivery::Message(message) => same("largest message", message.len(), limits::MAX_MESSAGE_BYTES),
            lagged @ Delivery::Lagged(_) => Err(Seen(format!("{lagged:?}"))),
        }
    })
}
