//! Functions of up to 8 arguments, and the futures that they return.

use std::future::Future;

/// A function whose arguments are the tuple `A`.
#[expect(unnameable_types, reason = "code never has to name the trait")]
pub trait Function<A> {
    /// The type that the function returns: a future, if the function is `async`.
    type Returned;

    /// Calls the function.
    fn apply(self, arguments: A) -> Self::Returned;
}

/// A future. The trait is separate from [`Future`] for the text of its error.
#[diagnostic::on_unimplemented(
    message = "the function is not `async`: it returns `{Self}`, which is not a future",
    label = "this function is not `async`",
    note = "write `async fn`, also for a function without an `.await`",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
#[expect(unnameable_types, reason = "code never has to name the trait")]
pub trait Asynchronous {
    /// The output of the future.
    type Output;

    /// Returns the future.
    fn run(self) -> impl Future<Output = Self::Output> + Send
    where
        Self: Send;
}

#[diagnostic::do_not_recommend]
impl<Fut: Future> Asynchronous for Fut {
    type Output = Fut::Output;

    fn run(self) -> impl Future<Output = Self::Output> + Send
    where
        Self: Send,
    {
        self
    }
}

macro_rules! impl_function {
    ($($argument:ident),*) => {
        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case, reason = "the type parameters name the arguments as well")]
        impl<F, R, $($argument),*> Function<($($argument,)*)> for F
        where
            F: FnOnce($($argument),*) -> R,
        {
            type Returned = R;

            fn apply(self, ($($argument,)*): ($($argument,)*)) -> R {
                self($($argument),*)
            }
        }
    };
}

impl_function!();
impl_function!(T1);
impl_function!(T1, T2);
impl_function!(T1, T2, T3);
impl_function!(T1, T2, T3, T4);
impl_function!(T1, T2, T3, T4, T5);
impl_function!(T1, T2, T3, T4, T5, T6);
impl_function!(T1, T2, T3, T4, T5, T6, T7);
impl_function!(T1, T2, T3, T4, T5, T6, T7, T8);
