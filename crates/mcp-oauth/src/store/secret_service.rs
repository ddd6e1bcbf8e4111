//! The Secret Service of freedesktop.org, over the session bus of D-Bus.
//!
//! The API is that of <https://specifications.freedesktop.org/secret-service/latest/>. Its sessions have the algorithm `plain`:
//! the bus is a local socket of the user, and each process of the user can ask the service for the secret too.

use std::{collections::HashMap, future::poll_fn, pin::Pin, thread};

use mcp_protocol::auth::Secret;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use zbus::{
    Connection, MatchRule, MessageStream,
    connection::Builder,
    export::futures_core::Stream as _,
    message,
    zvariant::{DeserializeValue, Dict, DynamicType, OwnedObjectPath, OwnedValue, Type, Value},
};

use super::keyring::LIMIT;
use crate::error::{Error, ErrorKind};

const NAME: &str = "org.freedesktop.secrets";
const PATH: &str = "/org/freedesktop/secrets";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";
/// The path of a missing object.
const NONE: &str = "/";

/// One entry of the Secret Service. Its methods block, for at most [`LIMIT`].
pub(super) struct Entry<'a> {
    /// The address of a bus. Without it the bus is that of the session.
    pub(super) bus: Option<&'a str>,
    pub(super) service: &'a str,
    pub(super) account: &'a str,
}

impl Entry<'_> {
    /// Returns the secret. If the service may hide the entry, because a collection is locked, the user is asked to unlock it.
    pub(super) fn read(&self) -> Result<Option<Secret>, Error> {
        self.run(async |service: &Service| match service.find(&self.attributes()).await? {
            Some(item) => service.secret(&item).await.map(Some),
            None => Ok(None),
        })
    }

    /// Writes the secret of the entry that [`read`](Self::read) finds, or creates the entry.
    pub(super) fn write(&self, secret: &Secret) -> Result<(), Error> {
        self.run(async |service: &Service| {
            let value = service.value(secret).await?;
            match service.find(&self.attributes()).await? {
                Some(item) => service.call(&item, ITEM, "SetSecret", &(value,)).await,
                None => {
                    // The attribute is that of libsecret, so its programs show the entry like their own.
                    let mut attributes = self.attributes();
                    attributes.insert("xdg:schema", "org.freedesktop.Secret.Generic");
                    let label = format!("{}: key of the stored logins", self.account);
                    service.create(&label, attributes, value).await
                }
            }
        })
    }

    fn attributes(&self) -> HashMap<&str, &str> {
        HashMap::from([("service", self.service), ("account", self.account)])
    }

    /// Connects to the service and does some work. The thread of the caller may belong to a runtime, which cannot run another
    /// one, so the work has a thread of its own.
    fn run<T: Send>(&self, work: impl AsyncFnOnce(&Service) -> Result<T, Error> + Send) -> Result<T, Error> {
        let failed = |error| Error::with_source(ErrorKind::Store, "the keyring cannot be asked", error);
        let limited = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
            let result = runtime.block_on(async {
                timeout(LIMIT, async { work(&Service::connect(self.bus).await?).await }).await.unwrap_or_else(|_| {
                    let text = format!("the Secret Service did not answer in {} seconds", LIMIT.as_secs());
                    Err(Error::new(ErrorKind::Unavailable, text))
                })
            });
            runtime.shutdown_background();
            result
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, limited).map_err(failed)?;
            let panicked = |_| Err(Error::new(ErrorKind::Store, "the request to the Secret Service panicked"));
            thread.join().unwrap_or_else(panicked)
        })
    }
}

/// A secret as the API transfers it: its session, parameters of the algorithm, the value, and the type of its content.
type Transferred = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

/// A connection to the Secret Service.
struct Service(Connection);

