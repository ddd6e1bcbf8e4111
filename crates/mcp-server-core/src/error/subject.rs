//! The subject of a fault: the registered item whose function runs now.

use std::{cell::RefCell, future::poll_fn, mem::swap, pin::Pin, sync::Arc};

/// A registered item with a name.
pub(crate) trait Named: Send + Sync {
    /// Returns the kind of the item, such as `tool`.
    fn kind(&self) -> &'static str;

    /// Returns the name or the URI of the item.
    fn name(&self) -> &str;
}

/// The item that a fault names.
pub(crate) type FaultItem = Arc<dyn Named>;

thread_local! {
    static CURRENT: RefCell<Option<FaultItem>> = const { RefCell::new(None) };
}

/// Exchanges the subject of this thread, and exchanges it back when it is dropped.
struct Entered<'a>(&'a mut Option<FaultItem>);

impl<'a> Entered<'a> {
    fn new(subject: &'a mut Option<FaultItem>) -> Self {
        let entered = Self(subject);
        exchange(entered.0);
        entered
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        exchange(self.0);
    }
}

fn exchange(subject: &mut Option<FaultItem>) {
    // A thread that ends has no subject.
    let _ = CURRENT.try_with(|current| swap(&mut *current.borrow_mut(), subject));
}

/// Returns the subject of the code that runs now.
pub(super) fn current() -> Option<FaultItem> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Runs a function for a subject.
pub(crate) fn with_subject<T>(subject: FaultItem, run: impl FnOnce() -> T) -> T {
    let mut subject = Some(subject);
    let _entered = Entered::new(&mut subject);
    run()
}

/// Runs a future for a subject. Tasks that the future spawns have no subject.
pub(crate) fn for_subject<F: Future>(
    mut subject: Option<FaultItem>,
    mut future: Pin<&mut F>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |cx| {
        let _entered = Entered::new(&mut subject);
        future.as_mut().poll(cx)
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::error::contain;

    struct Item(&'static str);

    impl Named for Item {
        fn kind(&self) -> &'static str {
            "tool"
        }

        fn name(&self) -> &str {
            self.0
        }
    }

    fn name() -> Option<String> {
        current().map(|subject| subject.name().to_owned())
    }

    #[tokio::test]
    async fn each_poll_has_the_subject_of_its_future() {
        let nested = async {
            let mut names = vec![name()];
            names.push(with_subject(Arc::new(Item("inner")), name));
            tokio::task::yield_now().await;
            names.push(for_subject(Some(Arc::new(Item("nested"))), pin!(async { name() })).await);
            names.push(for_subject(None, pin!(async { name() })).await);
            names.push(name());
            names
        };
        let names = for_subject(Some(Arc::new(Item("outer"))), pin!(nested)).await;
        let expected = [Some("outer"), Some("inner"), Some("nested"), None, Some("outer")];
        assert_eq!(names, expected.map(|name| name.map(str::to_owned)));
        assert_eq!(name(), None);
        // A panic ends the subject, too.
        assert!(contain(|| with_subject(Arc::new(Item("panics")), || panic!("broken"))).is_err());
        assert_eq!(name(), None);
    }
}
