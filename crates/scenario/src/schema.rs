//! The scenario format as a JSON schema, for editors.
use serde_json::Value;

/// The JSON schema (draft 2020-12) of scenario files. Editors that know it complete and check keys.
///
/// # Panics
/// Never: the text is part of the program, and a test reads it.
pub fn schema() -> Value {
    match serde_json::from_str(include_str!("schema.json")) {
        Ok(schema) => schema,
        Err(error) => panic!("the schema is no JSON: {error}"),
    }
}
