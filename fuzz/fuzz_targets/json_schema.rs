//! Compiles the first JSON value of the input as a schema, and validates the second one. The first byte selects the default limits or
//! small ones.
//!
//! Compilation and validation end in bounded time, and both forms of validation agree.

#![no_main]

use std::time::Duration;

use fuzz::{cpu_time, fuzz_target, values};
use mcp_schema::{Limits, Schema, check_tool_input_schema, header::header_params};

/// Much more than the usual CPU time, because the address sanitizer needs a part of it.
const LONGEST: Duration = Duration::from_secs(5);

/// Limits that an input can reach.
fn small() -> Limits {
    let limits = Limits::new().depth(32).size(16 << 10).subschemas(200).branches(50).references(50);
    limits.patterns(10).pattern_memory(64 << 10).expansion(500).nesting(128)
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, data)) = data.split_first() else { return };
    let Some([schema, value]) = values(data) else { return };
    let limits = if *selected == b'd' { Limits::new() } else { small() };
    let started = cpu_time();
    let _ = check_tool_input_schema(&schema);
    let _ = header_params(&schema);
    let compiled = match Schema::compile_with(&schema, &limits) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            return assert!(cpu_time() - started < LONGEST);
        }
    };
    let result = compiled.validate(&value);
    assert_eq!(result.is_ok(), compiled.is_valid(&value));
    if let Err(errors) = result {
        assert!(errors.total() > 0 && errors.first().is_some());
        assert!(errors.to_string().len() < 64 << 10, "{errors}");
    }
    let used = cpu_time() - started;
    assert!(used < LONGEST, "{used:?}");
});
