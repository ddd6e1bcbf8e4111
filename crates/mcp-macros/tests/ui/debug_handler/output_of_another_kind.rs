//! A handler with the mistake "output of another kind".

use mcp_server::prelude::*;

#[debug_handler(resource)]
async fn logo() -> Image {
    Image::png(vec![])
}

fn main() {}
