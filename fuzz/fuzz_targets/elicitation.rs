//! Reads the first JSON value of the input as the schema of a form, and the second one as the answer.
//!
//! The schema of a form is a form again. An accepted answer is valid, and a second acceptance changes nothing.

#![no_main]

use fuzz::{fuzz_target, values};
use mcp_schema::elicitation::{self, Form};

fuzz_target!(|data: &[u8]| {
    let Some([schema, content]) = values(data) else { return };
    let _ = elicitation::check(&schema);
    let _ = Form::from_schema(&schema);
    let Ok(form) = Form::parse(&schema) else { return };
    let written = form.schema();
    let again = Form::parse(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again.fields(), form.fields());
    if let Ok(legacy) = form.legacy_schema() {
        Form::parse(&legacy).unwrap_or_else(|error| panic!("{error}: {legacy}"));
    }
    let accepted = form.accept(&content);
    assert_eq!(accepted.is_ok(), form.validate(&content).is_ok(), "{content}");
    if let Ok(accepted) = accepted {
        assert_eq!(form.accept(&accepted).as_ref(), Ok(&accepted));
        let known = |name: &String| form.fields().iter().any(|field| field.name == *name);
        assert!(accepted.as_object().unwrap().keys().all(known));
    }
});
