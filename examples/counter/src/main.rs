//! A counter: 8 tools, 2 prompts and 2 resources, over stdio, or over HTTP if an argument names the address.

use std::sync::{Arc, atomic::AtomicI64, atomic::Ordering::SeqCst};

use mcp_server::prelude::*;

type Counter = Arc<AtomicI64>;

/// Increment the counter by 1.
#[tool(additive)]
async fn increment(State(counter): State<Counter>) -> String {
    (counter.fetch_add(1, SeqCst) + 1).to_string()
}

/// Decrement the counter by 1.
#[tool(additive)]
async fn decrement(State(counter): State<Counter>) -> String {
    (counter.fetch_sub(1, SeqCst) - 1).to_string()
}

/// Return the value of the counter.
#[tool(read_only)]
async fn get_value(State(counter): State<Counter>) -> String {
    counter.load(SeqCst).to_string()
}

/// Work for 10 seconds. Clients can run the work as a task.
#[tool(long_running)]
async fn long_task() {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
}

/// Say hello to the client.
#[tool(read_only)]
async fn say_hello() -> &'static str {
    "hello"
}

/// Repeat a message.
#[tool(read_only)]
async fn echo(message: String) -> String {
    message
}

/// Add two numbers.
#[tool(read_only)]
async fn sum(a: i64, b: i64) -> String {
    (a + b).to_string()
}

/// Return the id of the session.
#[tool(read_only)]
async fn get_session_id(context: Context) -> String {
    context.session_id().unwrap_or("no session").to_owned()
}

/// A prompt with one argument.
#[prompt]
async fn example_prompt(message: String) -> String {
    format!("This is an example prompt with your message: '{message}'")
}

/// Analyze the value of the counter, and suggest the next steps.
#[prompt(name = "counter_analysis")]
async fn analysis(State(counter): State<Counter>, goal: i64, #[arg(default = "careful")] strategy: String) -> String {
    let value = counter.load(SeqCst);
    format!("The counter is {value}, and its goal is {goal}. Suggest {strategy} steps to reach the goal.")
}

#[resource("str:///some/path", name = "cwd")]
async fn cwd() -> &'static str {
    "/some/path"
}

#[resource("memo://insights")]
async fn insights() -> &'static str {
    "Business Intelligence Memo\n\nAnalysis has revealed 5 key insights …"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("counter", "1.0.0").tool(increment::route()).tool(decrement::route());
    let server = server.tool(get_value::route()).tool(long_task::route()).tool(say_hello::route()).tool(echo::route());
    let server = server.tool(sum::route()).tool(get_session_id::route()).prompt(example_prompt::route());
    let server = server.prompt(analysis::route()).resource(cwd::route()).resource(insights::route());
    let server = server.with_state(Counter::default()).build();
    match std::env::args().nth(1) {
        Some(address) => Ok(server.serve_http(address).await?),
        None => Ok(server.serve_stdio().await?),
    }
}
