//! Panics of the application's code as values, so that a panic ends one request only.

use std::{
    any::Any,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
};

/// A caught panic. It displays the message of the panic.
pub struct Panic(Box<dyn Any + Send>);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.downcast_ref::<&str>().copied();
        f.write_str(text.or_else(|| self.0.downcast_ref().map(String::as_str)).unwrap_or("not a text"))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Panic({self})")
    }
}

/// Runs a function, and returns its panic as an error.
pub(crate) fn contain<T>(run: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(Panic)
}

/// Runs an async function, and returns its panic as an error, also a panic before the first await.
///
/// # Errors
/// The panic.
pub async fn contain_async<'a, T>(
    start: impl FnOnce() -> Pin<Box<dyn Future<Output = T> + Send + 'a>>,
) -> Result<T, Panic> {
    let mut future = contain(start)?;
    poll_fn(|cx| match contain(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_displays_its_message() {
        let message = |run: fn()| contain(run).err().map(|panic| panic.to_string());
        assert_eq!(message(|| panic!("text")).as_deref(), Some("text"));
        assert_eq!(message(|| panic!("text {}", 1)).as_deref(), Some("text 1"));
        assert_eq!(message(|| std::panic::panic_any(1)).as_deref(), Some("not a text"));
        assert_eq!(message(|| ()), None);
    }

    #[tokio::test]
    async fn contains_a_panic_before_and_after_the_first_await() {
        async fn late() {
            tokio::task::yield_now().await;
            panic!("late");
        }
        let early = contain_async::<()>(|| panic!("early")).await.unwrap_err();
        let late = contain_async(|| Box::pin(late())).await.unwrap_err();
        assert_eq!((early.to_string(), late.to_string()), ("early".to_owned(), "late".to_owned()));
        assert_eq!(contain_async(|| Box::pin(async { 7 })).await.ok(), Some(7));
    }
}
