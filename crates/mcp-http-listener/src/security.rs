//! The layer between the TCP stream and HTTP: none, or TLS.

use std::{
    convert::Infallible,
    future::{Future, pending},
};

use crate::tcp::Duplex;

/// A layer that wraps each accepted stream.
pub(crate) trait Security: Clone + Send + Sync + 'static {
    /// The stream that carries HTTP.
    type Stream<S: Duplex>: Duplex;
    /// A value of a stream, such as the certificate of the client.
    type Extension: Clone + Send + Sync + 'static;

    /// Runs the handshake, which has a time limit. Returns `None` if the handshake fails.
    fn secure<S: Duplex>(&self, stream: S) -> impl Future<Output = Option<Self::Stream<S>>> + Send;

    /// Returns the value that each request of a stream has in its extensions.
    fn extension<S: Duplex>(stream: &Self::Stream<S>) -> Option<Self::Extension>;

    /// Runs while the listener accepts connections and until it has drained them.
    fn maintain(&self) -> impl Future<Output = Infallible> + Send {
        pending()
    }
}

/// Plain HTTP: the layer returns the stream unchanged.
#[derive(Clone)]
pub(crate) struct Cleartext;

impl Security for Cleartext {
    type Stream<S: Duplex> = S;
    type Extension = Infallible;

    async fn secure<S: Duplex>(&self, stream: S) -> Option<S> {
        Some(stream)
    }

    fn extension<S: Duplex>(_: &S) -> Option<Infallible> {
        None
    }
}
