//! Tests of content.
