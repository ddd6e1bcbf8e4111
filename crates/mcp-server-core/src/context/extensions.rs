//! Values that a transport or a layer attaches to a request.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
};

/// Values that a transport or a layer attaches to a request, one of each type.
///
/// # Example
/// ```
/// use mcp_server_core::Extensions;
///
/// let mut extensions = Extensions::default();
/// extensions.insert(7_u32);
/// assert_eq!(extensions.get::<u32>(), Some(&7));
/// assert_eq!(extensions.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Extensions {
    /// A few values at most, so a linear search is the fastest.
    list: Option<Arc<Vec<Attached>>>,
}

type Attached = (TypeId, Arc<dyn Any + Send + Sync>);

impl Extensions {
    /// Attaches a value and replaces one of the same type.
    ///
    /// See the [example](Self#example).
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let list = Arc::make_mut(self.list.get_or_insert_default());
        list.retain(|(id, _)| *id != TypeId::of::<T>());
        list.push((TypeId::of::<T>(), Arc::new(value)));
    }

    /// Returns the value of a type.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.list.as_ref()?.iter().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_ref()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("len", &self.list.as_ref().map_or(0, |list| list.len())).finish()
    }
}
