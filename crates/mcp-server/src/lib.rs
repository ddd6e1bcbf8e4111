//! Write Model Context Protocol servers: typed handlers once, every revision, stdio and HTTP.
