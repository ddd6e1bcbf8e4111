//! The delivery of a notification to open streams over HTTP without a socket: from the notification to the bytes of its events.

use std::fmt::Display;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use mcp_server::{
    http::{HttpConfig, HttpServer as _},
    prelude::*,
};

use crate::{Failure, builder, endpoint};

/// The notifications before the first counted one. They fill the log of each session, so that each further one removes an entry.
const FILLING: u32 = 256;
/// The streams that receive each notification.
const STREAMS: usize = 64;
const STATE: &str = "bench://state";
const LISTEN: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["bench://state"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// The end of the event of each stream.
const CHANGED: &str = "\"notifications/tools/list_changed\",\"params\":{}}\n\n";
const UPDATED: &str = "\"io.modelcontextprotocol/subscriptionId\":1000000001}}}\n\n";

async fn state() -> &'static str {
    "the state"
}

/// Notifications of GET streams, or of subscriptions of 2026-07-28.
pub(crate) fn notify(count: u32, is_stateless: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = builder().resource(resource(STATE, state)).build();
        let service = server.clone().into_service(HttpConfig::new());
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let request = if is_stateless {
                endpoint::request(Method::POST, &endpoint::stateless("subscriptions/listen", None), LISTEN)?
            } else {
                endpoint::request(Method::GET, &endpoint::open(&service).await?, "")?
            };
            let mut stream = service.handle(request).await.into_body();
            next(&mut stream, if is_stateless { "acknowledged" } else { "retry:" }, str::contains).await?;
            streams.push(stream);
        }
        let wanted = if is_stateless { UPDATED } else { CHANGED };
        for _ in 0..FILLING + count {
            if is_stateless {
                server.notify().resource_updated(STATE);
            } else {
                server.notify().tools_changed();
            }
            for stream in &mut streams {
                next(stream, wanted, str::ends_with).await?;
            }
        }
        Ok(())
    })
}

/// Reads the next event of a stream.
///
/// # Errors
/// If the stream ends, or if the event is another one.
async fn next(
    stream: &mut (impl BodyExt<Data = Bytes, Error: Display> + Unpin),
    wanted: &'static str,
    is_wanted: fn(&str, &'static str) -> bool,
) -> Result<(), Failure> {
    let frame = stream.frame().await.ok_or("a stream ended")?.map_err(|error| error.to_string())?;
    let event = frame.data_ref().map_or("", |data| str::from_utf8(data).unwrap_or_default());
    match is_wanted(event, wanted) {
        true => Ok(()),
        false => Err(format!("a wrong event: {event}").into()),
    }
}
