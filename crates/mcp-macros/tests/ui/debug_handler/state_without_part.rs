//! A handler with the mistake "state without part".

use mcp_server::prelude::*;

#[derive(Clone)]
struct App;

#[derive(Clone)]
struct Config;

#[debug_handler(state = App)]
async fn config(State(_config): State<Config>) -> String {
    String::new()
}

fn main() {}
