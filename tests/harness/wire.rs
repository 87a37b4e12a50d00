//! A wire between a node and a server it depends on, which can be cut, and on which answers can be held back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) struct Wire {
    pub(crate) port: u16,
    is_cut: watch::Sender<bool>,
    delay_ms: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Wire {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = listener.local_addr().expect("bound").port();
        let (is_cut, cut) = watch::channel(false);
        let delay_ms = Arc::<AtomicU64>::default();
        let (delay, mut tasks) = (delay_ms.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                if *cut.borrow() {
                    continue;
                }
                let (mut over, delay) = (cut.clone(), delay.clone());
                carried.spawn(async move {
                    let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    tokio::select! {
                        () = carry(near, far, &delay) => {}
                        _ = over.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { port: own, is_cut, delay_ms, _tasks: tasks }
    }

    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }

    /// What the server says comes so much later.
    pub(crate) fn slow(&self, by: Duration) {
        self.delay_ms.store(u64::try_from(by.as_millis()).expect("short"), SeqCst);
    }
}

async fn carry(near: TcpStream, far: TcpStream, delay_ms: &AtomicU64) {
    let (mut asked, mut told) = near.into_split();
    let (mut answers, mut asks) = far.into_split();
    let answered = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = answers.read(&mut buffer).await {
            let delay = delay_ms.load(SeqCst);
            if delay > 0 {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            if told.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut asked, &mut asks) => {}
        () = answered => {}
    }
}
