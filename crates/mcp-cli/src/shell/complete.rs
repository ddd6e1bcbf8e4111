//! Completes commands and the names in the server's lists.

use mcp_client::Client;
use mcp_protocol::{Prompt, Resource, SubscriptionFilter, Tool};
use rustyline::{Context, Helper, completion::Pair, highlight::Highlighter, hint::Hinter, validate::Validator};
use serde_json::Value;
use tokio::sync::watch;

use crate::text::printable;

/// The latest lists of the server. A background task reads them again after a list change or a reconnection.
#[derive(Debug)]
pub(super) struct Names(watch::Receiver<Lists>);

#[derive(Debug, Default)]
struct Lists {
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    prompts: Vec<Prompt>,
}

impl Names {
    /// Starts the background task. It ends with the client.
    pub(super) fn follow(client: &Client) -> Self {
        let (sender, names) = watch::channel(Lists::default());
        let client = client.clone();
        tokio::spawn(async move {
            // The subscription comes first: a change during the first read causes another read.
            let updates = client.listen(SubscriptionFilter::lists()).await;
            sender.send_replace(Lists::read(&client).await);
            // Without list changes, the lists are read only once.
            let Ok(mut updates) = updates else { return };
            while let Some(Ok(_)) = updates.next().await {
                sender.send_replace(Lists::read(&client).await);
            }
        });
        Self(names)
    }
}

impl Lists {
    /// Reads the lists. A list that cannot be read is empty.
    async fn read(client: &Client) -> Self {
        let (tools, resources, prompts) = tokio::join!(
            client.list_tools().into_future(),
            client.list_resources().into_future(),
            client.list_prompts().into_future()
        );
        Self {
            tools: tools.map(Vec::from).unwrap_or_default(),
            resources: resources.map(Vec::from).unwrap_or_default(),
            prompts: prompts.map(Vec::from).unwrap_or_default(),
        }
    }
}

/// Completes words of a line.
pub(super) struct Completer {
    commands: Vec<String>,
    names: Names,
}

impl Completer {
    pub(super) fn new(commands: Vec<String>, names: Names) -> Self {
        Self { commands, names }
    }

    /// Returns the candidates for the word that follows `before`.
    fn candidates(&self, before: &str) -> Vec<String> {
        let lists = self.names.0.borrow();
        let words: Vec<&str> = before.split_whitespace().collect();
        match words[..] {
            [] => self.commands.clone(),
            ["tools" | "call"] => lists.tools.iter().map(|tool| tool.name.clone()).collect(),
            ["prompts" | "prompt" | "complete"] => lists.prompts.iter().map(|prompt| prompt.name.clone()).collect(),
            ["read" | "listen", ..] => lists.resources.iter().map(|resource| resource.uri.clone()).collect(),
            ["call", name, ref given @ ..] => {
                let tool = lists.tools.iter().find(|tool| tool.name == name);
                let properties = tool.and_then(|tool| tool.input_schema.get("properties"));
                let names = properties.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.clone());
                keys(names, given)
            }
            ["prompt" | "complete", name, ref given @ ..] => {
                let prompt = lists.prompts.iter().find(|prompt| prompt.name == name);
                let names = prompt.into_iter().flat_map(|prompt| &prompt.arguments);
                keys(names.map(|argument| argument.name.clone()), given)
            }
            _ => Vec::new(),
        }
    }
}

/// Returns whether a name needs no quotes in a line.
fn is_plain(name: &str) -> bool {
    printable(name) == name && !name.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '\\' | '#'))
}

/// Returns `key=` for each key that the line does not contain yet.
fn keys(names: impl Iterator<Item = String>, given: &[&str]) -> Vec<String> {
    let is_given = |name: &String| given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key == name));
    names.filter(|name| !is_given(name)).map(|name| format!("{name}=")).collect()
}

impl rustyline::completion::Completer for Completer {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..position];
        let start = typed.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let word = &typed[start..];
        let fitting = self
            .candidates(&typed[..start])
            .into_iter()
            .filter(|candidate| candidate.starts_with(word) && is_plain(candidate));
        let pairs = fitting.map(|candidate| {
            let replacement = if candidate.ends_with('=') { candidate.clone() } else { format!("{candidate} ") };
            Pair { display: candidate, replacement }
        });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Completer {
    type Hint = String;
}

impl Highlighter for Completer {}

impl Validator for Completer {}

impl Helper for Completer {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_client::OpenTransport;
    use mcp_server::prelude::*;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    /// The test adds the second tool after the first read.
    #[tokio::test]
    async fn reads_names_again_after_a_list_change() {
        for version in ["2025-11-25", "2026-07-28"] {
            let server = Server::builder("x", "1").dynamic_tools().build();
            let (ours, theirs) = mcp_transport::memory::duplex(64);
            let serving = tokio::spawn({
                let server = server.clone();
                async move { server.serve(theirs).await }
            });
            let builder = Client::builder("x", "1").versions([version.parse().unwrap()]);
            let client = builder.connect(OpenTransport::new(ours)).await.unwrap();
            let names = Names::follow(&client);
            for name in ["first", "second"] {
                server.tools().add(tool(name, async || "")).unwrap();
                let mut lists = names.0.clone();
                let is_listed = lists.wait_for(|lists| lists.tools.iter().any(|tool| tool.name == name));
                assert!(timeout(Duration::from_secs(20), is_listed).await.is_ok_and(|read| read.is_ok()), "{version}");
            }
            client.close().await;
            serving.abort();
        }
    }

    #[test]
    fn completes_words_by_their_position() {
        let tool = serde_json::from_value::<Tool>(json!({
            "name": "add", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}},
        }));
        let prompt = serde_json::from_value::<Prompt>(json!({"name": "review", "arguments": [{"name": "code"}]}));
        let resource = serde_json::from_value::<Resource>(json!({"uri": "test://x", "name": "x"}));
        let lists = Lists {
            tools: tool.into_iter().collect(),
            resources: resource.into_iter().collect(),
            prompts: prompt.into_iter().collect(),
        };
        let completer = Completer::new(vec!["call".to_owned(), "read".to_owned()], Names(watch::channel(lists).1));
        for (before, expected) in [
            ("", "call read"),
            ("call ", "add"),
            ("call add ", "a= b="),
            ("call add a=1 ", "b="),
            ("call other ", ""),
            ("read ", "test://x"),
            ("prompt review ", "code="),
            ("ping ", ""),
        ] {
            assert_eq!(completer.candidates(before).join(" "), expected, "{before}");
        }
    }
}
