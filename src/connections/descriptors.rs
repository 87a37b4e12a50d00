//! File descriptors of the process, and who may have how many: clients' connections never take those by which the
//! process reaches its disk and database, nor those of the admin port, by which it is watched.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept back for stores, journals, event loops and the admin port's clients.
const KEPT: usize = 192;
/// The most descriptors that are counted on, also where the system sets no limit.
const PLENTY: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    all: usize,
}

impl Descriptors {
    /// Raises the bound of open descriptors to the most that the process may have: the usual lower one is for programs
    /// that watch them by `select`.
    pub(crate) fn raise() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = maximum != current && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
        let all = if raised { maximum } else { current };
        Self { all: all.map_or(PLENTY, |all| usize::try_from(all).unwrap_or(PLENTY)).min(PLENTY) }
    }

    fn kept(self) -> usize {
        KEPT.min(self.all / 2)
    }

    /// Connections of clients where no number is set: each may want one to a provider.
    pub(crate) fn usual_connections(self) -> usize {
        ((self.all - self.kept()) / 2).max(1)
    }

    /// So many connections leave too few descriptors for all else.
    pub(crate) fn is_short_for(self, connections: usize) -> bool {
        connections > self.all - self.kept()
    }

    /// Connections of the admin port.
    pub(crate) fn admin_connections(self) -> usize {
        (self.kept() / 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_whatever_there_are() {
        for (all, connections, admin) in [(16, 4, 2), (256, 64, 42), (1024, 416, 64), (PLENTY, 524_192, 64)] {
            let descriptors = Descriptors { all };
            assert_eq!(
                (descriptors.usual_connections(), descriptors.admin_connections()),
                (connections, admin),
                "{all}"
            );
            assert!(2 * connections + admin <= all && !descriptors.is_short_for(connections), "{all}");
        }
        assert!(Descriptors { all: 256 }.is_short_for(256));
    }
}
