//! From a compiled config to the ordered attempts of one request. Pure: dice are an argument.
//! Every choice (weights) is made here; what is left for the exchange is to walk the list.

use super::{Config, Leaf, Mode, Node, NodeKind};
use std::sync::Arc;

/// The attempts of one request, in the order they would be made.
#[derive(Clone, Debug)]
pub struct Plan {
    pub attempts: Vec<Attempt>,
    /// Mode of the root strategy, for the record; `single` for a bare target.
    pub strategy: &'static str,
}

/// One target, and where to go when its answer does not do.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub leaf: Arc<Leaf>,
    /// From the innermost fallback outwards: rule, and the attempt to go on with.
    exits: Vec<Exit>,
}

#[derive(Clone, Debug)]
struct Exit {
    /// `None`: any status outside 2xx.
    on: Option<Arc<[u16]>>,
    next: usize,
}

impl Plan {
    /// Where to go after `attempt` was answered with `status`; `None` when this answer is the one.
    /// A gateway exception ends every fallback (`spec/config-object.md`, strategy).
    pub fn next(&self, attempt: usize, status: u16, exception: bool) -> Option<usize> {
        if exception {
            return None;
        }
        let moves_on = |e: &&Exit| match &e.on {
            Some(list) => list.contains(&status),
            None => !(200..300).contains(&status),
        };
        self.attempts.get(attempt)?.exits.iter().find(moves_on).map(|e| e.next)
    }
}

impl Config {
    /// `dice` gives a number in 0..1 for each weighted choice met on the way.
    pub fn plan(&self, dice: &mut dyn FnMut() -> f64) -> Plan {
        let strategy = match &self.root.kind {
            NodeKind::Branch { mode, .. } => mode.name(),
            NodeKind::Leaf(_) => "single",
        };
        let mut attempts = Vec::with_capacity(1);
        lay(&self.root, dice, &mut attempts);
        Plan { attempts, strategy }
    }
}

/// Appends the attempts of `node`. Exits of an inner node are known only once its last attempt is laid,
/// so each fallback adds its own exit to all attempts of a child after laying the child.
fn lay(node: &Node, dice: &mut dyn FnMut() -> f64, out: &mut Vec<Attempt>) {
    match &node.kind {
        NodeKind::Leaf(leaf) => out.push(Attempt { leaf: leaf.clone(), exits: Vec::new() }),
        NodeKind::Branch { mode: Mode::Single, targets } => {
            if let Some(first) = targets.first() {
                lay(first, dice, out);
            }
        }
        NodeKind::Branch { mode: Mode::LoadBalance { total }, targets } => {
            if let Some(chosen) = draw(targets, *total, dice()) {
                lay(chosen, dice, out);
            }
        }
        NodeKind::Branch { mode: Mode::Fallback(on), targets } => {
            for (i, target) in targets.iter().enumerate() {
                let start = out.len();
                lay(target, dice, out);
                let next = out.len();
                if i + 1 < targets.len() {
                    out[start..].iter_mut().for_each(|a| a.exits.push(Exit { on: on.clone(), next }));
                }
            }
        }
    }
}

fn draw(targets: &[Node], total: f64, dice: f64) -> Option<&Node> {
    let mut left = dice * total;
    for target in targets {
        left -= target.weight;
        if left < 0.0 {
            return Some(target);
        }
    }
    // Only rounding can lead here.
    targets.iter().rev().find(|t| t.weight > 0.0)
}
