//! A value with its place in the text.
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::{Deref, Range};

/// [`toml::Spanned`], which in schemas is the value alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// A value that stands at `span`.
    pub fn new(span: Range<usize>, value: T) -> Self {
        Spanned(toml::Spanned::new(span, value))
    }
}

/// Keys in the order in which they stand in the text. A map has them by the alphabet.
pub(crate) fn as_written<'a, T: 'a>(keys: impl IntoIterator<Item = &'a Spanned<T>>) -> Vec<&'a Spanned<T>> {
    let mut keys: Vec<&Spanned<T>> = keys.into_iter().collect();
    keys.sort_by_key(|key| key.span().start);
    keys
}

impl<T> Deref for Spanned<T> {
    type Target = toml::Spanned<T>;

    fn deref(&self) -> &toml::Spanned<T> {
        &self.0
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
