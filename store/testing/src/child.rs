//! A server process that cannot outlive the test process, whatever way that ends.

use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The kernel's death signal follows the thread that started the process, and test threads come and go:
/// so a thread of its own starts the server and stays until it is told to stop it.
#[derive(Debug)]
pub(crate) struct Tied {
    stop: Sender<()>,
    keeper: Option<JoinHandle<()>>,
    id: u32,
}

impl Tied {
    pub(crate) fn start(mut command: Command) -> Self {
        let (stop, stopped) = channel::<()>();
        let (started, start) = channel();
        let keeper = std::thread::spawn(move || {
            let child = command.spawn();
            let id = child.as_ref().map(Child::id).map_err(ToString::to_string);
            let told = started.send(id).is_ok();
            let Ok(mut child) = child else { return };
            if told {
                // An error means that the owner is gone, which also ends the server.
                let _ = stopped.recv();
            }
            let _ = child.kill();
            let _ = child.wait();
        });
        let id = start.recv().unwrap_or_else(|e| Err(e.to_string()));
        let id = id.unwrap_or_else(|e| panic!("cannot start the server: {e}"));
        Self { stop, keeper: Some(keeper), id }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}
