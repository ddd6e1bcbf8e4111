//! Server stdio in its own process: a clean output, and an end on EOF and on SIGTERM during a read.
//!
//! The test has no harness, because it starts its own program as the server.

#[cfg(unix)]
#[path = "stdio/client.rs"]
mod client;
#[cfg(unix)]
#[path = "stdio/server.rs"]
mod server;

#[cfg(unix)]
fn main() {
    if std::env::var_os(client::ROLE).is_some() {
        server::main();
    } else {
        client::main();
    }
}

#[cfg(not(unix))]
fn main() {}
