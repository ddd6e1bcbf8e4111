//! The callers that lack access.

/// The access that a caller lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// All scopes that the operation needs, with those of the server. The list is empty if any authenticated caller has
    /// access.
    pub scopes: Vec<String>,
    /// Whether the caller is not authenticated.
    pub is_anonymous: bool,
}

impl Denied {
    /// Adds the scopes of another operation of the same caller.
    pub(crate) fn merge(&mut self, other: Self) {
        for scope in other.scopes {
            if !self.scopes.contains(&scope) {
                self.scopes.push(scope);
            }
        }
    }
}
