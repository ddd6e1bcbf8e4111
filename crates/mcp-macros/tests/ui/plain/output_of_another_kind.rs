//! A handler with the mistake "output of another kind".

use mcp_server::prelude::*;

async fn logo() -> Image {
    Image::png(vec![])
}

fn main() {
    let _ = Server::builder("logos", "1.0.0").resource(resource("logo://main", logo)).build();
}
