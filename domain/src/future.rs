//! The form of asynchronous answers of ports, which have to be object-safe.

use std::future::Future;
use std::pin::Pin;

pub type Fut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
