//! A handler with the mistake "state without part".

use mcp_server::prelude::*;

#[derive(Clone)]
struct App;

async fn name(State(_app): State<App>) -> String {
    String::new()
}

#[derive(Clone)]
struct Config;

async fn config(State(_config): State<Config>) -> String {
    String::new()
}

fn main() {
    let server = Server::builder("names", "1.0.0").tool(tool("name", name)).tool(tool("config", config));
    let _ = server.with_state(App).build();
}
