//! The one connection to Redis (or Valkey) that counters and the cache share, and beside it one of each thread for
//! what is asked most. Dialled and watched in the background; a call never dials, never waits past its deadline, and
//! fails at once while Redis is away, so that no request is held up by it. Knows no key and no script of
//! its own.

mod resp;
mod thread_connection;

pub(crate) use resp::Words;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisFuture,
    Value,
};
use arc_swap::ArcSwapOption;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use thread_connection::{LaneConfig, LaneTimeouts, LaneWait};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// Dialling, with TLS and the cluster's topology.
const DIAL: Duration = Duration::from_secs(3);
const BETWEEN_DIALS: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];
/// An idle connection is asked this often whether it still lives.
const CHECK: Duration = Duration::from_secs(1);
/// A thread's own connection is asked after so long a silence.
const SILENCE: Duration = Duration::from_secs(10);
/// Calls in a row past their deadline after which the connection counts as dead.
const MOST_LATE: u32 = 3;
/// A call that took this long will bring nothing any more.
const ABANDONED: Duration = Duration::from_secs(30);

/// Where Redis is. The password never shows.
#[derive(Clone)]
pub struct RedisUrl(Vec<ConnectionInfo>);

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|i| i.addr().to_string())).finish()
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.0.iter().map(|i| i.addr().to_string()).collect();
        f.write_str(&nodes.join(","))
    }
}

/// What is wrong with a URL, told without repeating it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not a Redis URL: write redis://[user:password@]host:port[/db] (rediss: for TLS), or several with commas for a cluster"
)]
pub struct BadRedisUrl;

impl RedisUrl {
    /// One URL is a single server; several, separated by commas, are nodes of a cluster.
    pub fn parse(text: &str) -> Result<Self, BadRedisUrl> {
        let nodes: Result<Vec<_>, _> =
            text.split(',').map(str::trim).map(|url| url.into_connection_info().map_err(|_| BadRedisUrl)).collect();
        Ok(Self(nodes?))
    }
}

/// Why Redis gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisFailure {
    #[error("Redis is not connected")]
    Away,
    #[error("Redis did not answer in time")]
    Late,
    /// The caller had less time than Redis is given.
    #[error("Redis did not answer in what was left of the caller's time")]
    Hurried,
    #[error("Redis refused: {0}")]
    Refused(String),
}

#[derive(Clone)]
enum RedisLink {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for RedisLink {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(c) => c.req_packed_command(cmd),
            Self::Cluster(c) => c.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(c) => c.req_packed_commands(pipeline, offset, count),
            Self::Cluster(c) => c.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(c) => c.get_db(),
            Self::Cluster(c) => c.get_db(),
        }
    }
}

/// What health and metrics say of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisState {
    pub connected: bool,
    pub failures: u64,
}

/// A handle; clones share the connection.
#[derive(Clone)]
pub struct Redis(Arc<RedisInner>);

struct RedisInner {
    url: RedisUrl,
    link: ArcSwapOption<RedisLink>,
    /// Where threads have lanes of their own.
    place: Option<Arc<LaneConfig>>,
    deadline: Duration,
    lost: Notify,
    late: AtomicU32,
    failures: AtomicU64,
    links: AtomicU64,
    /// Where [`Redis::keep`] runs, and calls end that nobody waits for any more.
    runtime: OnceLock<Handle>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("url", &self.0.url).field("state", &self.state()).finish()
    }
}

impl Redis {
    /// Not connected yet: [`Redis::keep`] does that. `deadline` bounds every call.
    pub fn new(url: RedisUrl, deadline: Duration) -> Self {
        Self(Arc::new(RedisInner {
            place: LaneConfig::of(&url.0, LaneTimeouts { dial: DIAL, abandoned: ABANDONED, silence: SILENCE }),
            url,
            link: ArcSwapOption::empty(),
            deadline,
            lost: Notify::new(),
            late: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            links: AtomicU64::new(0),
            runtime: OnceLock::new(),
        }))
    }

