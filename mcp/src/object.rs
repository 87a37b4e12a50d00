//! A JSON object as an ordered list of its members, each value as it was written: what is not touched goes on byte for
//! byte, numbers and unknown members included. A name that stands twice is refused, since two readers could take
//! either.

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Debug, Default)]
pub struct RawObject<'a> {
    members: Vec<RawMember<'a>>,
}

#[derive(Clone, Debug)]
struct RawMember<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
}

/// More members than any message has.
const MOST_MEMBERS: usize = 1000;

impl<'a> RawObject<'a> {
    /// `Err`: a sentence that says what is wrong with it.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    pub fn raw(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|member| member.name == name).map(|member| &*member.value)
    }

    /// A text under this name.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// An object under this name.
    pub fn object(&self, name: &str) -> Option<RawObject<'_>> {
        RawObject::parse(self.raw(name)?).ok()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.name)
    }

    /// `json` in the place of what was there, or at the end.
    pub fn set(&mut self, name: &str, json: impl Into<String>) {
        let value = Cow::Owned(json.into());
        match self.members.iter_mut().find(|member| member.name == name) {
            Some(member) => member.value = value,
            None => self.members.push(RawMember { name: Cow::Owned(name.to_owned()), value }),
        }
    }

    pub fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, Value::from(text).to_string());
    }

    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.name != name);
        self.members.len() < before
    }

    pub fn to_json(&self) -> String {
        let room: usize = self.members.iter().map(|m| m.name.len() + m.value.len() + 6).sum();
        let mut out = String::with_capacity(room + 2);
        out.push('{');
        for (at, member) in self.members.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(&Value::from(&*member.name).to_string());
            out.push(':');
            out.push_str(&member.value);
        }
        out.push('}');
        out
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject<'de>, A::Error> {
                let mut members: Vec<RawMember<'de>> = Vec::new();
                while let Some(name) = map.next_key::<RawMemberName<'de>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    if members.len() >= MOST_MEMBERS {
                        return Err(A::Error::custom("has too many members"));
                    }
                    if members.iter().any(|member| member.name == name.0) {
                        return Err(A::Error::custom(format_args!("has two members called {:?}", name.0)));
                    }
                    members.push(RawMember { name: name.0, value: Cow::Borrowed(value.get()) });
                }
                Ok(RawObject { members })
            }
        }
        deserializer.deserialize_map(MemberVisitor)
    }
}

struct RawMemberName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMemberName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = RawMemberName<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(RawMemberName(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(RawMemberName(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// The items of an array, each as it was written; `None` where it is none.
pub fn items(json: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was_written() {
        let text = r#"{"a":1.50e+0,"b" : { "z":1, "a":[ ] },"\u0061b":"\u00e9"}"#;
        let mut object = RawObject::parse(text).expect("an object");
        assert_eq!(object.to_json(), r#"{"a":1.50e+0,"b":{ "z":1, "a":[ ] },"ab":"\u00e9"}"#);
        object.set_text("a", "x\"y");
        object.set("new", "[1]");
        assert!(object.remove("b") && !object.remove("b"));
        assert_eq!(object.to_json(), r#"{"a":"x\"y","ab":"\u00e9","new":[1]}"#);
        assert_eq!(object.text("ab").as_deref(), Some("é"));
    }

    #[test]
    fn two_members_of_one_name_are_refused() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(RawObject::parse(text).expect_err("refused").contains("two members"), "{text}");
        }
        assert!(RawObject::parse("[]").is_err() && RawObject::parse("{").is_err());
    }
}
