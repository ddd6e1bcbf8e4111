//! Tools that run as tasks. The conformance suites define the names and texts.

use std::time::Duration;

use mcp_server::{
    ServerBuilder,
    prelude::*,
    tasks::{TaskPolicy, TaskSupport},
};

use crate::{app::App, observations::Observations};

/// A longer call becomes a task if the client supports tasks.
const QUICK: Duration = Duration::from_millis(200);

/// Registers the tools.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    builder
        .task_policy(TaskPolicy::After(QUICK))
        .tool(tool("greet", greet).read_only())
        .tool(tool("slow_compute", slow_compute).task(TaskSupport::Optional).read_only())
        .tool(
            tool("failing_job", failing_job)
                .description("Runs as a task, and fails after a second.")
                .task(TaskSupport::Required),
        )
        .tool(
            tool("protocol_error_job", protocol_error_job)
                .description("Runs as a task that ends with a JSON-RPC error.")
                .long_running(),
        )
        .tool(tool("confirm_delete", confirm_delete).long_running().destructive())
        .tool(tool("multi_input", multi_input).description("Asks two things at once, in a task.").long_running())
        .tool(
            tool("test_tool_with_task", asks_first)
                .description("Asks the user for a name, then continues as a task.")
                .task(TaskSupport::Required),
        )
}

/// Say hello.
#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The name of the person to greet.
    name: String,
}

async fn greet(Args(Greet { name }): Args<Greet>) -> String {
    format!("Hello, {name}!")
}

/// Take some time, as a task if the client supports tasks.
#[derive(Deserialize, JsonSchema)]
struct SlowCompute {
    /// The duration in seconds.
    #[schemars(range(max = 3600))]
    seconds: u32,
    /// The name of the result.
    label: Option<String>,
}

async fn slow_compute(
    State(observations): State<Observations>,
    progress: Progress,
    Args(compute): Args<SlowCompute>,
) -> String {
    let running = observations.start_call();
    let label = compute.label.unwrap_or_else(|| "the computation".into());
    for second in 1..=compute.seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = format!("{label}: {second} of {} seconds", compute.seconds);
        progress.report(second, compute.seconds, status.as_str()).await;
    }
    running.finish();
    format!("{label} is done.")
}

async fn failing_job() -> Result<(), ToolError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err(ToolError::new("This job fails always."))
}

async fn protocol_error_job() -> Result<(), ToolError> {
    tokio::time::sleep(QUICK).await;
    Err(ToolError::protocol(RpcError::internal("This job ends with a protocol error.")))
}

/// Delete a file after the user has confirmed it. This demo deletes nothing.
#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// The file.
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Whether the user confirms the deletion.
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn confirm_delete(inputs: Inputs, Args(Delete { filename }): Args<Delete>) -> Result<String, ToolError> {
    let Confirm { confirm } = inputs.elicit("confirm", format!("Delete {filename}?")).await?;
    Ok(if confirm { format!("Deleted {filename}.") } else { format!("Kept {filename}.") })
}

async fn multi_input(inputs: Inputs) -> Result<String, ToolError> {
    let (name, confirm) = tokio::join!(
        inputs.elicit::<Name>("name", "What is your name?"),
        inputs.elicit::<Confirm>("confirm", "Shall it go on?"),
    );
    let (name, confirm) = (name?.name, confirm?.confirm);
    Ok(format!("{name} said {}.", if confirm { "yes" } else { "no" }))
}

/// The handler sends its first input request before the call becomes a task.
async fn asks_first(inputs: Inputs, context: Context) -> Result<String, ToolError> {
    let Name { name } = inputs.elicit("user_name", "What is your name?").await?;
    context.detach().await;
    tokio::time::sleep(QUICK).await;
    Ok(format!("Hello, {name}, from a task!"))
}
