//! Sampling requests, answered by a program of the user's choice after the user's consent.

use std::{
    io,
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mcp_client::InputContext;
use mcp_protocol::{CreateMessageParams, CreateMessageResult, ErrorCode, Role, RpcError, SamplingBlock};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

use crate::{
    question,
    screen::{note, print},
    text::{line, printable},
};

/// The total timeout of the program.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of characters shown of one message.
const MAX_SHOWN: usize = 2000;
/// The error code of the specification for a request that the user rejects.
const REJECTED: ErrorCode = ErrorCode(-1);

/// A program that answers in place of a model.
#[derive(Debug)]
pub(crate) struct Model {
    program: String,
    /// Whether every request is allowed. Without a terminal, the option `--sample-with` is the consent.
    is_allowed: AtomicBool,
}

impl Model {
    pub(crate) fn new(program: &str) -> Self {
        Self { program: program.to_owned(), is_allowed: AtomicBool::new(!question::is_possible()) }
    }

    /// Runs the program. It reads the request as JSON from stdin, and prints the text of the answer to stdout.
    pub(crate) async fn answer(
        &self,
        request: &InputContext<CreateMessageParams>,
    ) -> Result<CreateMessageResult, RpcError> {
        self.consent(request).await?;
        let failed = |reason: &dyn std::fmt::Display| {
            note(format!("mcp: {}: {reason}", self.program));
            RpcError::internal("the model of the client failed")
        };
        let input = serde_json::to_vec(request.params()).map_err(|error| failed(&error))?;
        let words = shell_words::split(&self.program).map_err(|error| failed(&error))?;
        let (name, args) = words.split_first().ok_or_else(|| failed(&"--sample-with names no program"))?;
        let mut command = Command::new(name);
        command.args(args);
        let output = timeout(TIMEOUT, run(command, input)).await;
        let output = output.map_err(|_| failed(&"the program timed out"))?.map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok(CreateMessageResult::new(name.clone(), SamplingBlock::text(text)))
    }

    /// Shows the request, and asks whether the model may receive it.
    async fn consent(&self, request: &InputContext<CreateMessageParams>) -> Result<(), RpcError> {
        if self.is_allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let server = question::server_name(&request.server().name);
        let text = describe(&server, &self.program, request.params());
        let allowed = question::ask(async |turn| {
            // An answer to an earlier request may allow all requests.
            if self.is_allowed.load(Ordering::Relaxed) {
                return true;
            }
            print(&text);
            let prompt = "Allow it? [y/n/a] (a: allow this request and all following ones) ";
            let answer = question::choose(turn, prompt, &["y", "n", "a"]).await;
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

/// Runs a program with this input, and returns its output. Dropping the future ends the program.
async fn run(mut command: Command, input: Vec<u8>) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input may close it early.
            let _ = stdin.write_all(&input).await;
        }
    };
    // The program may write its answer before it has read the whole input.
    tokio::join!(child.wait_with_output(), write).0
}

/// Returns the text that shows a request to the user.
fn describe(server: &str, program: &str, params: &CreateMessageParams) -> String {
    let tokens = params.max_tokens;
    let mut text = format!("\n{server} requests an answer from your model ({program}), of up to {tokens} tokens:");
    let mut add = |role: &str, content: &str| {
        let rest = content.chars().count().saturating_sub(MAX_SHOWN);
        let shown: String = content.chars().take(MAX_SHOWN).collect();
        let rest = if rest == 0 { String::new() } else { format!(" … and {rest} more characters") };
        text.push_str(&format!("\n  {role}: {}{rest}", printable(&shown)));
    };
    if let Some(system) = &params.system_prompt {
        add("system", system);
    }
    for message in &params.messages {
        let role = if matches!(message.role, Role::User) { "user" } else { "assistant" };
        for block in &message.content.0 {
            match block {
                SamplingBlock::Text(content) => add(role, &content.text),
                SamplingBlock::Image(image) => add(role, &format!("[{}]", line(&image.mime_type))),
                SamplingBlock::Audio(audio) => add(role, &format!("[{}]", line(&audio.mime_type))),
                other => add(role, &serde_json::to_string(other).unwrap_or_default()),
            }
        }
    }
    text
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The data exceeds the capacity of the pipes in both directions.
    #[tokio::test]
    async fn reads_output_while_it_writes_input() {
        let input = vec![b'x'; 1 << 20];
        let output = timeout(Duration::from_secs(20), run(Command::new("cat"), input.clone())).await;
        assert!(output.is_ok_and(|output| output.is_ok_and(|output| output.stdout == input)));
    }
}
