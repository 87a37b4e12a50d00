//! The ways by which messages of a rule leave: read strictly, sealed, and kept where a mask comes back. Addresses are
//! held to the rules of custom hosts when they are saved, and once more when they are dialled.

use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::resource::alert::{AlertChannel, is_masked};
use gateway_domain::resource::person::email;
use gateway_domain::secret::{MASK, mask};
use gateway_guardrails::checked_address;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Said of each message by the gateway itself.
const OWN: &[&str] = &["content-type", "x-gateway-alert-id"];
const LONGEST_VALUE: usize = 4_096;
const LONGEST_ADDRESS: usize = 2_048;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChannelKind {
    Webhook,
    Slack,
    Email,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenChannel {
    #[serde(rename = "type")]
    kind: ChannelKind,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    to: Option<Vec<String>>,
}

/// `before`: the stored ones, whose secrets masks may stand for.
pub(super) fn read(
    given: Vec<GivenChannel>,
    before: &[AlertChannel],
    call: &AdminCall,
) -> Result<Vec<AlertChannel>, Problem> {
    let reader = ChannelReader { before, call };
    let mut channels: Vec<AlertChannel> = Vec::with_capacity(given.len().min(8));
    for (at, one) in given.into_iter().enumerate() {
        channels.push(reader.channel(&format!("channels[{at}]"), one)?);
    }
    Ok(channels)
}

struct ChannelReader<'a> {
    before: &'a [AlertChannel],
    call: &'a AdminCall,
}

impl ChannelReader<'_> {
    fn channel(&self, at: &str, given: GivenChannel) -> Result<AlertChannel, Problem> {
        let GivenChannel { kind, url, headers, to } = given;
        let unfit = |is_there: bool, name: &str| {
            if is_there { Err(bad(format_args!("{at}.{name}"), "is of another type of channel")) } else { Ok(()) }
        };
        let required = |name: &str| bad(format_args!("{at}.{name}"), "is required");
        match kind {
            ChannelKind::Webhook => {
                unfit(to.is_some(), "to")?;
                let url = url.ok_or_else(|| required("url"))?;
                self.check_address(at, &url)?;
                let headers = self.headers(at, &url, headers.unwrap_or_default())?;
                Ok(AlertChannel::Webhook { url, headers })
            }
            ChannelKind::Slack => {
                unfit(to.is_some(), "to")?;
                unfit(headers.is_some(), "headers")?;
                let url = self.hook(at, &url.ok_or_else(|| required("url"))?)?;
                Ok(AlertChannel::Slack { url })
            }
            ChannelKind::Email => {
                unfit(url.is_some(), "url")?;
                unfit(headers.is_some(), "headers")?;
                if self.call.app.mailer.is_none() {
                    return Err(bad(
                        format_args!("{at}.type"),
                        "email needs --smtp-url: this gateway has no mail server",
                    ));
                }
                let to = to.ok_or_else(|| required("to"))?;
                let mut addresses = Vec::new();
                for (n, text) in to.iter().enumerate().take(100) {
                    let one = email(&format!("{at}.to[{n}]"), text)?;
                    if !addresses.contains(&one) {
                        addresses.push(one);
                    }
                }
                Ok(AlertChannel::Email { to: addresses })
            }
        }
    }

    fn check_address(&self, at: &str, url: &str) -> Result<(), Problem> {
        let field = format!("{at}.url");
        if url.len() > LONGEST_ADDRESS {
            return Err(bad(field, format_args!("must have at most {LONGEST_ADDRESS} bytes")));
        }
        checked_address(url, &self.call.app.trusted).map_err(|rule| bad(field, rule))
    }

    /// The whole address is the secret, so that its mask can only mean the one that looks so.
    fn hook(&self, at: &str, url: &str) -> Result<String, Problem> {
        if is_masked(url) {
            let looks_so = |channel: &&AlertChannel| match channel {
                AlertChannel::Slack { url: sealed } => self.opens_as(sealed, url),
                _ => false,
            };
            return match self.before.iter().find(looks_so) {
                Some(AlertChannel::Slack { url }) => Ok(url.clone()),
                _ => Err(bad(format_args!("{at}.url"), "is a masked value that stands for no stored one")),
            };
        }
        self.check_address(at, url)?;
        Ok(self.call.app.vault.seal(url))
    }

    /// Whoever may change where a webhook goes could have its headers sent to himself: for another address they are
    /// given again.
    fn headers(
        &self,
        at: &str,
        url: &str,
        given: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, Problem> {
        let same = |channel: &&AlertChannel| matches!(channel, AlertChannel::Webhook { url: u, .. } if u == url);
        let mut sealed = BTreeMap::new();
        for (name, value) in given {
            let field = format!("{at}.headers.{name}");
            let name = check_forward_header(&name).map_err(|rule| bad(&field, rule))?;
            if OWN.contains(&name.as_str()) {
                return Err(bad(field, "is set by the gateway"));
            }
            let stored = self.before.iter().filter(same).find_map(|channel| match channel {
                AlertChannel::Webhook { headers, .. } => headers.get(&name),
                _ => None,
            });
            let at_rest = match stored.filter(|sealed| self.opens_as(sealed, &value)) {
                Some(kept) => kept.clone(),
                None => self.sealed(&field, &value)?,
            };
            if sealed.insert(name, at_rest).is_some() {
                return Err(bad(field, "is given twice, in two casings"));
            }
        }
        Ok(sealed)
    }

    fn sealed(&self, field: &str, value: &str) -> Result<String, Problem> {
        if is_masked(value) {
            return Err(bad(field, "is a masked value that stands for no stored one"));
        }
        if value.is_empty() || value.len() > LONGEST_VALUE || HeaderValue::from_str(value).is_err() {
            return Err(bad(field, format_args!("must be 1..{LONGEST_VALUE} printable ASCII characters")));
        }
        Ok(self.call.app.vault.seal(value))
    }

    fn opens_as(&self, sealed: &str, masked: &str) -> bool {
        self.call.app.vault.open(sealed).is_ok_and(|plain| mask(plain.expose()) == masked)
    }
}

/// A request body with its secrets blotted out.
pub(super) fn blank(body: &mut Map<String, Value>) {
    let Some(channels) = body.get_mut("channels") else { return };
    let Value::Array(channels) = channels else {
        *channels = MASK.into();
        return;
    };
    for channel in channels {
        let Value::Object(fields) = channel else {
            *channel = MASK.into();
            continue;
        };
        // What an address holds behind its host may open something, whatever the channel is.
        for name in ["url", "headers"] {
            match fields.get_mut(name) {
                Some(Value::Object(headers)) => headers.values_mut().for_each(|value| *value = MASK.into()),
                Some(other) => *other = MASK.into(),
                None => {}
            }
        }
    }
}
