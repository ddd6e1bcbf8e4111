//! The names of all requests as an enum, so that a table of methods can be checked for completeness.

use super::*;

macro_rules! request_names {
    ($($variant:ident),* $(,)?) => {
        /// The name of a request that the protocol, or an extension known to this crate, defines.
        ///
        /// The enum is exhaustive on purpose: a dispatcher that matches on it does not compile while it lacks a method.
        /// A new method adds a variant, so that this type is not covered by the promise of compatible releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[doc(hidden)]
        #[expect(clippy::exhaustive_enums, reason = "a dispatcher has to name every method")]
        pub enum RequestName {
            $($variant),*
        }

        impl RequestName {
            /// All names.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Finds the name that a request has on the wire.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                Some(match name {
                    $($variant::NAME => Self::$variant,)*
                    _ => return None,
                })
            }

            /// Returns the name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $variant::NAME),*
                }
            }
        }
    };
}

request_names! {
    Initialize, Ping, Discover, Listen, ListTools, CallTool, ListResources, ListResourceTemplates, ReadResource,
    Subscribe, Unsubscribe, ListPrompts, GetPrompt, Complete, SetLevel, CreateMessage, ListRoots, Elicit, GetTask,
    GetTaskPayload, ListTasks, CancelTask, UpdateTask, ListSkills, GetSkill, ReadDirectory,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_exactly_one_name() {
        for Declaration { name, .. } in REQUESTS {
            assert_eq!(RequestName::parse(name).map(RequestName::as_str), Some(*name), "{name}");
        }
        for name in RequestName::ALL {
            assert!(is_known(name.as_str()), "{name:?}");
            assert_eq!(RequestName::parse(name.as_str()), Some(*name));
        }
        assert_eq!(RequestName::parse("tools/List"), None);
    }
}
