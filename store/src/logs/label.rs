//! Labels of records are `'static`: those read back are found among the program's own.
//! A newer node may have written others; a few of those are kept for good, then all further ones are "other".

use gateway_domain::record::own::OWN_CALL;
use gateway_domain::{FaultKind, Operation};
use std::sync::{Mutex, PoisonError};

const STRATEGIES: [&str; 5] = ["", "single", "fallback", "loadbalance", "conditional"];

/// No program has this many labels more than another; a damaged table must not eat the memory.
const MOST_FOREIGN: usize = 64;

static FOREIGN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

pub(super) fn label(text: &str) -> &'static str {
    Operation::parse(text)
        .map(Operation::name)
        .or_else(|| FaultKind::ALL.iter().map(|kind| kind.row().label).find(|label| *label == text))
        .or_else(|| STRATEGIES.into_iter().find(|strategy| *strategy == text))
        .or_else(|| (text == OWN_CALL).then_some(OWN_CALL))
        .unwrap_or_else(|| foreign(text))
}

fn foreign(text: &str) -> &'static str {
    let mut known = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.iter().find(|label| **label == text) {
        return found;
    }
    if known.len() >= MOST_FOREIGN || text.len() > 64 {
        return "other";
    }
    let kept: &'static str = Box::leak(text.into());
    known.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back() {
        for text in ["chatComplete", "rate_limited", "fallback", "", "of_a_newer_node"] {
            assert_eq!(label(text), text);
        }
        assert!(std::ptr::eq(label("of_a_newer_node"), label("of_a_newer_node")));
        for n in 0..2 * MOST_FOREIGN {
            label(&format!("foreign{n}"));
        }
        assert_eq!(label("one_too_many"), "other");
        assert_eq!(label("foreign0"), "foreign0");
    }
}
