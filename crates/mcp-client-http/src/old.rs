//! HTTP+SSE (2024-11-05): one stream for everything the server says, which begins with where to post to.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use reqwest::Url;
use tokio::time::timeout;

use crate::{
    config,
    exchange::Exchange,
    fault::Fault,
    headers::content_type,
    link::Link,
    listen,
    stream::{Events, Place},
};

/// The longest wait for the stream, and then for its first event. An authorizer may take longer.
const FIRST_EVENT: Duration = Duration::from_secs(10);

/// Opens the stream. From then on messages are posted to the endpoint that it names.
pub(crate) async fn open(link: &Arc<Link>) -> Result<(), Fault> {
    let (endpoint, events) = begin(link).await?;
    if link.endpoint.set(endpoint).is_ok() {
        link.tasks.spawn(None, listen(Arc::clone(link), events));
    }
    Ok(())
}

async fn begin(link: &Link) -> Result<(Url, Events), Fault> {
    let limit = FIRST_EVENT.min(link.config.response_timeout);
    let response = Exchange::stream(link, HeaderMap::new(), None).send(link, Some(limit)).await?;
    if response.status() != StatusCode::OK {
        return Err(Fault::Status(response.status().as_u16()));
    }
    let kind = content_type(response.headers());
    if kind != "text/event-stream" {
        return Err(Fault::ContentType(kind));
    }
    let base = response.url().clone();
    let mut events = Events::new(response, link, &Place::default());
    let first = timeout(limit, events.next()).await.map_err(|_| Fault::Silent { after: limit })?;
    let first = match first {
        Some(Ok(first)) => first,
        // Nothing else is wrong with events.
        Some(Err(_)) => return Err(Fault::TooLarge { limit: link.config.max_message }),
        None => return Err(Fault::NoEndpoint),
    };
    if first.event.as_deref() != Some("endpoint") {
        return Err(Fault::NoEndpoint);
    }
    let named = String::from_utf8_lossy(&first.data);
    let endpoint = base.join(named.trim()).map_err(|_| Fault::NoEndpoint)?;
    if !config::is_same_origin(&endpoint, &link.url) {
        return Err(Fault::ForeignEndpoint { origin: config::origin(&endpoint) });
    }
    Ok((endpoint, events))
}

/// Gives on what the server says. The session ends with the stream, and nothing can be resumed.
async fn listen(link: Arc<Link>, events: Events) {
    listen::read(&link, events, &mut Place::default(), true).await;
    link.deliver(Err(Fault::StreamEnded.into_error())).await;
    link.close();
}
