//! `gateway move records`: from a log store that is named to the one of the settings, whether gateways run on either or
//! not.

use super::boot::{self, log_place, options};
use crate::settings::Settings;
use gateway_store::{LogSource, LogsUrl};

/// What was done, for whoever asked for it.
pub(crate) async fn move_records(settings: &Settings, from: &str) -> Result<String, String> {
    let place = LogsUrl::parse(from).map_err(|e| format!("--from: {e}"))?;
    if format!("{place:?}") == format!("{:?}", log_place(settings)?) {
        return Err("--from: this is the log store of the settings: give --log-store-url the one to move to".to_owned());
    }
    let source = LogSource::open(&place, &options(settings)).await.map_err(|e| format!("--from: {e}"))?;
    let source = source.ok_or("--from: this place keeps no records")?;
    let target = boot::boot(settings).await?.logs;
    let mut heard = |day: &str, written: u64| tracing::info!(day, written, "records of a day are there");
    let done = Box::pin(source.transfer(&*target, &mut heard)).await.map_err(|e| e.to_string())?;
    Ok(format!(
        "{} days, {} records written. Of these days the first store has {} records at {} nanodollars, the second {} at \
         {}.\nNothing was taken out of the first.\n",
        done.days, done.written, done.source.records, done.source.cost, done.target.records, done.target.cost
    ))
}
