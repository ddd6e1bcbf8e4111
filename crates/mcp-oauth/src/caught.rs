//! Panics in parts of the application.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

use crate::error::{Error, ErrorKind};

/// Runs work of the application. A panic in it is an error that names its part.
pub(crate) async fn caught<T>(part: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(Error::new(ErrorKind::Panic, format!("{part} panicked")))))
    })
    .await
}
