//! A type's keys and others in one table, with errors that still name the line.
//!
//! `#[serde(flatten)]` would do it, but for the errors: it reads the whole table before it looks at a key, so that
//! nobody knows any more where the key stood, and it does not go together with `deny_unknown_fields`.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// The keys that stand in a table beside those of another type.
pub trait OtherKeys<'de> {
    /// Their names.
    const KEYS: &'static [&'static str];

    /// Takes the value of one of them.
    ///
    /// # Errors
    /// What the value's own reading says.
    fn take<A: MapAccess<'de>>(&mut self, key: &'static str, map: &mut A) -> Result<(), A::Error>;

    /// Why the type's own `key` may not stand here, and what to do instead.
    fn refuse(key: &str) -> Option<&'static str> {
        let _ = key;
        None
    }
}

/// Reads a `T` from a table, a derived one with keys, and what stands there beside it into `others`.
///
/// # Errors
/// An unknown key is answered with those that there are.
pub fn deserialize<'de, T, O, D>(deserializer: D, others: &mut O) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    O: OtherKeys<'de>,
    D: Deserializer<'de>,
{
    struct Table<'a, T, O> {
        others: &'a mut O,
        read: PhantomData<T>,
    }
    impl<'de, T: Deserialize<'de>, O: OtherKeys<'de>> Visitor<'de> for Table<'_, T, O> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            from_map(map, self.others)
        }
    }
    deserializer.deserialize_map(Table { others, read: PhantomData })
}

/// The same from the entries of a table.
///
/// # Errors
/// As [`deserialize`].
pub fn from_map<'de, T, O, A>(map: A, others: &mut O) -> Result<T, A::Error>
where
    T: Deserialize<'de>,
    O: OtherKeys<'de>,
    A: MapAccess<'de>,
{
    T::deserialize(Entries { map, others, keys: &[] })
}

/// A table without the other keys.
struct Entries<'a, A, O> {
    map: A,
    others: &'a mut O,
    /// Those of the type that is read.
    keys: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>, O: OtherKeys<'de>> Deserializer<'de> for Entries<'_, A, O> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(Entries { keys, ..self })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>, O: OtherKeys<'de>> MapAccess<'de> for Entries<'_, A, O> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = seed;
        loop {
            let key = Key { seed, keys: self.keys, others: PhantomData::<O> };
            match self.map.next_key_seed(key)? {
                None => return Ok(None),
                Some(Found::Own(value)) => return Ok(Some(value)),
                Some(Found::Other(key, unused)) => {
                    self.others.take(key, &mut self.map)?;
                    seed = unused;
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Whose a key is.
enum Found<V, S> {
    /// The type's.
    Own(V),
    /// One of the others; the seed was not used.
    Other(&'static str, S),
}

struct Key<S, O> {
    seed: S,
    keys: &'static [&'static str],
    others: PhantomData<O>,
}

impl<'de, S: DeserializeSeed<'de>, O: OtherKeys<'de>> DeserializeSeed<'de> for Key<S, O> {
    type Value = Found<S::Value, S>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, S: DeserializeSeed<'de>, O: OtherKeys<'de>> Visitor<'de> for Key<S, O> {
    type Value = Found<S::Value, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        if let Some(other) = O::KEYS.iter().find(|other| **other == key) {
            return Ok(Found::Other(other, self.seed));
        }
        if let Some(why) = O::refuse(key) {
            return Err(E::custom(format!("`{key}` {why}")));
        }
        if !self.keys.contains(&key) {
            let allowed = |known: &&&str| O::refuse(known).is_none();
            let known: Vec<&str> = O::KEYS.iter().chain(self.keys).filter(allowed).copied().collect();
            return Err(E::custom(format!(
                "unknown field `{key}`, expected one of `{}`",
                known.join("`, `")
            )));
        }
        self.seed.deserialize(key.into_deserializer()).map(Found::Own)
    }

    fn visit_string<E: Error>(self, key: String) -> Result<Self::Value, E> {
        self.visit_str(&key)
    }
}
