//! A handler with the mistake "generic".

use mcp_server::prelude::*;

#[debug_handler]
async fn show<T: Send>(context: Context) -> String {
    format!("{context:?}")
}

fn main() {}
