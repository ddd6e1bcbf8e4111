//! A handler with the mistake "state unknown".

use mcp_server::prelude::*;

#[derive(Clone)]
struct Users;

#[derive(Clone)]
struct Config;

#[debug_handler]
async fn config(State(_users): State<Users>, State(_config): State<Config>) -> String {
    String::new()
}

fn main() {}
