//! Completes commands and the names in the server's lists.

use std::time::Duration;

use mcp_agent::filter::ToolFilter;
use mcp_client::Client;
use mcp_protocol::{
    CompleteParams, CompletionArgument, CompletionContext, CompletionReference, Prompt, Resource, ResourceTemplate,
    SubscriptionFilter, Tool,
};
use rustyline::{Context, Helper, completion::Pair, highlight::Highlighter, hint::Hinter, validate::Validator};
use serde_json::Value;
use tokio::{runtime::Handle, sync::watch, time::timeout};

use super::template::{Position, position};
use crate::{requests::Requests, text::printable};

/// The longest time that the server may take to complete a value.
const VALUES: Duration = Duration::from_secs(2);

/// The latest lists of the server. A background task reads them again after a list change or a reconnection.
#[derive(Debug)]
pub(super) struct Names(watch::Receiver<Lists>);

#[derive(Debug, Default)]
struct Lists {
    /// Whether the server has been asked for the lists.
    are_read: bool,
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
}

impl Names {
    /// Starts the background task. It ends with the client.
    pub(super) fn follow(client: &Client, filter: Option<ToolFilter>) -> Self {
        let (sender, names) = watch::channel(Lists::default());
        let client = client.clone();
        tokio::spawn(async move {
            let read = async || drop(sender.send_replace(Lists::read(&client, filter.as_ref()).await));
            // The first read does not wait for a server that accepts the subscription late.
            let (updates, ()) = tokio::join!(client.listen(SubscriptionFilter::lists()), read());
            // Without list changes, the lists are read only once.
            let Ok(mut updates) = updates else { return };
            // The first read may have missed a change before the subscription.
            read().await;
            while let Some(Ok(_)) = updates.next().await {
                read().await;
            }
        });
        Self(names)
    }
}

impl Lists {
    /// Reads the lists. A list that cannot be read is empty.
    async fn read(client: &Client, filter: Option<&ToolFilter>) -> Self {
        let (tools, resources, templates, prompts) = tokio::join!(
            client.list_tools().into_future(),
            client.list_resources().into_future(),
            client.list_resource_templates().into_future(),
            client.list_prompts().into_future()
        );
        let mut tools: Vec<Tool> = tools.map(Vec::from).unwrap_or_default();
        tools.retain(|tool| filter.is_none_or(|filter| filter.accepts(tool)));
        Self {
            are_read: true,
            tools,
            resources: resources.map(Vec::from).unwrap_or_default(),
            templates: templates.map(Vec::from).unwrap_or_default(),
            prompts: prompts.map(Vec::from).unwrap_or_default(),
        }
    }
}

/// Values that the server completes. The line editor waits for them on its own thread.
pub(super) struct Values {
    requests: Requests,
    runtime: Handle,
}

impl Values {
    /// Remembers the current runtime.
    pub(super) fn new(requests: Requests) -> Self {
        Self { requests, runtime: Handle::current() }
    }

    /// Returns the values of an argument; empty if the server does not answer in time or does not support completion.
    fn of(&self, reference: CompletionReference, name: &str, value: &str, known: Vec<(String, String)>) -> Vec<String> {
        let mut params = CompleteParams::new(reference, CompletionArgument::new(name, value));
        if !known.is_empty() {
            params.context = Some(CompletionContext::new(known.into_iter().collect()));
        }
        let answer = async { timeout(VALUES, self.requests.complete(&params)).await };
        match self.runtime.block_on(answer) {
            Ok(Ok(result)) => result.completion.values,
            _ => Vec::new(),
        }
    }
}

/// Completes words of a line.
pub(super) struct Completer {
    commands: Vec<String>,
    names: Names,
    values: Option<Values>,
}

/// A text that can replace the typed word.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    text: String,
    /// Whether the next word follows.
    is_complete: bool,
}

impl From<String> for Candidate {
    fn from(text: String) -> Self {
        Self { is_complete: !text.ends_with('='), text }
    }
}

