//! What a program says beside its messages, for the operator's log: short lines, not too many, and without the secrets
//! that it was given.

use gateway_domain::Secret;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;

/// Characters of a line; the rest is left out.
const LONGEST: usize = 500;
/// Lines in a while; the others are counted.
const MOST: u32 = 50;
const WHILE: Duration = Duration::from_secs(10);
/// Shorter values are no secrets, and would blot out half of everything.
const SHORTEST_SECRET: usize = 4;
const PIECE: usize = 8 << 10;

pub(super) async fn note(name: String, mut stderr: ChildStderr, secrets: Vec<Secret<String>>) {
    let (mut log, mut line, mut piece) = (BoundedLog::default(), Vec::new(), vec![0; PIECE]);
    loop {
        let Ok(read) = stderr.read(&mut piece).await else { return };
        for byte in piece.iter().take(read) {
            match byte {
                b'\n' => say(&name, &std::mem::take(&mut line), &secrets, &mut log),
                // Kept longer than it is shown, so that a secret at the end is whole and is found.
                _ if line.len() < PIECE => line.push(*byte),
                _ => {}
            }
        }
        if read == 0 {
            return say(&name, &line, &secrets, &mut log);
        }
    }
}

fn say(name: &str, line: &[u8], secrets: &[Secret<String>], log: &mut BoundedLog) {
    let text = shown(&String::from_utf8_lossy(line), secrets);
    if text.is_empty() || !log.takes(Instant::now()) {
        return;
    }
    tracing::info!(program = name, text, left_out = std::mem::take(&mut log.left_out), "a program says");
}

pub(super) fn shown(line: &str, secrets: &[Secret<String>]) -> String {
    let mut text = line.trim().to_owned();
    for secret in secrets.iter().filter(|secret| secret.expose().len() >= SHORTEST_SECRET) {
        text = text.replace(secret.expose().as_str(), "***");
    }
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

#[derive(Default)]
pub(super) struct BoundedLog {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl BoundedLog {
    pub(super) fn takes(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WHILE) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        if self.lines > MOST {
            self.left_out += 1;
        }
        self.lines <= MOST
    }
}
