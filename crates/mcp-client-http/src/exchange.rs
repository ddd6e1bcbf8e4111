//! A request in the future of its caller: it needs a task only if its response is more than one message.

use std::{
    future::poll_fn,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use mcp_protocol::RequestId;
use mcp_transport::Frame;
use parking_lot::{Mutex, MutexGuard};

use crate::shared::Shared;

/// The place in which a request runs. The request and its [`Exchange`] share it.
pub(crate) struct Place(Mutex<State>);

enum State {
    /// The caller polls the request.
    Caller,
    /// The caller receives this response at the end of the poll.
    Answered(Frame),
    /// The request waits for its task.
    Leaving,
    /// A task polls the request.
    Task,
}

impl Place {
    /// Returns the place of a request that runs in a task.
    pub(crate) fn task() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Task)))
    }

    /// Returns once the request runs in a task.
    pub(crate) async fn enter_task(&self) {
        poll_fn(|_| match &mut *self.state() {
            State::Task => Poll::Ready(()),
            // The exchange polls the request in a task next, so no waker is necessary.
            state => {
                *state = State::Leaving;
                Poll::Pending
            }
        })
        .await;
    }

    /// Returns the response to the caller. Gives it back if the request runs in a task.
    pub(crate) fn answer(&self, response: Frame) -> Result<(), Frame> {
        match &mut *self.state() {
            State::Task => Err(response),
            state => {
                *state = State::Answered(response);
                Ok(())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// A request in the future of its caller. It returns the response, or `None` if the transport delivers the response.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    id: RequestId,
    place: Arc<Place>,
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The connection had time to read the end of the stream after the response.
    has_yielded: bool,
}

impl Exchange {
    /// Returns the exchange of a request, whose work receives its place.
    pub(crate) fn new<W: Future<Output = ()> + Send + 'static>(
        shared: &Arc<Shared>,
        id: RequestId,
        work: impl FnOnce(Arc<Place>) -> W,
    ) -> Self {
        let place = Arc::new(Place(Mutex::new(State::Caller)));
        let work = Box::pin(work(Arc::clone(&place)));
        Self { shared: Arc::clone(shared), id, place, work: Some(work), has_yielded: false }
    }
}

impl Future for Exchange {
    type Output = Option<Frame>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let Self { shared, id, place, work: slot, has_yielded } = &mut *self;
        let Some(mut work) = slot.take().filter(|_| !shared.is_closing()) else { return Poll::Ready(None) };
        let is_done = {
            // The pooled connections run on the runtime of the transport. The runtime of a caller can end earlier.
            let _entered = shared.tasks.enter();
            work.as_mut().poll(cx).is_ready()
        };
        let state = mem::replace(&mut *place.state(), State::Task);
        match state {
            State::Caller if !is_done => {
                *place.state() = State::Caller;
                *slot = Some(work);
                Poll::Pending
            }
            State::Answered(response) if !is_done && !*has_yielded => {
                // The end usually follows at once. Then the next request of the caller reuses the connection.
                *has_yielded = true;
                cx.waker().wake_by_ref();
                *place.state() = State::Answered(response);
                *slot = Some(work);
                Poll::Pending
            }
            State::Answered(response) => {
                if !is_done {
                    // The rest of the stream is read, so that its connection can be reused.
                    shared.tasks.spawn(None, work);
                }
                Poll::Ready(Some(response))
            }
            State::Leaving => {
                shared.tasks.spawn(Some(id.clone()), work);
                Poll::Ready(None)
            }
            State::Caller | State::Task => Poll::Ready(None),
        }
    }
}
