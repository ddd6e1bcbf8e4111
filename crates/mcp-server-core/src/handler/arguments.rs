//! The argument list of a handler: a tuple of extractors.

use std::future::Future;

use super::{Description, FromCall, FromCallParts, HandlerCall, ToolError};

/// A tuple of extractors. `V` keeps the two kinds of last arguments apart.
#[expect(unnameable_types, reason = "code never has to name the trait")]
pub trait FromCallAll<S, V>: Sized + Send {
    /// Collects the descriptions of the extractors.
    fn describe(description: &mut Description);

    /// Extracts the values from a call.
    fn from_call(call: HandlerCall, state: &S) -> impl Future<Output = Result<Self, ToolError>> + Send;
}

impl<S: Sync> FromCallAll<S, ()> for () {
    fn describe(_description: &mut Description) {}

    async fn from_call(_call: HandlerCall, _state: &S) -> Result<Self, ToolError> {
        Ok(())
    }
}

macro_rules! impl_from_call_all {
    ([$($part:ident),*], $last:ident) => {
        #[allow(non_snake_case, reason = "the type parameters name the arguments as well")]
        impl<S, V, $($part,)* $last> FromCallAll<S, (V,)> for ($($part,)* $last,)
        where
            S: Send + Sync + 'static,
            $($part: FromCallParts<S> + Send,)*
            $last: FromCall<S, V> + Send,
        {
            fn describe(description: &mut Description) {
                $(<$part as FromCallParts<S>>::describe(description);)*
                <$last as FromCall<S, V>>::describe(description);
            }

            #[allow(unused_mut, reason = "a handler of one argument has no parts to extract")]
            async fn from_call(mut call: HandlerCall, state: &S) -> Result<Self, ToolError> {
                $(let $part = $part::from_call_parts(&mut call.parts, state).await?;)*
                let $last = $last::from_call(call, state).await?;
                Ok(($($part,)* $last,))
            }
        }
    };
}

impl_from_call_all!([], T1);
impl_from_call_all!([T1], T2);
impl_from_call_all!([T1, T2], T3);
impl_from_call_all!([T1, T2, T3], T4);
impl_from_call_all!([T1, T2, T3, T4], T5);
impl_from_call_all!([T1, T2, T3, T4, T5], T6);
impl_from_call_all!([T1, T2, T3, T4, T5, T6], T7);
impl_from_call_all!([T1, T2, T3, T4, T5, T6, T7], T8);
