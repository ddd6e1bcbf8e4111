//! A handler with the mistake "unmarked extractor".

use mcp_server::prelude::*;

type MaybeCaller = Option<Principal>;

#[tool]
async fn show(caller: MaybeCaller) -> String {
    format!("{caller:?}")
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(show::route()).build();
}
