//! Values of the gateway's own headers.

use super::{few_digits, number};

#[test]
fn few_digits_are_those_of_the_number() {
    for told in 0..1000 {
        assert_eq!(few_digits(told), Some(told.to_string().as_str()));
    }
    assert_eq!(few_digits(1000), None);
}

#[test]
fn any_number_is_told() {
    for told in [0, 7, 10, 99, 100, 999, 1000, 20_000, u64::MAX] {
        assert_eq!(number(told), told.to_string());
    }
    assert_eq!(number(-1i64), "-1");
}
