//! The tools, the resources and the prompt of the server, with their access rules.

use std::time::Duration;

use mcp_server::{prelude::*, tasks::TaskSupport};

/// The identity of a caller.
#[derive(Serialize, JsonSchema)]
struct Caller {
    subject: String,
    client: Option<String>,
    scopes: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Report {
    /// The year of the report.
    year: u16,
}

async fn whoami(caller: Principal) -> Json<Caller> {
    let scopes = caller.scopes.iter().cloned().collect();
    Json(Caller { subject: caller.subject, client: caller.client_id, scopes })
}

async fn slow(progress: Progress) -> &'static str {
    for second in 1..=10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.report(second, Some(10), "working").await;
    }
    "done"
}

pub(crate) fn server() -> Server {
    Server::builder("protected", env!("CARGO_PKG_VERSION"))
        .tool(
            tool("public", async || "Each caller can use this tool.")
                .description("Returns a text that each caller may read.")
                .read_only(),
        )
        .tool(
            tool("whoami", whoami)
                .description("Returns the identity of the caller.")
                .read_only()
                .requires_authentication(),
        )
        .tool(
            tool("slow", slow)
                .description("Works for ten seconds.")
                .task(TaskSupport::Optional)
                .requires_authentication(),
        )
        .tool(tool("admin", async || "administered").description("Needs the scope `admin`.").requires_scopes(["admin"]))
        .resource(resource("secret://report", async || "The report.").requires_scopes(["reports"]))
        .resource_template(
            template("secret://report/{year}", async |Args(Report { year }): Args<Report>| {
                format!("The report of {year}.")
            })
            .complete_from("year", ["2025", "2026"])
            .requires_scopes(["reports"]),
        )
        .prompt(prompt("report", async || "Summarize secret://report.").requires_scopes(["reports"]))
        .build()
}