impl Service {
    async fn connect(bus: Option<&str>) -> Result<Self, Error> {
        let builder = bus.map_or_else(Builder::session, Builder::address);
        let connection = async { builder?.build().await }.await;
        let failed =
            |error| Error::with_source(ErrorKind::Store, format!("there is no session bus of D-Bus: {error}"), error);
        connection.map(Self).map_err(failed)
    }

    /// Returns the item with these attributes. If it may be in a locked collection, the user is asked to unlock it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if a collection remains locked that may have the item. A new item would replace it.
    async fn find(&self, attributes: &HashMap<&str, &str>) -> Result<Option<OwnedObjectPath>, Error> {
        let (unlocked, locked) = self.search(attributes).await?;
        if !unlocked.is_empty() {
            return self.oldest(unlocked).await;
        }
        let closed = if locked.is_empty() { self.closed_collections().await? } else { locked };
        if closed.is_empty() {
            return Ok(None);
        }
        let (_, prompt): (Vec<OwnedObjectPath>, _) = self.call(PATH, SERVICE, "Unlock", &(closed,)).await?;
        self.prompt(&prompt).await?;
        let (unlocked, locked) = self.search(attributes).await?;
        if unlocked.is_empty() && (!locked.is_empty() || !self.closed_collections().await?.is_empty()) {
            return Err(still_locked());
        }
        self.oldest(unlocked).await
    }

    /// Returns the unlocked and the locked items with these attributes.
    async fn search(
        &self,
        attributes: &HashMap<&str, &str>,
    ) -> Result<(Vec<OwnedObjectPath>, Vec<OwnedObjectPath>), Error> {
        self.call(PATH, SERVICE, "SearchItems", &(attributes,)).await
    }

    /// Returns the oldest item, so that all processes use the same one of several.
    async fn oldest(&self, items: Vec<OwnedObjectPath>) -> Result<Option<OwnedObjectPath>, Error> {
        let mut oldest: Option<(u64, OwnedObjectPath)> = None;
        for item in items {
            let created = self.property(&item, ITEM, "Created").await?;
            if oldest.as_ref().is_none_or(|(time, other)| (created, item.as_str()) < (*time, other.as_str())) {
                oldest = Some((created, item));
            }
        }
        Ok(oldest.map(|(_, item)| item))
    }

    /// Returns the locked collections that may have an item that a search does not return. GNOME Keyring searches locked
    /// collections too. KeePassXC does not, and lists no items of them. The default collection gets the new items.
    async fn closed_collections(&self) -> Result<Vec<OwnedObjectPath>, Error> {
        let default = self.default_collection().await?;
        let mut closed = Vec::new();
        for collection in self.property::<Vec<OwnedObjectPath>>(PATH, SERVICE, "Collections").await? {
            let is_locked: bool = self.property(&collection, COLLECTION, "Locked").await?;
            if !is_locked {
                continue;
            }
            let items = self.property::<Vec<OwnedObjectPath>>(&collection, COLLECTION, "Items").await;
            if collection == default || items.map_or(true, |items| items.is_empty()) {
                closed.push(collection);
            }
        }
        Ok(closed)
    }

    async fn default_collection(&self) -> Result<OwnedObjectPath, Error> {
        self.call(PATH, SERVICE, "ReadAlias", &("default",)).await
    }

    async fn session(&self) -> Result<OwnedObjectPath, Error> {
        let (_, session): (OwnedValue, _) =
            self.call(PATH, SERVICE, "OpenSession", &("plain", Value::from(""))).await?;
        Ok(session)
    }

    async fn secret(&self, item: &OwnedObjectPath) -> Result<Secret, Error> {
        let session = self.session().await?;
        let (.., value, _): Transferred = self.call(item, ITEM, "GetSecret", &(session,)).await?;
        let text = String::from_utf8(value);
        text.map(Secret::new).map_err(|_| Error::new(ErrorKind::Store, "the entry of the keyring is not a text"))
    }

    async fn value(&self, secret: &Secret) -> Result<Transferred, Error> {
        let value = secret.expose().as_bytes().to_vec();
        Ok((self.session().await?, Vec::new(), value, "text/plain".to_owned()))
    }

