//! The streams of a session at any node.
