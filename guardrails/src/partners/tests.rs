//! Tests of partners.
