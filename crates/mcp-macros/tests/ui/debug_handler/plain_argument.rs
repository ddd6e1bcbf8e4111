//! A handler with the mistake "plain argument".

use mcp_server::prelude::*;

#[debug_handler]
async fn hello(context: Context, name: String) -> String {
    format!("Hello, {name}! {context:?}")
}

fn main() {}
