//! A relay before a server: what lies behind it is away, or says nothing more, and keeps what it holds meanwhile.

use crate::program::Port;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

const PASSES: u8 = 0;
/// Connections are closed as they come.
const REFUSES: u8 = 1;
/// Connections are taken, and what comes on them goes nowhere.
const HOLDS: u8 = 2;

#[derive(Debug)]
pub(crate) struct ServerRelay {
    pub(crate) port: Port,
    shared: Arc<RelayState>,
}

#[derive(Debug)]
struct RelayState {
    server: u16,
    mode: AtomicU8,
    held: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl ServerRelay {
    pub(crate) fn start(server: u16) -> Self {
        let shared =
            RelayState { server, mode: AtomicU8::new(PASSES), held: AtomicUsize::new(0), open: Mutex::default() };
        let shared = Arc::new(shared);
        let (port, listener) = (0..5)
            .find_map(|_| {
                let port = Port::reserve();
                TcpListener::bind(("127.0.0.1", port.number)).ok().map(|listener| (port, listener))
            })
            .unwrap_or_else(|| panic!("no port for a relay"));
        let own = shared.clone();
        spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = own.clone();
                spawn(move || serve(&shared, client));
            }
        });
        Self { port, shared }
    }

    pub(crate) fn pass(&self) {
        self.change(PASSES);
    }

    pub(crate) fn refuse(&self) {
        self.change(REFUSES);
    }

    pub(crate) fn hold(&self) {
        self.change(HOLDS);
    }

    /// Pieces that came while they were held.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Connections that are kept open would go on as before: they end.
    fn change(&self, mode: u8) {
        self.shared.mode.store(mode, Ordering::SeqCst);
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(shared: &Arc<RelayState>, client: TcpStream) {
    let keep = |stream: &TcpStream| {
        let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.extend(stream.try_clone().ok());
    };
    keep(&client);
    match shared.mode.load(Ordering::SeqCst) {
        PASSES => {
            let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server)) else { return };
            keep(&server);
            let (Ok(up), Ok(down)) = (client.try_clone(), server.try_clone()) else { return };
            spawn(move || copy(up, server));
            copy(down, client);
        }
        HOLDS => {
            let mut client = client;
            let mut buffer = [0; 16 << 10];
            while client.read(&mut buffer).is_ok_and(|n| n > 0) {
                shared.held.fetch_add(1, Ordering::SeqCst);
            }
            // Closing would be an answer.
            while shared.mode.load(Ordering::SeqCst) == HOLDS {
                sleep(Duration::from_millis(20));
            }
        }
        // A clone is kept: only this ends the connection.
        _ => {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
