//! A JSON object in the making, of values that were made here and of members that a client wrote.

use bytes::Bytes;
use serde::Serialize;

#[derive(Debug)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Self {
        Self(vec![b'{'])
    }

    fn key(&mut self, key: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        // Text always becomes JSON.
        let _ = serde_json::to_writer(&mut self.0, key);
        self.0.push(b':');
    }

    pub(crate) fn put(&mut self, key: &str, value: &impl Serialize) {
        self.key(key);
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.extend_from_slice(b"null");
        }
    }

    pub(crate) fn put_some<T: Serialize>(&mut self, key: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(key, &value);
        }
    }

    /// A value as it was written.
    pub(crate) fn raw(&mut self, key: &str, value: &[u8]) {
        self.key(key);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn written(mut self) -> Bytes {
        self.0.push(b'}');
        self.0.into()
    }
}
