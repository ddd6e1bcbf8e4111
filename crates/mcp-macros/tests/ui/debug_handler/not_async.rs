//! A handler with the mistake "not async".

use mcp_server::prelude::*;

#[debug_handler]
fn now() -> String {
    "12:00".to_owned()
}

fn main() {}
