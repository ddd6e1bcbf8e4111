//! Macros for declarations that several wire types share.

/// Defines `with_*` setters. Each line names a setter, the kind of its parameter, and the field.
///
/// | kind | parameter | effect |
/// |---|---|---|
/// | `text` | `impl Into<String>` | sets an `Option<String>` |
/// | `flag` | `bool` | sets an `Option<bool>` |
/// | `some` | the given type | sets an `Option` |
/// | `into` | `impl Into` the given type | sets an `Option` |
/// | `push` | the given type | appends to a `Vec` |
/// | `empty` | none | sets an `Option<JsonObject>` to an empty object |
macro_rules! setters {
    ($Type:ident { $($(#[$meta:meta])* $setter:ident = $kind:ident $field:ident $(: $Value:ty)?;)+ }) => {
        impl $Type {
            $(setters! { @$kind [$(#[$meta])* #[must_use]] $setter $field $($Value)? })+
        }
    };
    (@text [$($meta:tt)*] $setter:ident $field:ident) => {
        $($meta)*
        pub fn $setter(mut self, $field: impl Into<String>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
    (@flag [$($meta:tt)*] $setter:ident $field:ident) => {
        $($meta)*
        pub fn $setter(mut self, $field: bool) -> Self {
            self.$field = Some($field);
            self
        }
    };
    (@some [$($meta:tt)*] $setter:ident $field:ident $Value:ty) => {
        $($meta)*
        pub fn $setter(mut self, $field: $Value) -> Self {
            self.$field = Some($field);
            self
        }
    };
    (@into [$($meta:tt)*] $setter:ident $field:ident $Value:ty) => {
        $($meta)*
        pub fn $setter(mut self, $field: impl Into<$Value>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
    (@push [$($meta:tt)*] $setter:ident $field:ident $Value:ty) => {
        $($meta)*
        pub fn $setter(mut self, item: $Value) -> Self {
            self.$field.push(item);
            self
        }
    };
    (@empty [$($meta:tt)*] $setter:ident $field:ident) => {
        $($meta)*
        pub fn $setter(mut self) -> Self {
            self.$field = Some(crate::JsonObject::new());
            self
        }
    };
}

/// Defines the result of a paged `*/list` request that a client may cache.
macro_rules! list_result {
    ($(#[$meta:meta])* $Result:ident { $(#[$items_meta:meta])* $items:ident: $Item:ty }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $Result {
            $(#[$items_meta])*
            pub $items: Vec<$Item>,
            /// The cursor of the next page. Absent on the last page.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub next_cursor: Option<String>,
            /// The time for which a client may cache the page, in milliseconds (2026-07-28).
            #[serde(default, deserialize_with = "crate::json::millis", skip_serializing_if = "Option::is_none")]
            pub ttl_ms: Option<u64>,
            /// The callers that may share a cached page (2026-07-28).
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cache_scope: Option<crate::CacheScope>,
            /// The metadata of the result.
            #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
            pub meta: Option<crate::Meta>,
        }

        impl $Result {
            /// Returns the last page, with these items.
            #[must_use]
            pub fn new($items: Vec<$Item>) -> Self {
                Self { $items, ..Self::default() }
            }
        }

        setters! {
            $Result {
                /// Sets the cursor of the next page.
                with_next_cursor = text next_cursor;
                /// Sets the metadata of the result.
                with_meta = some meta: crate::Meta;
            }
        }
    };
}
