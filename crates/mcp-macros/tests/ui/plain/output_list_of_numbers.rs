//! A handler with the mistake "output list of numbers".

use mcp_server::prelude::*;

async fn primes() -> Vec<u32> {
    vec![2, 3, 5]
}

fn main() {
    let _ = Server::builder("primes", "1.0.0").tool(tool("primes", primes)).build();
}
