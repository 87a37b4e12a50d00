//! Shape of chat messages, checked while the body is read: objects with a string `role`, `content` in any
//! of its forms, a string `name`. Contents are skipped, not kept.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

pub(super) struct Messages;

impl<'de> DeserializeSeed<'de> for Messages {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Messages {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`messages` as an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while seq.next_element_seed(MessageVisitor { index })?.is_some() {
            index += 1;
        }
        if index == 0 { Err(A::Error::custom("`messages` must hold at least 1 item")) } else { Ok(()) }
    }
}

struct MessageVisitor {
    index: usize,
}

impl<'de> DeserializeSeed<'de> for MessageVisitor {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`messages[{}]` as an object", self.index)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let at = |field: &str, rule: &str| A::Error::custom(format!("`messages[{}].{field}` {rule}", self.index));
        let mut role = false;
        while let Some(MessageKey(key)) = map.next_key::<MessageKey<'de>>()? {
            let (allowed, rule): (&[Form], &str) = match &*key {
                "role" => (&[Form::Text], "must be a string"),
                "content" => (&[Form::Text, Form::List, Form::Null], "must be a string, an array of parts or null"),
                "name" => (&[Form::Text, Form::Null], "must be a string"),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            role |= key == "role";
            if !allowed.contains(&map.next_value::<Form>()?) {
                return Err(at(&key, rule));
            }
        }
        if role { Ok(()) } else { Err(at("role", "is required")) }
    }
}

#[derive(Deserialize)]
struct MessageKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a value is, its contents skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    List,
    Map,
    Null,
    Scalar,
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(AnyForm)
    }
}

struct AnyForm;

impl<'de> Visitor<'de> for AnyForm {
    type Value = Form;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Form, E> {
        Ok(Form::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Form, E> {
        Ok(Form::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Form, E> {
        Ok(Form::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Form, E> {
        Ok(Form::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Form, E> {
        Ok(Form::Text)
    }

    fn visit_unit<E>(self) -> Result<Form, E> {
        Ok(Form::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Form, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Form::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Form, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Form::Map)
    }
}
