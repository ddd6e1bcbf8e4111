//! HTTP for Model Context Protocol servers: Streamable HTTP of every revision as a tower service and an axum router.
