//! The scenario format as a JSON schema, for editors.
use serde_json::Value;
use shorthaul_proxy::SenderSpec;

/// The JSON schema (draft 2020-12) of scenario files. Editors that know it complete and check keys.
///
/// # Panics
/// Never: the text is part of the program, and a test reads it.
pub fn schema() -> Value {
    match serde_json::from_str(include_str!("schema.json")) {
        Ok(mut schema) => {
            name_policies(&mut schema);
            schema
        }
        Err(error) => panic!("the schema is no JSON: {error}"),
    }
}

/// The names of policies are those of the gateway's registry.
fn name_policies(schema: &mut Value) {
    let gateway = "/properties/gateways/additionalProperties/properties";
    if let Some(policy) = schema.pointer_mut(&format!("{gateway}/senders/properties/policy")) {
        *policy = serde_json::json!({ "enum": SenderSpec::policies().collect::<Vec<_>>() });
    }
}
