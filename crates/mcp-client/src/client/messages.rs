//! The other messages of a client: notifications, pings, log levels, subscriptions and roots.

use mcp_protocol::{EmptyParams, EmptyResult, LoggingLevel, SetLevelParams, SubscriptionFilter, jsonrpc, method};
use serde::Serialize;

use super::{Client, arguments::object};
use crate::{Error, Notifications, Roots, Subscription, error::Kind};

impl Client {
    /// Sends a notification with any method. `params` serializes to a JSON object; `()` means no parameters.
    ///
    /// # Errors
    /// [`Error::is_invalid_request`] if the parameters are not a JSON object. Else as for every [`Call`](crate::Call).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.notify("vendor/saved", serde_json::json!({ "file": "a.txt" })).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let params = object(&params)?;
        let message = jsonrpc::notification(method, &params).map_err(|error| Error::request(error.to_string()))?;
        let limit = self.core().config.idle_timeout;
        let connection = match limit {
            Some(limit) => self.core().connections.connection_within(limit).await?,
            None => self.core().connections.connection().await?,
        };
        let sending = async {
            let sent = connection.sender.send(connection.notice(method, message)).await;
            sent.map_err(|fault| match fault.is_lasting() {
                true => Kind::Unsendable(fault).into(),
                false => Kind::Transport(fault).into(),
            })
        };
        match limit {
            Some(limit) => {
                let sent = tokio::time::timeout(limit, sending).await;
                sent.unwrap_or_else(|_| Err(Error::timeout(method, limit)))
            }
            None => sending.await,
        }
    }

    /// Sends `ping`, or `server/discover` in 2026-07-28, and waits for the answer.
    ///
    /// # Errors
    /// As for every [`Call`](crate::Call).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ping(&self) -> Result<(), Error> {
        let has_ping = self.version().has_session_methods();
        let limit = self.core().config.ping_timeout;
        if has_ping {
            self.request::<method::Ping>(&EmptyParams::new()).idle_timeout(limit).await?;
        } else {
            self.request::<method::Discover>(&EmptyParams::new()).idle_timeout(limit).fresh().await?;
        }
        Ok(())
    }

    /// Requests log messages from this level on. They are delivered as [notifications](Client::notifications).
    ///
    /// The level holds for this session and later ones. In 2026-07-28 the client sends it with each later call.
    ///
    /// # Errors
    /// As for every [`Call`](crate::Call).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::LoggingLevel;
    ///
    /// client.set_log_level(LoggingLevel::Warning).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), Error> {
        if self.version().has_session_methods() {
            let _: EmptyResult = self.request::<method::SetLevel>(&SetLevelParams::new(level)).await?;
        }
        self.core().connections.set_log_level(level);
        Ok(())
    }

    /// Returns the level of log messages that the client requests: that of [`Client::set_log_level`], or else that of
    /// [`ClientBuilder::log_level`](crate::ClientBuilder::log_level). `None` if the server chooses.
    ///
    /// ```
    /// # fn example(client: &mcp_client::Client) {
    /// use mcp_client::protocol::LoggingLevel;
    ///
    /// if client.log_level().is_none_or(|level| level > LoggingLevel::Debug) {
    ///     println!("debug messages are not requested");
    /// }
    /// # }
    /// # let _ = example;
    /// ```
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.core().connections.log_level()
    }

    /// Returns the notifications that the server sends from now on.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut notifications = client.notifications();
    /// while let Some(notification) = notifications.next().await {
    ///     println!("{}", notification.method());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        self.core().inbound.hub.listen()
    }

    /// Subscribes to changes of lists, resources and tasks. The subscription continues after a reconnection, in every
    /// revision.
    ///
    /// # Errors
    /// If the server rejects the subscription or cannot be reached.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::SubscriptionFilter;
    ///
    /// let mut changes = client.listen(SubscriptionFilter::lists()).await?;
    /// while let Some(change) = changes.next().await {
    ///     println!("{:?}", change?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        Subscription::open(&self.handle, filter).await
    }

    /// Subscribes to changes of these resources alone. See [`Client::listen`].
    ///
    /// # Errors
    /// As for [`Client::listen`].
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut changes = client.subscribe(["config://app"]).await?;
    /// println!("{:?}", changes.next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn subscribe<U: Into<String>>(&self, uris: impl IntoIterator<Item = U>) -> Result<Subscription, Error> {
        self.listen(SubscriptionFilter::new().with_resources(uris)).await
    }

    /// Returns the roots of the client, which can be changed; `None` if [`ClientBuilder::roots`](crate::ClientBuilder::roots) was not called.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// use mcp_client::protocol::Root;
    ///
    /// if let Some(roots) = client.roots() {
    ///     roots.add(Root::new("file:///home/ada/project"))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn roots(&self) -> Option<Roots> {
        self.core().inbound.handlers.roots.clone()
    }
}
