//! What the commands do with an open connection.

mod call;
mod complete;
mod info;
mod list;
mod listen;
mod read;

use mcp_client::Client;

use crate::{
    args::{Command, Options},
    failure::Failure,
    input::Input,
    output::Output,
};

/// An open connection, and how its results are shown.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) out: Output,
    pub(crate) input: Input,
}

impl Session {
    pub(crate) fn new(client: Client, options: &Options, input: Input) -> Self {
        Self { client, out: Output::new(options.json), input }
    }
}

/// Runs one command. The words of it no longer hold the server.
pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Tools(words) => list::tools(session, optional(&words.words, "a tool")?).await,
        Command::Call { words, output } => call::call(session, &words.words, output.as_deref()).await,
        Command::Resources(words) => {
            nothing(&words.words)?;
            list::resources(session).await
        }
        Command::Read { words, output } => read::read(session, one(&words.words, "a URI")?, output.as_deref()).await,
        Command::Prompts(words) => list::prompts(session, optional(&words.words, "a prompt")?).await,
        Command::Prompt(words) => read::prompt(session, &words.words).await,
        Command::Complete(words) => complete::complete(session, &words.words).await,
        Command::Ping { words, count } => {
            nothing(&words.words)?;
            info::ping(session, count).await
        }
        Command::Listen(words) => listen::listen(session, words.words).await,
        Command::Info(words) => {
            nothing(&words.words)?;
            info::info(session)
        }
        Command::Shell(_) => Err(Failure::usage("this is the shell already")),
        Command::Completions { .. } => Err(Failure::usage("completions are printed without a server")),
    }
}

fn nothing(words: &[String]) -> Result<(), Failure> {
    optional(words, "nothing").and_then(|word| match word {
        None => Ok(()),
        Some(word) => Err(Failure::usage(format!("`{word}` is one word too many"))),
    })
}

fn optional<'a>(words: &'a [String], what: &str) -> Result<Option<&'a str>, Failure> {
    match words {
        [] => Ok(None),
        [word] => Ok(Some(word)),
        [_, more, ..] => Err(Failure::usage(format!("`{more}` is one word too many: {what} is all that is expected"))),
    }
}

fn one<'a>(words: &'a [String], what: &str) -> Result<&'a str, Failure> {
    optional(words, what)?.ok_or_else(|| Failure::usage(format!("{what} is missing")))
}
