//! The sources of completions for an argument: a fixed list, or a handler.

use std::sync::Arc;

use mcp_protocol::Completion;

use crate::{
    context::Completing,
    handler::{CompletionKind, Erased, Handler, Ready},
};

/// A source of completions. Its handler may still need its state.
pub(crate) enum CompletionSource<S> {
    Handler(Erased<S, CompletionKind>),
    List(Arc<[String]>),
}

impl<S: Clone + Send + Sync + 'static> CompletionSource<S> {
    pub(crate) fn handler<M, H: Handler<M, S, CompletionKind>>(handler: H) -> Self {
        Self::Handler(Erased::new(handler))
    }

    fn with_state<S2: Clone + Send + Sync + 'static>(self, state: S) -> CompletionSource<S2> {
        match self {
            Self::Handler(handler) => CompletionSource::Handler(Erased::ready(handler.with_state(state))),
            Self::List(list) => CompletionSource::List(list),
        }
    }
}

impl<S> CompletionSource<S> {
    pub(crate) fn list<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl CompletionSource<()> {
    fn ready(self) -> Ready<CompletionKind> {
        match self {
            Self::Handler(handler) => handler.with_state(()),
            Self::List(list) => Ready::new(move |call| {
                let list = list.clone();
                Box::pin(async move {
                    let typed = call.parts.context.extension::<Completing>().map_or("", |c| c.value.as_str());
                    Ok(Completion::new(list.iter().filter(|value| value.starts_with(typed)).cloned()))
                })
            }),
        }
    }
}

/// The sources of a prompt or template, by argument.
pub(crate) struct Sources<S>(Vec<(String, CompletionSource<S>)>);

impl<S> Default for Sources<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> Sources<S> {
    /// Adds a source. It replaces an earlier source of the argument.
    pub(crate) fn add(&mut self, argument: String, source: CompletionSource<S>) {
        self.0.retain(|(known, _)| *known != argument);
        self.0.push((argument, source));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Checks that the handlers take no `Inputs`, and no extractor of another kind of handler. No revision allows input
    /// requests in a completion.
    ///
    /// # Errors
    /// Returns the reason for the first argument with such a handler.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, source) in &self.0 {
            let CompletionSource::Handler(handler) = source else { continue };
            if handler.uses_inputs() {
                let text = "takes `Inputs`, but a completion cannot send input requests";
                return Err(format!("the completion of `{name}` {text}"));
            }
            handler.check_extractors().map_err(|reason| format!("the completion of `{name}`: {reason}"))?;
        }
        Ok(())
    }
}

impl<S: Clone + Send + Sync + 'static> Sources<S> {
    pub(crate) fn with_state<S2: Clone + Send + Sync + 'static>(self, state: &S) -> Sources<S2> {
        Sources(self.0.into_iter().map(|(name, source)| (name, source.with_state(state.clone()))).collect())
    }
}

impl Sources<()> {
    pub(crate) fn ready(self) -> Vec<(String, Ready<CompletionKind>)> {
        self.0.into_iter().map(|(name, source)| (name, source.ready())).collect()
    }
}
