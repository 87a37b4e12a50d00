//! The gateway's program: chooses the allocator, and hands over.

use std::alloc::GlobalAlloc;
use std::hint::black_box;
use std::process::ExitCode;

/// mimalloc stands in for the C library's `malloc`, by which Rust allocates as well where nothing else is said. Said by
/// a `#[global_allocator]` it would be asked for an alignment each time, and go a longer way for sizes that are no
/// power of two.
fn main() -> ExitCode {
    // Named once, so that it is linked.
    black_box::<&dyn GlobalAlloc>(&mimalloc::MiMalloc);
    gateway::run()
}
