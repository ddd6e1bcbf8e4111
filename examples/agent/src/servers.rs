//! The two servers of the example. Each one runs as a child process.

use std::error::Error;

use mcp_server::prelude::*;

/// The names of the servers.
pub(crate) const NAMES: [&str; 2] = ["notes", "shop"];

/// Find notes by a word.
#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A word of the note.
    words: String,
}

async fn search(Args(Search { words }): Args<Search>) -> Result<String, ToolError> {
    const NOTES: [&str; 2] = ["shopping list: lemons and flour", "call Ada on Monday"];
    let found = NOTES.into_iter().find(|note| note.contains(&words));
    found.map(str::to_owned).ok_or_else(|| ToolError::new(format!("no note contains {words}")))
}

/// Return the price of an item.
#[derive(Deserialize, JsonSchema)]
struct Price {
    /// The name of the item, such as `lemons`.
    item: String,
}

async fn price(Args(Price { item }): Args<Price>) -> Result<String, ToolError> {
    let francs = match item.as_str() {
        "lemons" => 2,
        "flour" => 3,
        _ => return Err(ToolError::new(format!("the shop does not sell {item}"))),
    };
    Ok(format!("{item}: {francs} francs"))
}

/// Serves one of the servers over the standard streams.
pub(crate) async fn serve(name: &str) -> Result<(), Box<dyn Error>> {
    let server = match name {
        "notes" => Server::builder("notes", "1.0").tool(tool("search", search).read_only()),
        "shop" => Server::builder("shop", "1.0").tool(tool("price", price).read_only()),
        _ => return Err(format!("{name} is not a server: {}", NAMES.join(", ")).into()),
    };
    Ok(server.build().serve_stdio().await?)
}