    pub fn state(&self) -> RedisState {
        RedisState { connected: self.0.link.load().is_some(), failures: self.0.failures.load(Ordering::Relaxed) }
    }

    /// How often a connection was made; 0 before the first.
    pub fn links(&self) -> u64 {
        self.0.links.load(Ordering::Acquire)
    }

    /// Dials, watches and dials again, for as long as it is polled. One such task per process.
    pub async fn keep(&self) {
        self.0.runtime.get_or_init(Handle::current);
        let mut tries = 0;
        loop {
            if self.0.link.load().is_some() {
                tries = 0;
                let waited = timeout(CHECK, self.0.lost.notified()).await;
                if waited.is_err() {
                    // Its failure drops the link, so there is nothing more to do with the answer.
                    let _: Result<String, _> = self.ask(&::redis::cmd("PING")).await;
                }
                continue;
            }
            match timeout(DIAL, self.reach()).await {
                Ok(Ok(link)) => {
                    tracing::info!(redis = %self.0.url, "connected to Redis");
                    self.0.late.store(0, Ordering::Relaxed);
                    // First the number: whoever failed over an older one does not end this one.
                    self.0.links.fetch_add(1, Ordering::Release);
                    self.0.link.store(Some(Arc::new(link)));
                }
                failed => {
                    if tries == 0 {
                        let why = failed.map_or_else(|_| "it took too long".to_owned(), |r| describe_error(r.err()));
                        tracing::warn!(redis = %self.0.url, %why, "Redis cannot be reached");
                    }
                    sleep(BETWEEN_DIALS[tries.min(BETWEEN_DIALS.len() - 1)]).await;
                    tries += 1;
                }
            }
        }
    }

    async fn dial(&self) -> ::redis::RedisResult<RedisLink> {
        match self.0.url.0.as_slice() {
            [one] => {
                let client = ::redis::Client::open(one.clone())?;
                let config = AsyncConnectionConfig::new().set_response_timeout(Some(ABANDONED));
                client.get_multiplexed_async_connection_with_config(&config).await.map(RedisLink::One)
            }
            nodes => {
                let client = ClusterClient::builder(nodes.to_vec()).response_timeout(ABANDONED).build()?;
                client.get_async_connection().await.map(RedisLink::Cluster)
            }
        }
    }

    /// A server that can be reached but takes longer than anybody waits is as good as away.
    async fn reach(&self) -> ::redis::RedisResult<RedisLink> {
        let mut link = self.dial().await?;
        let slow = (ErrorKind::Io, "it answers too slowly");
        timeout(self.0.deadline, ::redis::cmd("PING").exec_async(&mut link)).await.map_err(|_| slow)??;
        Ok(link)
    }

