//! The servers of a gateway that need a login: a server starts again after `mcp login` has stored a login at it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_agent::{
    Host,
    config::{Endpoint, ServerDefinition},
};
use mcp_client::oauth::StoredLogin;
use mcp_transport::{AuthorizationClocks, BoxFuture, Connect, Transport, TransportError};
use parking_lot::{Mutex, RwLock};
use tokio::time::sleep;
use url::Url;

use crate::{args::Options, login, screen::warn, servers, text::line};

/// The interval at which the gateway reads the stored login of a server that needs a login.
const INTERVAL: Duration = Duration::from_secs(2);

/// The connectors of the servers at URLs.
#[derive(Clone)]
pub(super) struct Renewable {
    options: Options,
    servers: HashMap<String, (ServerDefinition, Url, Arc<Renewed>)>,
}

/// A connector that changes after a login.
struct Renewed {
    connector: RwLock<Arc<dyn Connect>>,
    /// The stored login at the last change of the connector.
    login: Mutex<Option<StoredLogin>>,
}

impl Renewed {
    fn now(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.connector.read())
    }
}

impl Connect for Renewed {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let now = self.now();
        Box::pin(async move { now.connect().await })
    }

    fn describe(&self) -> String {
        self.now().describe()
    }

    fn identity(&self) -> String {
        self.now().identity()
    }

    fn authorization(&self) -> Option<AuthorizationClocks> {
        self.now().authorization()
    }

    fn starts_process(&self) -> bool {
        self.now().starts_process()
    }
}

impl Renewable {
    pub(super) fn new(options: &Options) -> Self {
        Self { options: options.clone(), servers: HashMap::new() }
    }

    /// Returns the connector of a server, whose login the gateway can renew.
    pub(super) fn wrap(&mut self, server: &ServerDefinition, connector: Arc<dyn Connect>) -> Arc<dyn Connect> {
        let Endpoint::Http(http) = &server.endpoint else { return connector };
        let Ok(url) = Url::parse(&http.url) else { return connector };
        let renewed = Arc::new(Renewed { connector: RwLock::new(connector), login: Mutex::default() });
        self.servers.insert(server.name.clone(), (server.clone(), url, Arc::clone(&renewed)));
        renewed
    }

    /// Returns the remedy for a server that needs a login: the command that logs in, or the change of its entry.
    pub(super) fn remedy(&self, host: &Host, name: &str) -> String {
        let mut command = format!("mcp login {}", shell_words::quote(name));
        if let Some(file) = &self.options.config_file {
            command.push_str(&format!(" --config {}", shell_words::quote(&file.to_string_lossy())));
        }
        let login = format!("`{command}` as the user of the gateway");
        match self.servers.get(name).zip(host.start_error(name)) {
            Some(((server, ..), error)) => servers::remedy(server, &error, &login),
            None => format!("run {login}"),
        }
    }

    /// Waits until the stored login of a server changes, and starts the server again with it.
    pub(super) async fn restart_after_login(&self, host: &Host, name: &str) {
        let Some((server, url, renewed)) = self.servers.get(name) else { return };
        loop {
            sleep(INTERVAL).await;
            let now = login::of(url).await;
            if now.is_some() && now != *renewed.login.lock() {
                *renewed.login.lock() = now;
                break;
            }
        }
        match servers::connector(server, &self.options, false).await {
            Ok(connector) => *renewed.connector.write() = connector,
            Err(failure) => warn(&line(&format!("the server `{name}` failed: {failure}"))),
        }
        host.restart(name);
    }
}
