//! A handler with the mistake "argument without traits".

use mcp_server::prelude::*;

enum Color {
    Red,
}

#[tool]
async fn paint(color: Color) -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(paint::route()).build();
}
