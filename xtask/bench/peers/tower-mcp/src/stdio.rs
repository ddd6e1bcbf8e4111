//! A server of one tool over stdin and stdout. The argument selects its form: `without-notifications` or `blocking`.

use tokio::runtime::Builder;
use tower_mcp::{BoxError, StdioTransport, SyncStdioTransport};

mod server;

fn main() -> Result<(), BoxError> {
    let router = server::router();
    let form = std::env::args().nth(1);
    let mut transport = match form.as_deref() {
        // This transport has a runtime of its own.
        Some("blocking") => return Ok(SyncStdioTransport::new(router).run_blocking()?),
        Some("without-notifications") => StdioTransport::without_server_notifications(router),
        _ => StdioTransport::new(router),
    };
    Ok(Builder::new_current_thread().enable_all().build()?.block_on(transport.run())?)
}
