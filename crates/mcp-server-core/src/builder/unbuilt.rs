//! The methods of a built server that programs call on its builder by mistake.
//!
//! They never compile, because no type implements the trait of their bound. The compiler prints the texts of that trait,
//! which name the missing `.build()`. Without these methods it prints "no method named … found".

use super::ServerBuilder;

mod sealed {
    #[diagnostic::on_unimplemented(
        message = "the server is not built: call `.build()` on the builder first",
        label = "`.build()` is missing before this call"
    )]
    #[expect(unnameable_types, reason = "code never has to name the trait")]
    pub trait Built {
        fn never<R>(&self) -> R;
    }
}

/// Writes a method for each name. A parameter accepts each type, and the result has the type that the program expects.
/// The missing `.build()` is therefore the only error.
macro_rules! methods {
    ($($name:ident($($parameter:ident),*))*) => {
        #[doc(hidden)]
        impl<S> ServerBuilder<S> {
            $(
                pub fn $name<R>(&self, $($parameter: impl Sized),*) -> R
                where
                    Self: sealed::Built,
                {
                    $(drop($parameter);)*
                    sealed::Built::never(self)
                }
            )*
        }
    };
}

methods! {
    call_tool(name, arguments)
    into_router(config)
    into_service(config)
    notify()
    serve(transport)
    serve_http(address)
    serve_http_on(listener, config)
    serve_http_with(address, config)
    serve_https(address, tls)
    serve_https_on(listener, tls, config)
    serve_https_with(address, tls, config)
    serve_io(reader, writer)
    serve_stdio()
}
