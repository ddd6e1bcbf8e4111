//! Models: the code of a crate in each order of its threads, with the locks of [loom](https://docs.rs/loom).
//!
//! A crate imports these types in its unit tests in place of the plain ones. Inside of [`check`], loom decides which thread runs at each
//! access. Outside of it they are plain, so the other tests of the crate do not change.
//!
//! Another thread can run before each access, and also after it: a lost wake-up needs a thread between a check and the registration of a
//! waker. The primitives of Tokio, such as `Notify`, run as one step. Tokio has models of their parts.

use std::{
    cell::{Cell, RefCell},
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{
        Arc, PoisonError,
        atomic::{self, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use loom::{
    model::Builder,
    sync::{self as modelled, atomic::AtomicUsize},
};

pub use loom::thread::JoinHandle;

/// The most switches away from a thread that could run, in one execution. `LOOM_MAX_PREEMPTIONS` sets another number.
const PREEMPTIONS: usize = 3;

/// The turns of other threads after which a future that waits has lost its wake-up.
const TURNS: usize = 100;

thread_local! {
    static IS_MODEL: Cell<bool> = const { Cell::new(false) };
    /// The number of steps. It exists before the threads of an execution, which all run in one thread of the system.
    static ORDER: RefCell<Option<Arc<AtomicUsize>>> = const { RefCell::new(None) };
}

/// Runs a scenario once for each order of its threads.
///
/// # Panics
/// If an execution panics.
pub fn check(scenario: impl Fn() + Send + Sync + 'static) {
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            IS_MODEL.set(false);
            ORDER.take();
        }
    }

    IS_MODEL.set(true);
    let _end = End;
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(move || {
        ORDER.set(Some(Arc::new(AtomicUsize::new(0))));
        scenario();
    });
}

/// Starts a thread of a model.
pub fn spawn<T: 'static>(run: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    loom::thread::spawn(|| {
        // Other threads run before the thread, also if its first access is that of a primitive of Tokio.
        step();
        run()
    })
}

/// Whether a future was woken since its last poll.
struct Woken(atomic::AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        step();
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs a future on a thread of a model.
///
/// # Panics
/// If no thread wakes the future. The function of the same name of loom aborts the process instead.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let woken = Arc::new(Woken(atomic::AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut turns = 0;
        while !woken.0.swap(false, Ordering::SeqCst) {
            turns += 1;
            assert!(turns < TURNS, "no thread wakes a future that waits");
            loom::thread::yield_now();
        }
        step();
    }
}

/// Lets another thread run, and orders the next access after all earlier ones. It has no effect outside of a model.
///
/// The registration of a waker at a primitive of Tokio also orders accesses. Loom does not know this order, so a model has no older values
/// of atomics. A model that uses a primitive of Tokio itself calls this function before and after.
pub fn step() {
    let order = ORDER.with_borrow(Clone::clone);
    // A switch while a thread unwinds would hide its panic.
    if let Some(order) = order.filter(|_| !std::thread::panicking()) {
        order.fetch_add(1, Ordering::AcqRel);
    }
}

/// A lock.
pub struct Mutex<T>(Lock<T>);

enum Lock<T> {
    Plain(parking_lot::Mutex<T>),
    Modelled(modelled::Mutex<T>),
}

/// The value of a lock, until the guard is dropped.
#[must_use]
pub struct MutexGuard<'a, T>(Guard<'a, T>);

enum Guard<'a, T> {
    Plain(parking_lot::MutexGuard<'a, T>),
    /// The guard is dropped first.
    Modelled {
        guard: modelled::MutexGuard<'a, T>,
        _step: StepOnDrop,
    },
}

struct StepOnDrop;

impl Drop for StepOnDrop {
    fn drop(&mut self) {
        step();
    }
}

