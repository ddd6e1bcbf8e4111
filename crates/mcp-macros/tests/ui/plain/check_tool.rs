//! A checked handler of a tool with the mistake "output of another kind".

use mcp_server::check;

async fn show() -> u64 {
    7
}

const _: () = check::tool::<(), _, _>(&show);

fn main() {}
