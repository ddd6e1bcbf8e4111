//! Answers the server's questions to a model by a program of the user's choice, once the user has seen them.

use std::{
    io,
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mcp_client::Asked;
use mcp_protocol::{CreateMessageParams, CreateMessageResult, ErrorCode, Role, RpcError, SamplingBlock};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

use crate::{
    elicit,
    output::{line, printable},
    screen::{note, say},
};

/// How long the program has.
const LIMIT: Duration = Duration::from_secs(120);
/// Characters that are shown of one message.
const SHOWN: usize = 2000;
/// What a client says whose user does not want it.
const REJECTED: ErrorCode = ErrorCode(-1);

/// A program that answers for a model.
#[derive(Debug)]
pub(crate) struct Model {
    program: String,
    /// Whether the user agrees to every question. Without a terminal nobody can be asked: who names the program agrees.
    is_allowed: AtomicBool,
}

impl Model {
    pub(crate) fn new(program: &str) -> Self {
        Self { program: program.to_owned(), is_allowed: AtomicBool::new(!elicit::possible()) }
    }

    /// Runs the program: the request goes in as JSON, the text of the answer comes out.
    pub(crate) async fn answer(&self, asked: &Asked<CreateMessageParams>) -> Result<CreateMessageResult, RpcError> {
        self.consent(asked).await?;
        let failed = |why: &dyn std::fmt::Display| {
            note(format!("mcp: {}: {why}", self.program));
            RpcError::internal("the model of the client failed")
        };
        let request = serde_json::to_vec(asked.params()).map_err(|error| failed(&error))?;
        let words = shell_words::split(&self.program).map_err(|error| failed(&error))?;
        let (name, args) = words.split_first().ok_or_else(|| failed(&"no program is named"))?;
        let mut command = Command::new(name);
        command.args(args);
        let output = timeout(LIMIT, run(command, request)).await;
        let output = output.map_err(|_| failed(&"it took too long"))?.map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok(CreateMessageResult::new(name.clone(), SamplingBlock::text(text)))
    }

    /// Shows the question, and asks whether the model may have it.
    async fn consent(&self, asked: &Asked<CreateMessageParams>) -> Result<(), RpcError> {
        if self.is_allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = shown(&elicit::name(&asked.server().name), &self.program, asked.params());
        let allowed = elicit::question(async |typing| {
            // Whoever waited may have been allowed meanwhile.
            if self.is_allowed.load(Ordering::Relaxed) {
                return true;
            }
            say(&text);
            let answer =
                elicit::choose(typing, "Let it? [y/n/a] (a: this one and all that follow) ", &["y", "n", "a"]).await;
            if answer == Some("a") {
                self.is_allowed.store(true, Ordering::Relaxed);
            }
            matches!(answer, Some("y" | "a"))
        });
        match allowed.await {
            Some(true) => Ok(()),
            _ => Err(RpcError::new(REJECTED, "the user rejected the request")),
        }
    }
}

/// Runs a program with this input, and gives what it prints. Dropped, it ends the program.
async fn run(mut command: Command, input: Vec<u8>) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A program that answers without reading its input has closed it.
            let _ = stdin.write_all(&input).await;
        }
    };
    // It may answer while it reads.
    tokio::join!(child.wait_with_output(), write).0
}

/// What the user sees of a question.
fn shown(server: &str, program: &str, params: &CreateMessageParams) -> String {
    let mut text = format!("\n{server} wants to ask your model ({program}) for up to {} tokens:", params.max_tokens);
    let mut add = |who: &str, said: &str| {
        let more = said.chars().count().saturating_sub(SHOWN);
        let said: String = said.chars().take(SHOWN).collect();
        let rest = if more == 0 { String::new() } else { format!(" … and {more} characters more") };
        text.push_str(&format!("\n  {who}: {}{rest}", printable(&said)));
    };
    if let Some(system) = &params.system_prompt {
        add("system", system);
    }
    for message in &params.messages {
        let who = if matches!(message.role, Role::User) { "user" } else { "assistant" };
        for block in &message.content.0 {
            match block {
                SamplingBlock::Text(said) => add(who, &said.text),
                SamplingBlock::Image(image) => add(who, &format!("[{}]", line(&image.mime_type))),
                SamplingBlock::Audio(audio) => add(who, &format!("[{}]", line(&audio.mime_type))),
                other => add(who, &serde_json::to_string(other).unwrap_or_default()),
            }
        }
    }
    text
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// More than the pipes between here and there hold, both ways at once.
    #[tokio::test]
    async fn a_program_that_answers_while_it_reads_is_listened_to() {
        let input = vec![b'x'; 1 << 20];
        let output = timeout(Duration::from_secs(20), run(Command::new("cat"), input.clone())).await;
        assert!(output.is_ok_and(|output| output.is_ok_and(|output| output.stdout == input)));
    }
}
