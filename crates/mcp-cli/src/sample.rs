//! Answers the server's questions to a model by a program of the user's choice.

use std::{process::Stdio, sync::Arc, time::Duration};

use mcp_client::Asked;
use mcp_protocol::{CreateMessageParams, CreateMessageResult, RpcError, SamplingBlock};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

/// How long the program has.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the program: the request goes in as JSON, the text of the answer comes out.
pub(crate) async fn answer(
    program: Arc<String>,
    asked: Asked<CreateMessageParams>,
) -> Result<CreateMessageResult, RpcError> {
    let failed = |why: &dyn std::fmt::Display| {
        eprintln!("mcp: {program}: {why}");
        RpcError::internal("the model of the client failed")
    };
    let request = serde_json::to_vec(asked.params()).map_err(|error| failed(&error))?;
    let words = shell_words::split(&program).map_err(|error| failed(&error))?;
    let (name, args) = words.split_first().ok_or_else(|| failed(&"no program is named"))?;
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let run = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that answers without reading its input has closed it.
            let _ = stdin.write_all(&request).await;
        }
        child.wait_with_output().await
    };
    let output = timeout(LIMIT, run).await.map_err(|_| failed(&"it took too long"))?.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    Ok(CreateMessageResult::new(name.clone(), SamplingBlock::text(text)))
}
