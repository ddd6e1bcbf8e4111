//! HTTP+SSE (2024-11-05): one stream for all messages of the server. Its first event names the URL for POSTs.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use reqwest::Url;
use tokio::time::timeout;

use crate::{
    config,
    fault::Fault,
    headers::{self, content_type},
    http_request::HttpRequest,
    listen,
    shared::Shared,
    stream::{EventStream, Position},
};

/// The longest wait for the stream, and then for its first event. An authorizer may take longer.
const FIRST_EVENT: Duration = Duration::from_secs(10);

/// Opens the stream. Later messages are posted to the endpoint that it names.
pub(crate) async fn open(shared: &Arc<Shared>) -> Result<(), Fault> {
    let (endpoint, events) = begin(shared).await?;
    if shared.endpoint.set(endpoint).is_ok() {
        shared.tasks.spawn(None, Box::pin(listen(Arc::clone(shared), events)));
    }
    Ok(())
}

async fn begin(shared: &Shared) -> Result<(Url, EventStream), Fault> {
    let limit = FIRST_EVENT.min(shared.config.response_timeout);
    let response = HttpRequest::stream(shared, HeaderMap::new(), None).send(shared, Some(limit)).await?;
    if response.status() != StatusCode::OK {
        let challenges = headers::challenges(response.headers());
        return Err(Fault::Status { status: response.status().as_u16(), challenges });
    }
    let kind = content_type(response.headers());
    if kind != "text/event-stream" {
        return Err(Fault::ContentType(kind));
    }
    let base = response.url().clone();
    let mut events = EventStream::new(response, shared, &Position::default());
    let first = timeout(limit, events.next()).await.map_err(|_| Fault::Silent { after: limit })?;
    let first = match first {
        Some(Ok(first)) => first,
        // Events have no other errors.
        Some(Err(_)) => return Err(Fault::TooLarge { limit: shared.config.max_message }),
        None => return Err(Fault::NoEndpoint),
    };
    if first.event.as_deref() != Some("endpoint") {
        return Err(Fault::NoEndpoint);
    }
    let named = String::from_utf8_lossy(&first.data);
    let endpoint = base.join(named.trim()).map_err(|_| Fault::NoEndpoint)?;
    if !config::is_same_origin(&endpoint, &shared.url) {
        return Err(Fault::ForeignEndpoint { origin: config::origin(&endpoint) });
    }
    Ok((endpoint, events))
}

/// Delivers the messages of the server. The session ends with the stream, which cannot be resumed.
async fn listen(shared: Arc<Shared>, events: EventStream) {
    listen::read(&shared, events, &mut Position::default(), true).await;
    shared.deliver(Err(Fault::StreamEnded.into_error())).await;
    shared.close();
}