    /// How long any call may take.
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// One command.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisFailure> {
        self.ask_within(command, self.0.deadline).await
    }

    /// Sends one command for a caller who has only `time` for it.
    pub async fn ask_within<T: FromRedisValue>(&self, command: &Cmd, time: Duration) -> Result<T, RedisFailure> {
        let Some(link) = self.0.link.load_full() else { return Err(RedisFailure::Away) };
        let mut own = (*link).clone();
        let outcome = match timeout(self.0.deadline.min(time), command.query_async(&mut own)).await {
            Ok(told) => told.map_err(failure),
            Err(_) => Err(self.too_late(time)),
        };
        self.judge(&link, &outcome);
        outcome
    }

    /// Sends a command that changes something, for a caller who has only `time` for it: past that it goes on behind the
    /// caller's back, and what it brings after all is handed to `late`.
    pub async fn ask_on<T: FromRedisValue + Send + 'static>(
        &self,
        command: Cmd,
        time: Duration,
        late: impl FnOnce(T) + Send + 'static,
    ) -> Result<T, RedisFailure> {
        let Some(link) = self.0.link.load_full() else { return Err(RedisFailure::Away) };
        let mut own = (*link).clone();
        let mut call = Box::pin(async move { command.query_async::<T>(&mut own).await });
        let outcome = match timeout(self.0.deadline.min(time), &mut call).await {
            Ok(told) => told.map_err(failure),
            Err(_) => {
                if let Some(runtime) = self.0.runtime.get() {
                    runtime.spawn(async move {
                        if let Ok(told) = call.await {
                            late(told);
                        }
                    });
                }
                Err(self.too_late(time))
            }
        };
        self.judge(&link, &outcome);
        outcome
    }

    /// Calls a script that answers with whole numbers, within the bounds of [`Self::ask_on`]. Costs the least: where
    /// Redis is a single server without TLS it goes over the calling thread's own connection.
    pub(crate) async fn ask_numbers(
        &self,
        write: impl Fn(&mut dyn Words),
        time: Duration,
        late: impl FnOnce(Vec<i64>) + Send + 'static,
    ) -> Result<Vec<i64>, RedisFailure> {
        let number = self.links();
        if self.0.link.load().is_none() {
            return Err(RedisFailure::Away);
        }
        let until = Instant::now() + self.0.deadline.min(time);
        let sent = self.0.place.as_ref().and_then(|place| place.send(number, until, &write));
        let Some(ticket) = sent else {
            let mut command = Cmd::new();
            write(&mut command);
            return self.ask_on(command, time, late).await;
        };
        let outcome = LaneWait::new(ticket, late).await.unwrap_or_else(|| Err(self.too_late(time)));
        match self.0.link.load_full().filter(|_| outcome.is_err() && self.links() == number) {
            Some(link) => self.judge(&link, &outcome),
            None => self.note(&outcome),
        }
        outcome
    }

    fn too_late(&self, time: Duration) -> RedisFailure {
        if time < self.0.deadline { RedisFailure::Hurried } else { RedisFailure::Late }
    }

    fn judge<T>(&self, link: &Arc<RedisLink>, outcome: &Result<T, RedisFailure>) {
        match outcome {
            // Says nothing of Redis.
            Ok(_) | Err(RedisFailure::Refused(_) | RedisFailure::Hurried) => {}
            Err(RedisFailure::Away) => self.lose(link),
            Err(RedisFailure::Late) => {
                if self.0.late.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_LATE {
                    self.lose(link);
                }
            }
        }
        self.note(outcome);
    }

    fn note<T>(&self, outcome: &Result<T, RedisFailure>) {
        if outcome.is_err() {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
        } else if self.0.late.load(Ordering::Relaxed) != 0 {
            self.0.late.store(0, Ordering::Relaxed);
        }
    }

    /// Only the link that failed: another call may have replaced it since.
    fn lose(&self, link: &Arc<RedisLink>) {
        let now = self.0.link.load();
        if now.as_ref().is_some_and(|n| Arc::ptr_eq(n, link)) {
            self.0.link.store(None);
            tracing::warn!(redis = %self.0.url, "Redis is away");
            self.0.lost.notify_one();
        }
    }
}

fn failure(error: ::redis::RedisError) -> RedisFailure {
    if error.is_timeout() {
        RedisFailure::Late
    } else if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
        RedisFailure::Away
    } else {
        RedisFailure::Refused(describe_error(Some(error)))
    }
}

/// The kind and code of an error; its detail may repeat arguments of a command.
fn describe_error(error: Option<::redis::RedisError>) -> String {
    error.map_or_else(String::new, |e| e.code().map_or_else(|| e.category().to_owned(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_never_show_a_password() {
        let url = RedisUrl::parse("redis://ann:hush@cache.example:6380/2").expect("valid");
        assert_eq!(url.to_string(), "cache.example:6380");
        assert!(!format!("{url:?}").contains("hush"));
        assert_eq!(RedisUrl::parse("redis://a:1, redis://b:2").expect("valid").to_string(), "a:1,b:2");
        for bad in ["", "http://a", "redis://a:1,", "a:b:c"] {
            assert_eq!(RedisUrl::parse(bad).err(), Some(BadRedisUrl), "{bad}");
        }
    }
}
