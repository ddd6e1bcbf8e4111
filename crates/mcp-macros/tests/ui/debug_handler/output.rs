//! A handler with the mistake "output".

use mcp_server::prelude::*;

#[debug_handler]
async fn answer() -> u64 {
    42
}

fn main() {}
