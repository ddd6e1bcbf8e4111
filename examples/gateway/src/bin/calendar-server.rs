//! A server with the lengths of months over stdio.

use mcp_server::prelude::*;

/// Count the days of a month.
#[derive(Deserialize, JsonSchema)]
struct DaysInMonth {
    /// The year.
    year: u32,
    /// The month: 1 to 12.
    #[schemars(range(min = 1, max = 12))]
    month: u32,
}

async fn days_in_month(Args(DaysInMonth { year, month }): Args<DaysInMonth>) -> String {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    format!("The month has {days} days.")
}

#[tokio::main]
async fn main() -> Result<(), mcp_server::ServeError> {
    let days = tool("days_in_month", days_in_month).read_only();
    Server::builder("calendar", env!("CARGO_PKG_VERSION")).tool(days).build().serve_stdio().await
}
