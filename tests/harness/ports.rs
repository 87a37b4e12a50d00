//! Ports for processes that cannot be told to take any: reserved across test processes by a locked file,
//! below the range from which the kernel hands out its own.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;
/// Inside the range, and never a provider's: the gateway calls nothing there.
const REFUSED: [u16; 3] = [27_017, 27_018, 27_019];

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that is ours while this lives.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    _lock: File,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let folder = std::env::temp_dir().join("gateway-test-ports");
        std::fs::create_dir_all(&folder).expect("a folder for port locks");
        // Processes start at different places, so that they seldom meet on a lock.
        let start = u16::try_from(std::process::id() % 997).expect("below 997") * 12;
        for _ in FIRST..LAST {
            let port = FIRST + (start + NEXT.fetch_add(1, Relaxed)) % (LAST - FIRST);
            if REFUSED.contains(&port) {
                continue;
            }
            let lock = File::create(folder.join(port.to_string())).expect("a port lock");
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
                return Self { address, _lock: lock };
            }
        }
        panic!("no free port between {FIRST} and {LAST}");
    }
}
