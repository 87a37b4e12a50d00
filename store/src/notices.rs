//! How a node hears that another has written: Postgres tells every listener, SQLite has one process only.
//! A notice is speed, never truth: it may come late, twice or not at all.

use crate::availability::Reach;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use sqlx::Error;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::sleep;

pub(crate) const CHANNEL: &str = "gateway_config";

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) enum Notices {
    Local(Notify),
    /// `None` only while being dropped.
    Listen(Mutex<Option<BoxStream<'static, ()>>>),
}

impl Notices {
    pub(crate) fn local() -> Self {
        Self::Local(Notify::new())
    }

    /// Dials with the first wait. The connection is one beside the pool's, so that listening takes none away;
    /// a second may be needed while a dead one is still saying goodbye.
    pub(crate) fn listen(connect: PgConnectOptions, connect_timeout: Duration, reach: Arc<Reach>) -> Self {
        let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(connect_timeout).connect_lazy_with(connect);
        let ear = Ear { pool, listener: None, pause: FIRST_PAUSE, reach };
        let notices = stream::unfold(ear, |mut ear| async move {
            ear.hear().await;
            Some(((), ear))
        });
        Self::Listen(Mutex::new(Some(notices.boxed())))
    }

    /// Kept for whoever waits next, so a write between two waits is not missed.
    pub(crate) fn notify(&self) {
        if let Self::Local(notify) = self {
            notify.notify_one();
        }
    }

    /// The work of reconnecting lives in the stream and goes on with the next wait when this one is dropped.
    pub(crate) async fn wait(&self) {
        match self {
            Self::Local(notify) => notify.notified().await,
            Self::Listen(notices) => {
                if let Some(notices) = notices.lock().await.as_mut() {
                    notices.next().await;
                }
            }
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // The listener says goodbye in a task, and panics where none can run: at the end of the program.
        if let Self::Listen(notices) = self
            && tokio::runtime::Handle::try_current().is_err()
        {
            std::mem::forget(notices.get_mut().take());
        }
    }
}

struct Ear {
    pool: PgPool,
    listener: Option<PgListener>,
    pause: Duration,
    /// Hears of a server's end before anybody else.
    reach: Arc<Reach>,
}

impl Ear {
    async fn hear(&mut self) {
        loop {
            let Some(listener) = &mut self.listener else {
                match connect(&self.pool).await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        self.pause = FIRST_PAUSE;
                        // What was told while nobody listened is lost: look.
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot listen for changes of the configuration; polling goes on");
                        sleep(self.pause).await;
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                        continue;
                    }
                }
            };
            match Box::pin(listener.try_recv()).await {
                Ok(Some(_)) => {
                    // One look serves all that is already here.
                    while listener.next_buffered().is_some() {}
                    return;
                }
                Ok(None) | Err(_) => {
                    self.reach.suspect();
                    self.listener = None;
                }
            }
        }
    }
}

async fn connect(pool: &PgPool) -> Result<PgListener, Error> {
    let mut listener = Box::pin(PgListener::connect_with(pool)).await?;
    listener.eager_reconnect(false);
    listener.ignore_pool_close_event(true);
    Box::pin(listener.listen(CHANNEL)).await?;
    Ok(listener)
}
