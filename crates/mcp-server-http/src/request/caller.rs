//! The principal of a request.

use std::sync::Arc;

use mcp_protocol::Principal;

/// Puts the principal behind an `Arc`, because a request reads it more than once and a copy is large.
pub(crate) fn share_principal(extensions: &mut http::Extensions) {
    if let Some(principal) = principal(extensions) {
        extensions.insert(principal);
    }
}

/// Returns the principal that an outer layer has attached.
pub(crate) fn principal(extensions: &http::Extensions) -> Option<Arc<Principal>> {
    let shared = extensions.get::<Arc<Principal>>().cloned();
    shared.or_else(|| extensions.get::<Principal>().cloned().map(Arc::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_principal_is_copied_once() {
        let mut extensions = http::Extensions::new();
        extensions.insert(Principal::new("me"));
        share_principal(&mut extensions);
        let [first, second] = [(); 2].map(|()| principal(&extensions).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
    }
}
