//! The JSON schema of a body, found by watching what its `Deserialize` asks for: names, types, choices, and what
//! may be left out. So it cannot drift from what is read. Rules that are checked after reading stay untold.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::fmt;

#[derive(Debug)]
struct ProbeEnd;

impl fmt::Display for ProbeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seen enough")
    }
}

impl std::error::Error for ProbeEnd {}

impl serde::de::Error for ProbeEnd {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// What one look told: the fields of the struct, or the type of the one field that was offered.
#[derive(Default)]
struct ProbedFields {
    fields: &'static [&'static str],
    offered: Option<Value>,
}

/// Stands where the body would; offers at most one field.
struct BodyProbe<'s> {
    seen: &'s RefCell<ProbedFields>,
    offer: Option<&'static str>,
}

/// Stands where a field's value would, and notes what is asked of it.
struct Field<'s> {
    seen: &'s RefCell<ProbedFields>,
    nullable: bool,
}

impl Field<'_> {
    fn note<T>(self, mut schema: Value) -> Result<T, ProbeEnd> {
        if self.nullable
            && let Some(kind) = schema.get("type").cloned()
        {
            schema["type"] = json!([kind, "null"]);
        }
        self.seen.borrow_mut().offered.get_or_insert(schema);
        Err(ProbeEnd)
    }
}

macro_rules! notes {
    ($($method:ident => $schema:tt),+ $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeEnd> {
            self.note(json!($schema))
        })+
    };
}

impl<'de> Deserializer<'de> for Field<'_> {
    type Error = ProbeEnd;

    notes! {
        deserialize_any => {}, deserialize_bool => {"type": "boolean"},
        deserialize_i8 => {"type": "integer"}, deserialize_i16 => {"type": "integer"},
        deserialize_i32 => {"type": "integer"}, deserialize_i64 => {"type": "integer"},
        deserialize_u8 => {"type": "integer"}, deserialize_u16 => {"type": "integer"},
        deserialize_u32 => {"type": "integer"}, deserialize_u64 => {"type": "integer"},
        deserialize_f32 => {"type": "number"}, deserialize_f64 => {"type": "number"},
        deserialize_char => {"type": "string"}, deserialize_str => {"type": "string"},
        deserialize_string => {"type": "string"}, deserialize_bytes => {"type": "string"},
        deserialize_byte_buf => {"type": "string"}, deserialize_unit => {"type": "null"},
        deserialize_seq => {"type": "array", "items": {}}, deserialize_map => {"type": "object"},
        deserialize_identifier => {"type": "string"}, deserialize_ignored_any => {},
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeEnd> {
        visitor.visit_some(Field { nullable: true, ..self })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Result<V::Value, ProbeEnd> {
        self.note(json!({"type": "null"}))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ProbeEnd> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, ProbeEnd> {
        self.note(json!({"type": "array", "items": {}}))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Result<V::Value, ProbeEnd> {
        self.note(json!({"type": "array", "items": {}}))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, ProbeEnd> {
        let properties: Map<String, Value> = fields.iter().map(|f| ((*f).to_owned(), json!({}))).collect();
        self.note(json!({"type": "object", "properties": properties}))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, ProbeEnd> {
        self.note(json!({"type": "string", "enum": variants}))
    }
}

impl<'de> Deserializer<'de> for BodyProbe<'_> {
    type Error = ProbeEnd;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeEnd> {
        self.seen.borrow_mut().fields = fields;
        visitor.visit_map(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeEnd> {
        Err(ProbeEnd::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for BodyProbe<'_> {
    type Error = ProbeEnd;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ProbeEnd> {
        self.offer.map(|name| seed.deserialize(StrDeserializer::<ProbeEnd>::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ProbeEnd> {
        seed.deserialize(Field { seen: self.seen, nullable: false })
    }
}

fn look<T: DeserializeOwned>(offer: Option<&'static str>) -> ProbedFields {
    let seen = RefCell::default();
    // The look ends in an error by design; what was asked for on the way is all that counts.
    let _ended = T::deserialize(BodyProbe { seen: &seen, offer }).is_ok();
    seen.into_inner()
}

/// Values that some field of its type takes, by which a required field is told from another.
fn samples() -> [Value; 8] {
    let id = "0194f1f2-0000-7000-8000-000000000000";
    [json!("a"), json!(1), json!(true), json!([]), json!({}), json!("2030-01-01T00:00:00Z"), json!(id), json!(null)]
}

fn sample<T: DeserializeOwned>(name: &str, schema: &Value) -> Value {
    let choice = schema["enum"].get(0).cloned();
    let fits = |v: &Value| {
        let body = Value::Object(Map::from_iter([(name.to_owned(), v.clone())]));
        // An answer about another field means that this one was fine.
        match T::deserialize(body) {
            Ok(_) => true,
            Err(e) => e.to_string().starts_with("missing field"),
        }
    };
    choice.or_else(|| samples().into_iter().find(fits)).unwrap_or_default()
}

pub(crate) fn schema<T: DeserializeOwned>() -> Value {
    let mut properties = Map::new();
    let mut whole = Map::new();
    for name in look::<T>(None).fields {
        let told = look::<T>(Some(name)).offered.unwrap_or_else(|| json!({}));
        let mut next = whole.clone();
        next.insert((*name).to_owned(), sample::<T>(name, &told));
        // Another spelling of a field that is told already.
        if T::deserialize(Value::Object(next.clone())).is_err_and(|e| e.to_string().starts_with("duplicate field")) {
            continue;
        }
        whole = next;
        properties.insert((*name).to_owned(), told);
    }
    let required = |name: &&String| {
        let mut without = whole.clone();
        without.shift_remove(*name);
        let missing = T::deserialize(Value::Object(without));
        missing.is_err_and(|e| e.to_string().starts_with(&format!("missing field `{name}`")))
    };
    let required: Vec<&String> = properties.keys().filter(required).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::time::Timestamp;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        Red,
        DarkBlue,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only looked at")]
    struct Sample {
        #[serde(alias = "title")]
        name: String,
        colour: Colour,
        at: Timestamp,
        count: Option<u64>,
        #[serde(default)]
        tags: Vec<String>,
        any: Value,
    }

    #[test]
    fn a_struct_tells_what_it_reads() {
        assert_eq!(
            schema::<Sample>(),
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "colour": {"type": "string", "enum": ["red", "dark_blue"]},
                    "at": {"type": "string"},
                    "count": {"type": ["integer", "null"]},
                    "tags": {"type": "array", "items": {}},
                    "any": {},
                },
                "required": ["name", "colour", "at", "any"],
            })
        );
    }
}
