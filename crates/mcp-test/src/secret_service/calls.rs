//! The bus, and the method calls to the Secret Service.

use std::{collections::HashMap, future::poll_fn, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use tokio::net::{UnixListener, UnixStream};
use zbus::{
    Connection, Guid, Message, MessageStream,
    connection::Builder,
    export::futures_core::Stream as _,
    message::Type,
    zvariant::{ObjectPath, OwnedObjectPath, OwnedValue, Value},
};

use super::state::State;

const COLLECTION: &str = "/org/freedesktop/secrets/collection/login";
const PROMPT: &str = "/org/freedesktop/secrets/prompt/1";
const SESSION: &str = "/org/freedesktop/secrets/session/1";
/// The path of a missing object.
const NONE: &str = "/";

/// Serves each connection until the future is dropped.
pub(super) async fn serve(listener: UnixListener, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        // A connection that fails ends: its client reports the error.
        tokio::spawn(async move { serve_connection(stream, &state).await });
    }
}

async fn serve_connection(stream: UnixStream, state: &Mutex<State>) -> zbus::Result<()> {
    let builder = Builder::unix_stream(stream).server(Guid::generate())?.p2p();
    let mut messages = builder.build_message_stream().await?;
    let bus = Connection::from(&messages);
    while let Some(message) = next(&mut messages).await {
        let message = message?;
        if message.message_type() == Type::MethodCall {
            let delay = state.lock().search_delay;
            if !delay.is_zero() && message.header().member().is_some_and(|member| member.as_str() == "SearchItems") {
                tokio::time::sleep(delay).await;
            }
            answer(&bus, state, &message).await?;
        }
    }
    Ok(())
}

async fn next(messages: &mut MessageStream) -> Option<zbus::Result<Message>> {
    poll_fn(|cx| Pin::new(&mut *messages).poll_next(cx)).await
}

/// The arguments and results of the methods.
type Transferred = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

async fn answer(bus: &Connection, state: &Mutex<State>, call: &Message) -> zbus::Result<()> {
    let (header, body) = (call.header(), call.body());
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    let interface = text(header.interface().map(|name| name.as_str()));
    let member = text(header.member().map(|name| name.as_str()));
    let path = text(header.path().map(|path| path.as_str()));
    let is_bus = interface == "org.freedesktop.DBus";
    let (is_stopped, is_locked) = {
        let state = state.lock();
        (state.is_stopped, state.is_locked)
    };
    if is_stopped && !is_bus {
        let name = "org.freedesktop.DBus.Error.ServiceUnknown";
        return bus.reply_error(&header, name, &"no program provides the service").await;
    }
    let is_secret = matches!(&*member, "GetSecret" | "SetSecret" | "CreateItem");
    if is_secret && is_locked {
        return bus.reply_error(&header, "org.freedesktop.Secret.Error.IsLocked", &"the collection is locked").await;
    }
    match &*member {
        "Hello" => bus.reply(&header, &":1.1").await,
        "AddMatch" | "RemoveMatch" => bus.reply(&header, &()).await,
        "OpenSession" => bus.reply(&header, &(Value::from(""), path_of(SESSION)?)).await,
        "ReadAlias" => bus.reply(&header, &(path_of(COLLECTION)?,)).await,
        "SearchItems" => {
            let attributes: HashMap<String, String> = body.deserialize()?;
            let found = items(&state.lock().search(&attributes))?;
            let (unlocked, locked) = if is_locked { (Vec::new(), found) } else { (found, Vec::new()) };
            bus.reply(&header, &(unlocked, locked)).await
        }
        "Unlock" => {
            let objects: Vec<OwnedObjectPath> = body.deserialize()?;
            let (unlocked, prompt) = if is_locked { (Vec::new(), PROMPT) } else { (objects, NONE) };
            bus.reply(&header, &(unlocked, path_of(prompt)?)).await
        }
        "Prompt" => {
            bus.reply(&header, &()).await?;
            let (dismisses, ignores) = {
                let mut state = state.lock();
                state.prompts += 1;
                state.is_locked &= state.dismisses || state.ignores;
                (state.dismisses, state.ignores)
            };
            if ignores {
                return Ok(());
            }
            let result = (dismisses, Value::from(""));
            bus.emit_signal(None::<&str>, &*path, &*interface, "Completed", &result).await
        }
        "GetSecret" => {
            let secret = entry(&path).and_then(|number| Some(state.lock().entries.get(number)?.secret.clone()));
            let secret: Transferred =
                (path_of(SESSION)?.into(), Vec::new(), secret.unwrap_or_default(), "text/plain".into());
            bus.reply(&header, &(secret,)).await
        }
        "SetSecret" => {
            let (.., secret, _): Transferred = body.deserialize()?;
            if let Some(entry) = entry(&path).and_then(|number| state.lock().entries.get_mut(number).map(|_| number)) {
                state.lock().entries[entry].secret = secret;
            }
            bus.reply(&header, &()).await
        }
        "CreateItem" => {
            let (mut properties, (.., secret, _), _): (HashMap<String, OwnedValue>, Transferred, bool) =
                body.deserialize()?;
            let attributes = properties.remove("org.freedesktop.Secret.Item.Attributes");
            let attributes = attributes.and_then(|attributes| HashMap::try_from(attributes).ok()).unwrap_or_default();
            let number = state.lock().insert(attributes, secret);
            bus.reply(&header, &(items(&[number])?.remove(0), path_of(NONE)?)).await
        }
        "Get" => {
            let (_, name): (String, String) = body.deserialize()?;
            let value = match &*name {
                "Collections" => Value::from(vec![path_of(COLLECTION)?]),
                "Locked" => Value::from(is_locked),
                "Items" => {
                    let all: Vec<usize> =
                        if state.lock().is_hiding() { Vec::new() } else { (0..state.lock().entries.len()).collect() };
                    Value::from(items(&all)?.into_iter().map(OwnedObjectPath::into_inner).collect::<Vec<_>>())
                }
                _ => Value::from(entry(&path).unwrap_or_default() as u64),
            };
            bus.reply(&header, &(value,)).await
        }
        _ => bus.reply_error(&header, "org.freedesktop.DBus.Error.UnknownMethod", &member).await,
    }
}

fn path_of(path: &str) -> zbus::Result<ObjectPath<'_>> {
    Ok(ObjectPath::try_from(path)?)
}

/// Returns the paths of entries.
fn items(numbers: &[usize]) -> zbus::Result<Vec<OwnedObjectPath>> {
    numbers.iter().map(|number| Ok(OwnedObjectPath::try_from(format!("{COLLECTION}/{number}"))?)).collect()
}

/// Returns the number of the entry with a path.
fn entry(path: &str) -> Option<usize> {
    path.strip_prefix(COLLECTION)?.strip_prefix('/')?.parse().ok()
}
