//! Polls of one task beside more and more stored tasks.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Extent, Grown, Node, add_rate, alternate, checked, kept, series};
use crate::{
    case::{Revision, request},
    error::{Error, within},
    figure::{Curve, Point},
    http::Connection,
    load::GRACE,
    report::median,
};

/// The interval between two polls of a new task.
const POLL: Duration = Duration::from_millis(10);
/// The milliseconds that the server stores a task.
const TTL: u64 = 3_600_000;

/// The tasks of a session.
struct Tasks<'a> {
    node: &'a Node,
    session: String,
    connection: Connection,
    /// The ids of the tasks, in the order of their creation.
    ids: Vec<String>,
}

impl<'a> Tasks<'a> {
    async fn new(node: &'a Node) -> Result<Self, Error> {
        let session = node.session().await?;
        let connection = within(GRACE, "a connection", Connection::open(node.address)).await?;
        Ok(Self { node, session, connection, ids: Vec::new() })
    }

    fn request(&self, method: &str, params: Value) -> Vec<u8> {
        request(Revision::Session, &self.node.host, Some(&self.session), method, None, params)
    }

    fn poll(&self, id: &str) -> Vec<u8> {
        self.request("tasks/get", json!({ "taskId": id }))
    }

    /// Creates tasks until `count` of them are stored, and waits until the newest is complete.
    async fn store(&mut self, count: usize) -> Result<(), Error> {
        let create = self.request("tools/call", json!({ "name": "job", "arguments": {}, "task": { "ttl": TTL } }));
        while self.ids.len() < count {
            let (created, _) = within(GRACE, "a new task", checked(&mut self.connection, &create)).await?;
            let id = created["result"]["task"]["taskId"].as_str();
            self.ids.push(id.ok_or_else(|| Error::new(format!("the call created no task: {created}")))?.to_owned());
        }
        let Some(newest) = self.ids.last() else { return Ok(()) };
        let poll = self.poll(newest);
        let completion = async {
            while !is_complete(&checked(&mut self.connection, &poll).await?.0, newest) {
                sleep(POLL).await;
            }
            Ok::<_, Error>(())
        };
        within(GRACE, "the completion of a task", completion).await
    }

    /// The polls of the newest task in a second.
    async fn rate(&self, length: Duration) -> Result<f64, Error> {
        let newest = self.ids.last().map_or("", String::as_str);
        self.node.requests(&self.poll(newest), 1, length, |message| is_complete(message, newest)).await
    }

    /// Fails if the server has lost the oldest task.
    async fn check(&mut self) -> Result<(), Error> {
        let oldest = self.ids.first().map_or("", String::as_str);
        let poll = self.poll(oldest);
        let (message, _) = within(GRACE, "a poll of a task", checked(&mut self.connection, &poll)).await?;
        if is_complete(&message, oldest) { Ok(()) } else { Err(Error::new(format!("a task is lost: {message}"))) }
    }
}

/// Whether a message has a task with its end.
fn is_complete(message: &Value, id: &str) -> bool {
    let result = &message["result"];
    result["taskId"] == id && result["status"] == "completed"
}

/// Polls of a server with more and more tasks, in turns with a server of one task.
pub(super) async fn tasks(extent: Extent) -> Result<Grown, Error> {
    let nodes = [Node::start(extent, 0).await?, Node::start(extent, 0).await?];
    let (mut base, mut crowded) = (Tasks::new(&nodes[0]).await?, Tasks::new(&nodes[1]).await?);
    base.store(1).await?;
    let mut series = series("tasks", "polls of a task beside stored tasks", "calls/s");
    let (mut ratios, mut beside) = (Vec::new(), Vec::new());
    for size in extent.sizes(1, 10_000) {
        crowded.store(size).await?;
        let (mut rates, mut base_rates) = (Vec::new(), Vec::new());
        ratios.clear();
        for number in 0..=extent.rounds {
            let turns = [&base, &crowded];
            let rate = async |turn: usize| turns[turn].rate(extent.round / 2).await;
            let round = alternate(&[base.node, crowded.node], rate).await?;
            // The first round warms the servers up.
            if number > 0 {
                base_rates.push(round[0]);
                rates.push(round[1]);
                ratios.push(round[1] / round[0]);
            }
        }
        crowded.check().await?;
        add_rate(&mut series, size, median(&rates));
        beside.push(Point { x: size as f64, y: median(&base_rates) });
    }
    series.beside =
        Some(Curve { first: "stored tasks".to_owned(), name: "one task".to_owned(), points: beside, cost: Vec::new() });
    Ok((series, vec![kept("tasks", "polls beside all stored tasks, by those of one task", &ratios)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_task_has_its_id_and_its_end() {
        for (result, expected) in [
            (json!({ "taskId": "a", "status": "completed" }), true),
            (json!({ "taskId": "b", "status": "completed" }), false),
            (json!({ "taskId": "a", "status": "working" }), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_complete(&json!({ "result": result }), "a"), expected, "{result}");
        }
    }
}
