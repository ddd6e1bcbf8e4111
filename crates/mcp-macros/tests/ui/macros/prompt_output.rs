//! A handler with the mistake "prompt output".

use mcp_server::prelude::*;

#[prompt]
async fn answer() -> Image {
    Image::png(vec![])
}

fn main() {
    let _ = Server::builder("server", "1.0.0").prompt(answer::route()).build();
}
