//! Labels of records are `'static`: those read back are found among the program's own.
//! A newer node may have written others; a few of those are kept for good, then all further ones are "other".

use gateway_domain::record::client_record::OWN_CALL;
use gateway_domain::{FaultKind, Operation};
use std::sync::{LazyLock, Mutex, PoisonError};

const STRATEGIES: [&str; 5] = ["", "single", "fallback", "loadbalance", "conditional"];

/// No program has this many labels more than another; a damaged table must not eat the memory.
const MOST_FOREIGN: usize = 64;

static FOREIGN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Three are looked up for each record.
static OWN: LazyLock<ahash::HashSet<&'static str>> = LazyLock::new(|| {
    let faults = FaultKind::ALL.iter().map(|kind| kind.row().label);
    Operation::ALL.iter().map(|operation| operation.name()).chain(faults).chain(STRATEGIES).chain([OWN_CALL]).collect()
});

pub(super) fn label(text: &str) -> &'static str {
    OWN.get(text).copied().unwrap_or_else(|| foreign(text))
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
