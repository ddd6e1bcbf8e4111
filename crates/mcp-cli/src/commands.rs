//! The commands that run over an open connection.

mod call;
mod complete;
mod format;
mod info;
mod lint;
mod list;
mod listen;
mod names;
mod prompt;
mod read;
mod search;

use std::sync::Arc;

use mcp_agent::filter::ToolFilter;
use mcp_client::Client;
use mcp_protocol::{JsonObject, Tool};

pub(crate) use self::{
    format::{check_strict, print as print_definitions},
    info::{describe as describe_server, to_json as server_to_json},
    list::{RESOURCE_COLUMNS, resource_row, show_prompt, show_prompts, show_tool, template_row},
    search::{print as print_found, query},
};
use crate::{
    answers::Answers,
    args::{Command, Options},
    failure::Failure,
    input::Input,
    output::Output,
    requests::Requests,
    text::line,
};

/// An open connection with its output and input.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) out: Output,
    pub(crate) answers: Arc<Answers>,
    pub(crate) input: Input,
    /// The tools that the configuration offers. `None` for a server without a configuration.
    pub(crate) filter: Option<ToolFilter>,
    pub(crate) requests: Requests,
}

impl Session {
    pub(crate) fn new(client: Client, options: &Options, answers: Arc<Answers>, input: Input) -> Self {
        let requests = Requests::of_client(client.clone());
        Self { client, out: Output::new(options.json), answers, input, filter: None, requests }
    }

    /// Rejects a tool that the configuration does not offer.
    pub(crate) fn check_allowed(&self, name: &str) -> Result<(), Failure> {
        let tool = Tool::new(name, JsonObject::default());
        if self.filter.as_ref().is_none_or(|filter| filter.accepts(&tool)) {
            return Ok(());
        }
        Err(Failure::usage(format!("the configuration of the server does not allow the tool `{}`", line(name))))
    }

    /// Returns whether the configuration offers a tool.
    pub(crate) fn offers(&self, tool: &Tool) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.accepts(tool))
    }
}

/// Runs one command. Its words no longer contain the server.
pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let done = run_command(session, command).await;
    done.map_err(|failure| failure.in_revision(session.client.negotiated().version))
}

async fn run_command(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Tools { words, format: None, .. } => list::tools(session, optional(&words.words)?).await,
        Command::Tools { words, format: Some(format), strict } => {
            format::tools(session, optional(&words.words)?, format.provider(), strict).await
        }
        Command::Search { words, limit } => search::search(session, &words.words, limit).await,
        Command::Call { words, output, format } => call::call(session, &words.words, output.as_deref(), format).await,
        Command::Resources(words) => {
            no_words(&words.words)?;
            list::resources(session).await
        }
        Command::Read { words, output } => read::read(session, required(&words.words)?, output.as_deref()).await,
        Command::Prompts(words) => list::prompts(session, optional(&words.words)?).await,
        Command::Prompt(words) => prompt::prompt(session, &words.words).await,
        Command::Complete(words) => complete::complete(session, &words.words).await,
        Command::Ping { words, count } => {
            no_words(&words.words)?;
            info::ping(session, count).await
        }
        Command::Listen(words) => listen::listen(session, words.words).await,
        Command::Lint { words, strict } => {
            no_words(&words.words)?;
            lint::lint(session, strict).await
        }
        Command::Info(words) => {
            no_words(&words.words)?;
            info::info(session)
        }
        Command::Shell(_) => Err(Failure::usage("the shell is already open")),
        Command::Account(_) => Err(Failure::usage("the shell has no commands about logins; run them outside of it")),
        Command::Configuration(_) => {
            Err(Failure::usage("the shell does not change configurations; run the command outside of it"))
        }
        Command::Serving(_) => Err(Failure::usage("the shell does not serve; run the command outside of it")),
        Command::New { .. } => Err(Failure::usage("a new project needs no server; run `mcp new`")),
        Command::Completions { .. } => Err(Failure::usage("completions need no server; run `mcp completions`")),
    }
}

/// Returns the names of the tools; empty if the server offers no tools.
pub(crate) async fn tool_names(session: &Session) -> Result<Vec<String>, Failure> {
    match session.client.list_tools().await {
        Err(error) if error.is_unsupported() => Ok(Vec::new()),
        tools => Ok(tools?.into_iter().filter(|tool| session.offers(tool)).map(|tool| tool.name).collect()),
    }
}

/// Rejects words after the command.
pub(crate) fn no_words(words: &[String]) -> Result<(), Failure> {
    words.first().map_or(Ok(()), |word| Err(unexpected(word)))
}

/// Returns the only word after the command, if there is one.
pub(crate) fn optional(words: &[String]) -> Result<Option<&str>, Failure> {
    match words {
        [] => Ok(None),
        [word] => Ok(Some(word)),
        [_, more, ..] => Err(unexpected(more)),
    }
}

/// Returns the only word after the command.
pub(crate) fn required(words: &[String]) -> Result<&str, Failure> {
    optional(words)?.ok_or_else(|| Failure::usage("the URI of a resource is required"))
}

fn unexpected(word: &str) -> Failure {
    Failure::usage(format!("unexpected argument `{word}`"))
}
