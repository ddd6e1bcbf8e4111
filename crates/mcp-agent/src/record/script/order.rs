//! The order of the recorded lines: which of them must come before a message of the server.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Entry, Script};
use crate::record::{
    line::{Event, Line},
    message::{self, Kind, Relation, kind, progress_token},
};

impl Script {
    /// Adds a line, and finds the entries that come before it.
    ///
    /// A message about a request comes after the request and after earlier messages about it. A response also comes after the
    /// answers to questions that the server asked since the request. Other messages come after the last message of the host.
    /// So independent requests may have another order in the replay.
    pub(super) fn add(&mut self, line: Line) {
        let index = self.entries.len();
        let message = line.message.as_ref();
        let is_response = message.is_some_and(|message| kind(message) == Kind::Response);
        let mut before = BTreeSet::new();
        let mut request = None;
        if line.event == Event::Sent {
            if let Some(message) = message.filter(|_| is_response) {
                self.order.answers.push((index, self.question(message)));
            }
            self.order.last_sent = Some(index);
        } else {
            request = self.request_of(&line);
            if let Some(request) = request {
                before.insert(request);
                before.extend(self.order.last_about.insert(request, index));
                if is_response {
                    before.extend(self.answers_since(request));
                }
            } else {
                before.extend(self.order.last_sent);
            }
            if line.event == Event::Ended {
                before.extend(0..index);
            }
        }
        for other in &before {
            self.entries[*other].dependents.push(index);
        }
        self.entries.push(Entry { line, unmet: before.len(), dependents: Vec::new(), sent: None, request });
    }

    /// Returns the request that a line of the server is about.
    fn request_of(&self, line: &Line) -> Option<usize> {
        let message = line.message.as_ref();
        let response_id =
            message.filter(|message| kind(message) == Kind::Response).and_then(|message| message.get("id"));
        let relation = message.and_then(message::relation);
        if line.route.is_none() && response_id.is_none() && relation.is_none() {
            return None;
        }
        self.entries.iter().rposition(|entry| {
            let sent = entry.line.message.as_ref().filter(|_| entry.line.event == Event::Sent);
            let Some(request) = sent.filter(|request| kind(request) == Kind::Request) else { return false };
            let id = request.get("id");
            id == line.route.as_ref()
                || (response_id.is_some() && id == response_id)
                || match relation {
                    Some(Relation::Progress(token)) => progress_token(request) == Some(token),
                    Some(Relation::Subscription(subscription)) => id == Some(subscription),
                    None => false,
                }
        })
    }

    /// Returns the answers to questions about a request, and to questions that name no request.
    fn answers_since(&self, request: usize) -> impl Iterator<Item = usize> {
        let answers = self.order.answers.iter().rev().take_while(move |(answer, _)| *answer > request);
        answers.filter_map(move |(answer, question)| {
            let question = question.filter(|question| *question > request)?;
            self.entries[question].request.is_none_or(|asker| asker == request).then_some(*answer)
        })
    }

    /// Returns the question of the server that a response answers.
    pub(super) fn question(&self, response: &Value) -> Option<usize> {
        self.entries.iter().rposition(|entry| {
            entry.line.event == Event::Received
                && entry
                    .line
                    .message
                    .as_ref()
                    .is_some_and(|message| kind(message) == Kind::Request && message.get("id") == response.get("id"))
        })
    }
}
