//! Compiles the first JSON value of the input as a schema, and validates the second one. The limits are small.
//!
//! Compilation and validation end in bounded time, and both forms of validation agree.

#![no_main]

use std::time::{Duration, Instant};

use fuzz::values;
use libfuzzer_sys::fuzz_target;
use mcp_schema::{Limits, Schema, check_tool_input_schema, header::header_params};

/// Much more than the usual time, because other processes can use the processor.
const LONGEST: Duration = Duration::from_secs(5);

fuzz_target!(|data: &[u8]| {
    let Some([schema, value]) = values(data) else { return };
    let limits = Limits::new().depth(32).size(16 << 10).subschemas(200).branches(50).references(50);
    let limits = limits.patterns(10).pattern_memory(64 << 10).expansion(500).nesting(128);
    let started = Instant::now();
    let _ = check_tool_input_schema(&schema);
    let _ = header_params(&schema);
    let compiled = match Schema::compile_with(&schema, &limits) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            return assert!(started.elapsed() < LONGEST);
        }
    };
    let result = compiled.validate(&value);
    assert_eq!(result.is_ok(), compiled.is_valid(&value));
    if let Err(errors) = result {
        assert!(errors.total() > 0 && errors.first().is_some());
        assert!(errors.to_string().len() < 64 << 10, "{errors}");
    }
    assert!(started.elapsed() < LONGEST, "{:?}", started.elapsed());
});
