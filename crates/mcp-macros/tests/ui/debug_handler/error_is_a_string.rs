//! A handler with the mistake "error is a string".

use mcp_server::prelude::*;

#[debug_handler]
async fn read() -> Result<String, String> {
    Err("no such file".to_owned())
}

fn main() {}
