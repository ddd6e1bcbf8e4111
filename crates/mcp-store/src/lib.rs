//! What a fleet of Model Context Protocol nodes shares: key-value, log and pub/sub traits, and a memory implementation.