    /// Creates an item. An item with the same attributes remains.
    async fn create(&self, label: &str, attributes: HashMap<&str, &str>, value: Transferred) -> Result<(), Error> {
        let collection = self.default_collection().await?;
        if collection.as_str() == NONE {
            let text = "the Secret Service has no default collection for a new entry";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        let properties = HashMap::from([
            ("org.freedesktop.Secret.Item.Label", Value::from(label)),
            ("org.freedesktop.Secret.Item.Attributes", Value::from(Dict::from(attributes))),
        ]);
        let (_, prompt): (OwnedObjectPath, _) =
            self.call(&collection, COLLECTION, "CreateItem", &(properties, value, false)).await?;
        self.prompt(&prompt).await
    }

    /// Shows a prompt to the user, and waits for its end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the user dismisses the prompt.
    async fn prompt(&self, prompt: &OwnedObjectPath) -> Result<(), Error> {
        if prompt.as_str() == NONE {
            return Ok(());
        }
        let subscribed = async {
            let rule = MatchRule::builder().msg_type(message::Type::Signal).interface(PROMPT)?.member("Completed")?;
            MessageStream::for_match_rule(rule.path(prompt.as_str())?.build(), &self.0, Some(1)).await
        };
        let mut completed = subscribed.await.map_err(|error| failed(&error))?;
        let () = self.call(prompt, PROMPT, "Prompt", &("",)).await?;
        let Some(signal) = poll_fn(|cx| Pin::new(&mut completed).poll_next(cx)).await else {
            return Err(Error::new(ErrorKind::Unavailable, "the session bus of D-Bus ended during a prompt"));
        };
        let signal = signal.map_err(|error| failed(&error))?;
        let body = signal.body();
        let (is_dismissed, _): (bool, Value<'_>) = body.deserialize().map_err(|error| failed(&error))?;
        if is_dismissed { Err(still_locked()) } else { Ok(()) }
    }

    async fn property<T: DeserializeOwned + Type>(&self, path: &str, interface: &str, name: &str) -> Result<T, Error> {
        let (properties, arguments) = (Some("org.freedesktop.DBus.Properties"), (interface, name));
        let reply = self.0.call_method(Some(NAME), path, properties, "Get", &arguments).await;
        let reply = reply.map_err(|error| failed(&error))?;
        let body = reply.body();
        let value = body.deserialize::<DeserializeValue<'_, T>>();
        value.map(|value| value.0).map_err(|error| failed(&error))
    }

    async fn call<T: DeserializeOwned + Type>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &(impl Serialize + DynamicType),
    ) -> Result<T, Error> {
        let reply = self.0.call_method(Some(NAME), path, Some(interface), method, arguments).await;
        reply.and_then(|reply| reply.body().deserialize()).map_err(|error| failed(&error))
    }
}

fn still_locked() -> Error {
    Error::new(ErrorKind::Unavailable, "the keyring is locked, and was not unlocked")
}

/// Returns the error of a request. Its source would contain the message.
fn failed(error: &zbus::Error) -> Error {
    let zbus::Error::MethodError(name, text, _) = error else {
        return Error::new(ErrorKind::Store, format!("the request to the Secret Service failed: {error}"));
    };
    let text = text.as_deref().unwrap_or("without a text");
    match name.as_str().rsplit('.').next() {
        Some("IsLocked") => still_locked(),
        Some("ServiceUnknown" | "NameHasNoOwner") => Error::new(ErrorKind::Store, "no Secret Service runs"),
        Some("NoReply" | "Timeout" | "TimedOut") => {
            Error::new(ErrorKind::Unavailable, format!("the Secret Service did not answer: {text}"))
        }
        _ => Error::new(ErrorKind::Store, format!("the Secret Service failed: {}: {text}", name.as_str())),
    }
}
