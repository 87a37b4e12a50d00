//! The proxy port's sockets: opened, or taken over from the process that this one replaces, and handed on to the next
//! (`--upgrade`). They travel over a Unix socket as Pingora sends them: their names with blanks between, and the
//! descriptors beside (`SCM_RIGHTS`), so a process of an earlier version can be replaced too.

use parking_lot::Mutex;
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, bind, listen, recvmsg, sendmsg, socket_with, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BACKLOG: i32 = 65_535;
/// The most sockets that are handed over, all in one message.
const MOST: usize = 32;
const MOST_NAMES: usize = 2048;
/// How long the one process waits for the other.
const PATIENCE: Duration = Duration::from_secs(6);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A socket and the address that it was asked for by.
#[derive(Debug)]
pub(crate) struct Opening {
    name: String,
    socket: TcpListener,
}

#[derive(Debug)]
pub(crate) struct Listening {
    openings: Mutex<Vec<Opening>>,
    handed_over: AtomicBool,
}

impl Listening {
    /// Listens on these addresses, by the sockets that were inherited where there are such; others are closed.
    pub(crate) fn open(addresses: &[SocketAddr], mut inherited: Vec<Opening>) -> Result<Arc<Self>, String> {
        let mut openings = Vec::new();
        for address in addresses {
            let name = address.to_string();
            let opening = match inherited.iter().position(|opening| opening.name == name) {
                Some(at) => inherited.swap_remove(at),
                None => {
                    let socket = open(*address).map_err(|e| format!("--listen {address}: cannot listen: {e}"))?;
                    Opening { name, socket }
                }
            };
            openings.push(opening);
        }
        Ok(Arc::new(Self { openings: Mutex::new(openings), handed_over: AtomicBool::new(false) }))
    }

    pub(super) fn sockets(&self) -> io::Result<Vec<TcpListener>> {
        let clone = |opening: &Opening| {
            opening.socket.set_nonblocking(true)?;
            opening.socket.try_clone()
        };
        self.openings.lock().iter().map(clone).collect()
    }

    /// Nobody is accepted by this process any more.
    pub(super) fn close(&self) {
        self.openings.lock().clear();
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Acquire)
    }

    /// Gives the sockets to the process that waits at `path`, and keeps them. Blocks until that one is there.
    pub(crate) fn hand_over(&self, path: &Path) -> io::Result<()> {
        let openings = self.openings.lock();
        let names: Vec<&str> = openings.iter().map(|opening| opening.name.as_str()).collect();
        let names = names.join(" ");
        if openings.len() > MOST || names.len() > MOST_NAMES {
            return Err(io::Error::other(format!("more than {MOST} addresses cannot be handed over")));
        }
        let sockets: Vec<_> = openings.iter().map(|opening| opening.socket.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&sockets));
        let peer = patiently(|| UnixStream::connect(path))?;
        sendmsg(&peer, &[IoSlice::new(names.as_bytes())], &mut beside, SendFlags::empty())?;
        self.handed_over.store(true, Ordering::Release);
        Ok(())
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The sockets of the process that this one replaces. Blocks until that one was told to hand them over.
pub(crate) fn inherit(path: &Path) -> io::Result<Vec<Opening>> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let meeting = UnixListener::bind(path)?;
    // Whoever may connect could give this process sockets of his own.
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    meeting.set_nonblocking(true)?;
    let met = patiently(|| meeting.accept());
    // The path is for the next upgrade, which makes it anew.
    let _ = std::fs::remove_file(path);
    let (peer, _) = met?;
    peer.set_nonblocking(false)?;
    peer.set_read_timeout(Some(PATIENCE))?;
    receive(&peer)
}

fn receive(peer: &UnixStream) -> io::Result<Vec<Opening>> {
    let mut names = [0; MOST_NAMES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let told = recvmsg(peer, &mut [IoSliceMut::new(&mut names)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let sockets = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let sockets: Vec<OwnedFd> = sockets.flatten().collect();
    let names = String::from_utf8_lossy(&names[..told.bytes]);
    let names = names.split_ascii_whitespace();
    Ok(names.zip(sockets).map(|(name, socket)| Opening { name: name.to_owned(), socket: socket.into() }).collect())
}

/// Tries until the other process is there.
fn patiently<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(e) if is_early(e.kind()) && Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
            outcome => return outcome,
        }
    }
}

fn is_early(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, WouldBlock};
    matches!(kind, WouldBlock | NotFound | ConnectionRefused | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn sockets_go_on_in_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("upgrade.sock");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let old = Listening::open(&[any], Vec::new()).expect("a socket");
        let address = old.sockets().expect("sockets")[0].local_addr().expect("an address");
        let waiting = {
            let path = path.clone();
            std::thread::spawn(move || inherit(&path))
        };
        old.hand_over(&path).expect("handed over");
        let inherited = waiting.join().expect("no panic").expect("taken over");
        assert!(old.is_handed_over() && !path.exists());
        let new = Listening::open(&[any], inherited).expect("the same socket");
        old.close();
        drop(old);
        let _client = TcpStream::connect(address).expect("still listening");
        let taken = new.sockets().expect("sockets");
        taken[0].set_nonblocking(false).expect("blocking");
        taken[0].accept().expect("the connection");
        // What nobody claims is closed.
        drop((taken, new));
        assert!(TcpStream::connect(address).is_err());
    }
}
