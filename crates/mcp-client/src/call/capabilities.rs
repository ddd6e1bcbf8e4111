//! The capabilities that one call declares, in revisions that declare them with each request.

use std::{borrow::Cow, sync::Arc};

use mcp_protocol::{ClientCapabilities, JsonObject, tasks::ext::IDENTIFIER};

use super::{Call, CallOptions, ClientCore};
use crate::connection::{Agreement, MetaTemplate};

impl<T> Call<T> {
    /// Sets the capabilities that this call declares (2026-07-28), instead of those of the client.
    ///
    /// The call never declares more than its handlers answer: elicitation, sampling and roots without a handler are left
    /// out. With [`Call::raw_inputs`] the caller answers, so the call declares all of them. Experimental capabilities and
    /// extensions are declared as they are. The client itself declares the extension for tasks.
    ///
    /// In a session the capabilities are fixed when it begins, so this option has no effect in older revisions. Use a
    /// client of its own for other capabilities there.
    ///
    /// See the example of [`Call::raw_inputs`].
    pub fn capabilities(mut self, capabilities: impl Into<Arc<ClientCapabilities>>) -> Self {
        self.options.capabilities = Some(capabilities.into());
        self
    }
}

/// Returns the metadata of a call that declares capabilities of its own: by an option, or by its own handler.
pub(super) fn own_template(
    core: &ClientCore,
    agreed: &Agreement,
    options: &CallOptions,
    declares_tasks: bool,
) -> Option<Arc<MetaTemplate>> {
    let version = agreed.negotiated.version;
    let call = options.questions.as_deref().filter(|call| call.own().is_some());
    if !version.is_stateless() || (call.is_none() && options.capabilities.is_none()) {
        return None;
    }
    let answered = || core.inbound.handlers.during(call).capabilities();
    let declared = match options.capabilities.as_deref() {
        None => Cow::Owned(core.config.capabilities_with(answered())),
        Some(wanted) if options.raw_inputs => without_tasks(Cow::Borrowed(wanted)),
        Some(wanted) => without_tasks(Cow::Owned(limited(wanted.clone(), &answered()))),
    };
    Some(agreed.call_template(&declared, declares_tasks, || {
        let mut capabilities = ClientCapabilities::clone(&declared);
        if declares_tasks {
            capabilities = capabilities.with_extension(IDENTIFIER, JsonObject::new());
        }
        MetaTemplate::new(version, &capabilities, &core.config.info)
    }))
}

/// Removes the extension for tasks. Without the declaration of the client, a task would be an unexpected result.
fn without_tasks(mut declared: Cow<'_, ClientCapabilities>) -> Cow<'_, ClientCapabilities> {
    if declared.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(IDENTIFIER))
        && let Some(extensions) = &mut declared.to_mut().extensions
    {
        extensions.shift_remove(IDENTIFIER);
    }
    declared
}

/// Removes the capabilities that no handler answers.
fn limited(mut wanted: ClientCapabilities, answered: &ClientCapabilities) -> ClientCapabilities {
    let (has_form, has_url) = (
        wanted.supports_form_elicitation() && answered.supports_form_elicitation(),
        wanted.supports_url_elicitation() && answered.supports_url_elicitation(),
    );
    match &mut wanted.elicitation {
        Some(modes) if has_form || has_url => {
            modes.form = modes.form.take().filter(|_| has_form);
            modes.url = modes.url.take().filter(|_| has_url);
        }
        none => *none = None,
    }
    wanted.sampling = wanted.sampling.filter(|_| answered.supports_sampling());
    if let Some(sampling) = &mut wanted.sampling {
        let handler = answered.sampling.as_ref();
        sampling.tools = sampling.tools.take().filter(|_| answered.supports_sampling_tools());
        sampling.context = sampling.context.take().filter(|_| handler.is_some_and(|handler| handler.context.is_some()));
    }
    wanted.roots = wanted.roots.filter(|_| answered.supports_roots());
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_call_declares_no_capability_without_a_handler() {
        let all = json!({
            "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {},
            "experimental": {"x": {}}, "extensions": {"com.example/a": {}}, "later": 1
        });
        let open = json!({"experimental": {"x": {}}, "extensions": {"com.example/a": {}}, "later": 1});
        let with = |added: Value| {
            let mut open = open.clone();
            open.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
            open
        };
        let read = |value: &Value| serde_json::from_value::<ClientCapabilities>(value.clone()).unwrap();
        for (wanted, answered, expected) in [
            (&all, json!({}), open.clone()),
            (&all, all.clone(), all.clone()),
            (&all, json!({"elicitation": {}}), with(json!({"elicitation": {"form": {}}}))),
            (&all, json!({"elicitation": {"url": {}}}), with(json!({"elicitation": {"url": {}}}))),
            (&all, json!({"sampling": {}}), with(json!({"sampling": {}}))),
            (&all, json!({"roots": {"listChanged": true}}), with(json!({"roots": {}}))),
            (&json!({"elicitation": {}}), json!({"elicitation": {"form": {}, "url": {}}}), json!({"elicitation": {}})),
            (&json!({"elicitation": {}}), json!({"elicitation": {"url": {}}}), json!({})),
            (&json!({}), all.clone(), json!({})),
        ] {
            let declared = limited(read(wanted), &read(&answered));
            assert_eq!(serde_json::to_value(declared).unwrap(), expected, "{wanted} {answered}");
        }
    }
}
