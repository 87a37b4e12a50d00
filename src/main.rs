//! The gateway's program: chooses the allocator, and hands over.

use std::process::ExitCode;

/// Fewer and cheaper allocations than the system's allocator on the hot path.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gateway::run()
}
