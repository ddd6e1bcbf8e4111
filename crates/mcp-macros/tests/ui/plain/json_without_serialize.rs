//! A handler with the mistake "json without serialize".

use mcp_server::prelude::*;

#[derive(JsonSchema)]
struct Size {
    width: u32,
}

async fn size() -> Json<Size> {
    Json(Size { width: 1 })
}

fn main() {
    let _ = Server::builder("sizes", "1.0.0").tool(tool("size", size)).build();
}