impl<T> Mutex<T> {
    /// Returns a lock with a value.
    pub fn new(value: T) -> Self {
        Self(match IS_MODEL.get() {
            true => Lock::Modelled(modelled::Mutex::new(value)),
            false => Lock::Plain(parking_lot::Mutex::new(value)),
        })
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(match &self.0 {
            Lock::Plain(lock) => Guard::Plain(lock.lock()),
            Lock::Modelled(lock) => {
                let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                Guard::Modelled { guard, _step: StepOnDrop }
            }
        })
    }

    /// Returns true if a guard exists.
    pub fn is_locked(&self) -> bool {
        match &self.0 {
            Lock::Plain(lock) => lock.is_locked(),
            Lock::Modelled(lock) => lock.try_lock().is_err(),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Guard::Plain(guard) => guard,
            Guard::Modelled { guard, .. } => guard,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Guard::Plain(guard) => guard,
            Guard::Modelled { guard, .. } => guard,
        }
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// An atomic value.
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        impl $name {
            /// Returns an atomic value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// Returns the value.
            pub fn load(&self, ordering: Ordering) -> $value {
                step();
                let value = self.0.load(ordering);
                step();
                value
            }

            /// Sets the value.
            pub fn store(&self, value: $value, ordering: Ordering) {
                step();
                self.0.store(value, ordering);
                step();
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU64, u64);

impl AtomicU64 {
    /// Adds a number, and returns the earlier value.
    pub fn fetch_add(&self, number: u64, ordering: Ordering) -> u64 {
        step();
        let earlier = self.0.fetch_add(number, ordering);
        step();
        earlier
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::catch_unwind, sync::atomic::AtomicUsize};

    use tokio::sync::Notify;

    use super::*;

    /// A value whose change wakes its reader.
    struct Changed {
        value: Mutex<bool>,
        news: Notify,
    }

    /// Waits for the change. The code is wrong if `notify` stores no permit.
    fn wait_for_change(notify: fn(&Notify)) {
        let changed = Arc::new(Changed { value: Mutex::new(false), news: Notify::new() });
        let changing = spawn({
            let changed = changed.clone();
            move || {
                *changed.value.lock() = true;
                notify(&changed.news);
            }
        });
        block_on(async {
            while !*changed.value.lock() {
                changed.news.notified().await;
            }
        });
        changing.join().unwrap();
    }

    #[test]
    fn a_model_finds_a_lost_wake_up() {
        check(|| wait_for_change(Notify::notify_one));
        let lost = catch_unwind(|| check(|| wait_for_change(Notify::notify_waiters))).unwrap_err();
        let text = lost.downcast_ref::<String>().map(String::as_str).or(lost.downcast_ref::<&str>().copied());
        assert!(text.is_some_and(|text| text.contains("no thread wakes")), "{text:?}");
    }

    #[test]
    fn a_model_finds_a_lost_update() {
        let count = |adds: fn(&AtomicU64)| {
            move || {
                let number = Arc::new(AtomicU64::new(0));
                let adding = spawn({
                    let number = number.clone();
                    move || adds(&number)
                });
                adds(&number);
                adding.join().unwrap();
                assert_eq!(number.load(Ordering::Relaxed), 2);
            }
        };
        check(count(|number| _ = number.fetch_add(1, Ordering::Relaxed)));
        let lost = count(|number| number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
        assert!(catch_unwind(|| check(lost)).is_err());
    }

    #[test]
    fn primitives_outside_of_a_model_are_plain() {
        let executions = Arc::new(AtomicUsize::new(0));
        check({
            let executions = executions.clone();
            move || {
                executions.fetch_add(1, Ordering::Relaxed);
                let lock = Mutex::new(1);
                let guard = lock.lock();
                assert!(lock.is_locked() && *guard == 1);
            }
        });
        assert!(executions.load(Ordering::Relaxed) > 0);
        let (lock, flag) = (Mutex::new(1), AtomicBool::default());
        *lock.lock() += 1;
        flag.store(true, Ordering::Release);
        assert!(!lock.is_locked() && *lock.lock() == 2 && flag.load(Ordering::Acquire));
    }
}
