//! The logins of a new host.

use mcp_client::oauth::OAuthBuilder;

use super::HostBuilder;
use crate::{config::ServerDefinition, host::logins::Logins};

impl HostBuilder {
    /// Sets the logins at the servers of definitions with a URL. The function returns the settings of the application: its name,
    /// its user agent and its store. The host adds the [OAuth settings](crate::oauth_settings) of the definition.
    ///
    /// A definition with a header `Authorization` has no login. [`HostBuilder::server`] and
    /// [`Host::add`](crate::Host::add) take connectors with an authorizer of their own.
    ///
    /// Use one store for all definitions. A changed definition has a new authorizer, which reads the tokens from the store.
    /// While a user logs in, the server has the state [`NeedsLogin`](crate::ServerState::NeedsLogin).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_agent::{
    ///     Host,
    ///     config::{ConfigFile, Environment, Scope},
    /// };
    /// use mcp_client::oauth::{FileStore, OAuth};
    ///
    /// let file = ConfigFile::read(".mcp.json", Scope::Named, &Environment::of_process())?;
    /// let store = FileStore::open("my-app/tokens")?;
    /// let host = Host::builder("my-app", "1.0")
    ///     .oauth(move |_| OAuth::builder().client_name("my-app").store(store.clone()))
    ///     .config_file(&file)
    ///     .start()
    ///     .await?;
    /// # let _ = host;
    /// # Ok(())
    /// # }
    /// ```
    pub fn oauth(mut self, builder_of: impl Fn(&ServerDefinition) -> OAuthBuilder + Send + Sync + 'static) -> Self {
        self.logins = Logins::new(builder_of);
        self
    }
}
