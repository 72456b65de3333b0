//! The scenario format as a JSON schema, for editors.
use crate::file::File;
use schemars::Schema;

/// The JSON schema (draft 2020-12) of scenario files. Editors that know it complete and check keys.
pub fn schema() -> Schema {
    shorthaul_types::schema::document::<File>()
}
