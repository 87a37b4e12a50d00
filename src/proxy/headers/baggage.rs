//! Members of W3C Baggage that a client sends (<https://www.w3.org/TR/baggage/>), as metadata.

use gateway_domain::metadata;

/// W3C Baggage: `key=value;property,…`; members that metadata could not hold are left out.
pub(super) fn baggage(text: &str) -> Vec<(String, String)> {
    let member = |m: &str| {
        let (key, value) = m.split(';').next()?.split_once('=')?;
        let value = percent_decoded(value.trim())?;
        let key = key.trim();
        (!key.is_empty() && metadata::is_short(key) && metadata::is_short(&value)).then(|| (key.to_owned(), value))
    };
    text.split(',').filter_map(member).take(metadata::PAIRS).collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' && after.len() >= 2 {
            let digits = std::str::from_utf8(&after[..2]).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    String::from_utf8(out).ok()
}
