//! A handler with the mistake "too many arguments".

use mcp_server::prelude::*;

type C = Context;

#[debug_handler]
async fn all(_: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C) -> String {
    String::new()
}

fn main() {}
