//! Server stdio in a process of its own: a clean channel, and an end on EOF and on SIGTERM while a read is parked.
//!
//! Without a harness: the test starts itself as the server.

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
