//! Lines to a program and from it. A line is bounded: a program that says a longer one is not heard any further.

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;

/// Bytes of one.
pub(super) const LONGEST: usize = 4 << 20;

/// Writes lines until nobody sends any more or the program takes no more of them; closes its input then.
pub(super) async fn write(mut stdin: ChildStdin, mut inbox: mpsc::Receiver<String>) {
    while let Some(mut line) = inbox.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

pub(super) async fn read(mut stdout: ChildStdout, outbox: mpsc::Sender<Result<String, &'static str>>) {
    let (mut held, mut looked) = (BytesMut::new(), 0);
    loop {
        while let Some(at) = memchr::memchr(b'\n', &held[looked..]) {
            let line = String::from_utf8_lossy(&held[..looked + at]).trim().to_owned();
            held.advance(looked + at + 1);
            looked = 0;
            if !line.is_empty() && outbox.send(Ok(line)).await.is_err() {
                return;
            }
        }
        looked = held.len();
        if held.len() > LONGEST {
            let _ = outbox.send(Err("said a line of more than 4 MiB")).await;
            return;
        }
        if !matches!(stdout.read_buf(&mut held).await, Ok(read) if read > 0) {
            return;
        }
    }
}
