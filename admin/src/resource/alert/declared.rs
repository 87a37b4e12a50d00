//! Alert rules in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put};
use gateway_domain::resource::alert::{AlertChannel, AlertKind, AlertRule, LatencyStatistic};
use gateway_domain::secret::mask;
use serde_json::{Map, Value, json};

impl Declared for AlertRule {
    const SECTION: &'static str = "alerts";
    const SCOPES: Option<&'static str> = Some("policies");
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const STATES: &'static [&'static str] = &["archived"];
    const SECRETS: &'static [&'static str] = &["channels"];
    const SECRETS_ARE_BOUND: bool = true;

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let is_windowed = doc.kind != AlertKind::Budget;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "type", doc.kind);
        put(&mut fields, "threshold", doc.threshold);
        put(&mut fields, "statistic", Some(doc.statistic).filter(|s| *s != LatencyStatistic::default()));
        put(&mut fields, "window_minutes", is_windowed.then_some(doc.window_minutes));
        put(&mut fields, "minimum_count", Some(doc.minimum_count).filter(|count| *count > 0));
        put(&mut fields, "cool_down_minutes", doc.cool_down_minutes);
        put(&mut fields, "filters", &doc.filters);
        let mut channels = Vec::new();
        for (at, channel) in doc.channels.iter().enumerate() {
            channels.push(declare_channel(&at.to_string(), channel, to)?);
        }
        fields.insert("channels".to_owned(), Value::Array(channels));
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let mut row = item.create(from.call, true)?;
        if let Some(before) = &item.before {
            // A secret is sealed to another text each time: channels that are alike once opened stay as they were.
            let open =
                |sealed: &str| from.call.app.vault.open(sealed).map_or_else(|_| String::new(), |s| s.expose().clone());
            let plain = |doc: &Self| doc.channels.iter().map(|channel| channel.masked(open)).collect::<Vec<_>>();
            if plain(&before.doc) == plain(&row.doc) {
                row.doc.channels.clone_from(&before.doc.channels);
            }
        }
        Ok(row)
    }
}

fn declare_channel(at: &str, channel: &AlertChannel, to: &mut Declaring<'_>) -> Result<Value, Problem> {
    let mut told = json!(channel.masked(mask));
    match channel {
        AlertChannel::Webhook { headers, .. } => {
            for (name, sealed) in headers {
                told["headers"][name.as_str()] = to.sealed(&["channels", at, "headers", name], sealed)?;
            }
        }
        AlertChannel::Slack { url } => told["url"] = to.sealed(&["channels", at, "url"], url)?,
        AlertChannel::Email { .. } => {}
    }
    Ok(told)
}
