//! The gateway: clients of each revision in front of servers of each revision.

mod approvals;
mod beside_tasks;
mod capabilities;
mod changes;
#[cfg(target_os = "linux")]
mod children;
mod common;
mod completions;
mod connections;
mod exchange;
mod faults;
mod hints;
#[cfg(target_os = "linux")]
mod idle_sessions;
mod interleavings;
mod isolation;
mod items;
mod lapses;
mod lists;
mod loops;
mod mid_question;
mod page_bounds;
mod pages_first;
mod parts;
mod policies;
mod processes;
mod questions;
mod raw_names;
mod raw_questions;
mod records;
mod relay;
mod revisions;
mod rounds;
mod session_ends;
mod sessions;
mod slow_clients;
mod stripped;
mod task_bounds;
mod task_faults;
mod task_lists;
mod task_notices;
mod task_streams;
mod tasks;
mod traces;
mod unlisted;
mod waits;