impl Completer {
    pub(super) fn new(commands: Vec<String>, names: Names, values: Option<Values>) -> Self {
        Self { commands, names, values }
    }

    /// Returns the candidates for a word that follows `before`. Some of them may not begin with the word.
    fn candidates(&self, before: &str, word: &str) -> Vec<Candidate> {
        if let Some(values) = &self.values {
            let mut names = self.names.0.clone();
            let are_read = async { timeout(VALUES, names.wait_for(|lists| lists.are_read)).await.is_ok() };
            // Without the lists, the commands are still candidates.
            let _ = values.runtime.block_on(are_read);
        }
        let lists = self.names.0.borrow();
        let words: Vec<&str> = before.split_whitespace().collect();
        let tools = || lists.tools.iter().map(|tool| tool.name.clone());
        let prompts = || lists.prompts.iter().map(|prompt| prompt.name.clone());
        let all = |names: &mut dyn Iterator<Item = String>| names.map(Candidate::from).collect();
        match words[..] {
            [] => all(&mut self.commands.iter().cloned().chain(tools())),
            ["tools" | "call"] => all(&mut tools()),
            ["prompts" | "prompt"] => all(&mut prompts()),
            ["complete"] => {
                let templates = lists.templates.iter().map(|template| template.uri_template.clone());
                all(&mut prompts().chain(templates))
            }
            ["read" | "listen", ..] => {
                let mut found: Vec<Candidate> = all(&mut lists.resources.iter().map(|resource| resource.uri.clone()));
                let templates: Vec<String> =
                    lists.templates.iter().map(|template| template.uri_template.clone()).collect();
                // The server can take a while to answer.
                drop(lists);
                found.extend(templates.iter().flat_map(|template| self.uris(template, word)));
                found
            }
            ["prompt" | "complete", name, ref given @ ..] => {
                if let Some(template) = lists.templates.iter().find(|template| template.uri_template == name) {
                    let parsed = mcp_uri_template::UriTemplate::parse_for_expansion(&template.uri_template).ok();
                    let names: Vec<String> =
                        parsed.iter().flat_map(|template| template.variables().map(ToOwned::to_owned)).collect();
                    return all(&mut keys(names.into_iter(), given).into_iter());
                }
                let prompt = lists.prompts.iter().find(|prompt| prompt.name == name);
                let names = prompt.into_iter().flat_map(|prompt| &prompt.arguments);
                let keys = keys(names.map(|argument| argument.name.clone()), given);
                drop(lists);
                match (word.split_once('='), &self.values) {
                    (Some((key, value)), Some(values)) => {
                        let known = given.iter().filter_map(|word| word.split_once('='));
                        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                        let values = values.of(CompletionReference::prompt(name), key, value, known);
                        all(&mut values.into_iter().map(|value| format!("{key}={value}")))
                    }
                    _ => all(&mut keys.into_iter()),
                }
            }
            ["call", name, ref given @ ..] | [name, ref given @ ..] => {
                let tool = lists.tools.iter().find(|tool| tool.name == name);
                let properties = tool.and_then(|tool| tool.input_schema.get("properties"));
                let names = properties.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.clone());
                all(&mut keys(names, given).into_iter())
            }
        }
    }

    /// Returns the URIs of a template that begin with the typed text, as far as the next variable.
    fn uris(&self, template: &str, typed: &str) -> Vec<Candidate> {
        match position(template, typed) {
            None => Vec::new(),
            Some(Position::Literal(text)) => vec![Candidate { text, is_complete: false }],
            Some(Position::Variable(variable)) => {
                let Some(values) = &self.values else { return Vec::new() };
                let reference = CompletionReference::resource_template(template);
                let found = values.of(reference, &variable.name, &variable.value, variable.known.clone());
                let candidate =
                    |value: String| Candidate { text: variable.with_value(&value), is_complete: variable.is_last };
                found.into_iter().map(candidate).collect()
            }
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
            .candidates(&typed[..start], word)
            .into_iter()
            .filter(|candidate| candidate.text.starts_with(word) && is_plain(&candidate.text));
        let pairs = fitting.map(|Candidate { text, is_complete }| {
            let replacement = if is_complete { format!("{text} ") } else { text.clone() };
            Pair { display: text, replacement }
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
    use std::{future::poll_fn, sync::Arc};

    use mcp_client::OpenTransport;
    use mcp_server::prelude::*;
    use mcp_transport::{FrameSender, Transport};
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    /// The limit of each wait. It is shorter than the timeout of a request.
    const LIMIT: Duration = Duration::from_secs(20);

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
            let names = Names::follow(&client, None);
            for name in ["first", "second"] {
                server.tools().add(tool(name, async || "")).unwrap();
                let mut lists = names.0.clone();
                let is_listed = lists.wait_for(|lists| lists.tools.iter().any(|tool| tool.name == name));
                assert!(timeout(LIMIT, is_listed).await.is_ok_and(|read| read.is_ok()), "{version}");
            }
            client.close().await;
            serving.abort();
        }
    }

    /// Forwards frames, except the request of a subscription.
    async fn forward_without_subscriptions(mut from: impl Transport, to: Arc<dyn FrameSender>) {
        while let Some(Ok(frame)) = poll_fn(|cx| from.poll_recv(cx)).await {
            if !String::from_utf8_lossy(&frame.message).contains("subscriptions/listen")
                && to.send(frame).await.is_err()
            {
                return;
            }
        }
    }

    #[tokio::test]
    async fn reads_names_before_the_server_accepts_the_subscription() {
        let server = Server::builder("x", "1").tool(tool("add", async || "")).dynamic_tools().build();
        let (client_end, client_proxy) = mcp_transport::memory::duplex(64);
        let (server_proxy, server_end) = mcp_transport::memory::duplex(64);
        let (to_client, to_server) = (client_proxy.sender(), server_proxy.sender());
        let tasks = [
            tokio::spawn(async move { drop(server.serve(server_end).await) }),
            tokio::spawn(forward_without_subscriptions(client_proxy, to_server)),
            tokio::spawn(forward_without_subscriptions(server_proxy, to_client)),
        ];
        let client = Client::builder("x", "1").versions(["2026-07-28".parse().unwrap()]);
        let client = client.connect(OpenTransport::new(client_end)).await.unwrap();
        let mut names = Names::follow(&client, None).0;
        let are_read = names.wait_for(|lists| lists.tools.iter().any(|tool| tool.name == "add"));
        assert!(timeout(LIMIT, are_read).await.is_ok_and(|read| read.is_ok()));
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[test]
    fn completes_words_by_their_position() {
        let tool = serde_json::from_value::<Tool>(json!({
            "name": "add", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}},
        }));
        let prompt = serde_json::from_value::<Prompt>(json!({"name": "review", "arguments": [{"name": "code"}]}));
        let resource = serde_json::from_value::<Resource>(json!({"uri": "test://x", "name": "x"}));
        let template = serde_json::from_value::<ResourceTemplate>(json!({"uriTemplate": "note://{id}", "name": "n"}));
        let lists = Lists {
            are_read: true,
            templates: template.into_iter().collect(),
            tools: tool.into_iter().collect(),
            resources: resource.into_iter().collect(),
            prompts: prompt.into_iter().collect(),
        };
        let completer =
            Completer::new(vec!["call".to_owned(), "read".to_owned()], Names(watch::channel(lists).1), None);
        for (before, expected) in [
            ("", "call read add"),
            ("add a=1 ", "b="),
            ("complete ", "review note://{id}"),
            ("complete note://{id} ", "id="),
            ("call ", "add"),
            ("call add ", "a= b="),
            ("call add a=1 ", "b="),
            ("call other ", ""),
            ("read ", "test://x note://"),
            ("prompt review ", "code="),
            ("ping ", ""),
        ] {
            let found: Vec<String> = completer.candidates(before, "").into_iter().map(|found| found.text).collect();
            assert_eq!(found.join(" "), expected, "{before}");
        }
    }
}
