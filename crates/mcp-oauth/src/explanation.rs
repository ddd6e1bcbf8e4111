//! The explanation of a discovery, for a person who wants to know why a login fails.

use url::Url;

use crate::{error::Error, oauth::OAuth, trail::DiscoveryStep};

/// The discovery of an MCP server, step by step ([`OAuth::explain`]).
///
/// ```no_run
/// # async fn example(auth: &mcp_oauth::OAuth) -> Result<(), Box<dyn std::error::Error>> {
/// let explanation = auth.explain(&"https://mcp.example.com/mcp".parse()?).await?;
/// for step in &explanation.steps {
///     println!("{} {}", step.kind.name(), step.url.as_deref().unwrap_or_default());
///     for check in step.checks.iter().filter(|check| check.failure.is_some()) {
///         println!("  {}: {}", check.rule, check.rule.remedy());
///     }
/// }
/// if let Some(error) = &explanation.error {
///     println!("a login fails: {error}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation {
    /// The steps, in their order.
    pub steps: Vec<DiscoveryStep>,
    /// The error with which a login fails before the user is asked. `None` if the discovery finds no obstacle.
    pub error: Option<Error>,
}

impl OAuth {
    /// Runs the discovery of a login, and returns each step: the documents, the rules that were checked, and the applied
    /// quirks.
    ///
    /// It sends no credentials, registers no client and asks no user. The first request is `tools/list` without
    /// authorization, for the challenge of the server.
    ///
    /// # Errors
    /// If this value serves too many servers already. An error of the discovery is [`Explanation::error`].
    pub async fn explain(&self, server: &Url) -> Result<Explanation, Error> {
        Ok(self.session(server)?.explain().await)
    }
}
