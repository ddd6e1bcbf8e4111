//! Answers in memory, which replace the network in a test.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::{
    error::{FetchError, FetchErrorKind},
    response::Response,
};

/// The future of an answer: its status and its JSON document, or `None` if the response is lost.
pub type Answering = Pin<Box<dyn Future<Output = Option<(StatusCode, Bytes)>> + Send>>;

/// Answers the requests by their URLs and bodies.
#[derive(Clone)]
pub(crate) struct Answers(Arc<dyn Fn(Url, Bytes) -> Answering + Send + Sync>);

impl Answers {
    pub(crate) fn new(answer: impl Fn(Url, Bytes) -> Answering + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    /// Returns the response to a request.
    ///
    /// # Errors
    /// If the response is lost.
    pub(crate) async fn response(&self, url: &Url, body: Bytes) -> Result<Response, FetchError> {
        let answer = (self.0)(url.clone(), body).await;
        let lost = || FetchError::new(FetchErrorKind::Connection, "the response is lost");
        let (status, body) = answer.ok_or_else(lost)?;
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Response::new(status, HeaderMap::from_iter([json]), body))
    }
}
