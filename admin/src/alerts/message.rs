//! What a message says, for programs and for people. Names come from admins: they are made harmless for the place where
//! they are put.

use gateway_domain::alert::AlertMessage;
use gateway_domain::resource::alert::AlertKind;
use serde_json::{Value, json};

/// The message as a JSON document, for programs.
pub(super) fn document(message: &AlertMessage) -> Value {
    json!({
        "event": event(message),
        "id": message.id,
        "rule": { "id": message.rule, "name": message.name, "type": message.kind },
        "organisation_id": message.org,
        "workspace_id": message.workspace,
        "threshold": message.threshold,
        "value": message.value,
        "unit": message.kind.unit(),
        "window_minutes": (message.kind != AlertKind::Budget).then_some(message.window_minutes),
        "calls": (message.kind != AlertKind::Budget).then_some(message.calls),
        "budgets": (message.kind == AlertKind::Budget).then_some(&message.budgets),
        "partial": message.is_partial,
        "fired_at": message.over_since,
        "at": message.at,
        "text": sentence(message),
    })
}

fn event(message: &AlertMessage) -> &'static str {
    match message {
        AlertMessage { is_test: true, .. } => "alert.test",
        AlertMessage { over_since: Some(_), .. } => "alert.recovered",
        _ => "alert.fired",
    }
}

/// The message in Slack's form, in which `&`, `<` and `>` have a meaning and are written as entities.
pub(super) fn slack(message: &AlertMessage) -> Value {
    let text = lines(message).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({ "text": text })
}

pub(super) fn subject(message: &AlertMessage) -> String {
    let subject = format!("[gateway] {}", sentence(message));
    subject.chars().take(200).collect()
}

pub(super) fn lines(message: &AlertMessage) -> String {
    let mut lines = vec![sentence(message)];
    for budget in &message.budgets {
        let key = if budget.value_key.is_empty() { String::new() } else { format!(" ({})", plain(&budget.value_key)) };
        lines.push(format!("- {}{key}: {} %", budget.holder, budget.percent));
    }
    if message.is_partial {
        lines.push("Not everything could be read: the true value may be another.".to_owned());
    }
    lines.push(format!("At {}, alert rule {}, message {}.", message.at, message.rule, message.id));
    lines.join("\n")
}

fn sentence(message: &AlertMessage) -> String {
    let name = plain(&message.name);
    if message.is_test {
        return format!("{name}: this is a test of an alert rule");
    }
    let over = if message.over_since.is_some() { "it is over: " } else { "" };
    let threshold = rounded(message.threshold);
    let Some(value) = message.value.map(rounded) else {
        return format!("{name}: {over}there is nothing to measure, or too little");
    };
    let window = span(message.window_minutes);
    let (found, unit) = match message.kind {
        AlertKind::Spend => (format!("{value} USD were spent within {window}"), "USD"),
        AlertKind::ErrorRate => (format!("{value} % of {} calls within {window} failed", message.calls), "%"),
        AlertKind::Latency => (format!("calls within {window} took {value} ms"), "ms"),
        AlertKind::Budget => (format!("{value} % of a budget are used"), "%"),
    };
    format!("{name}: {over}{found}, the threshold is {threshold} {unit}")
}

fn span(minutes: u32) -> String {
    match minutes {
        m if m.is_multiple_of(1_440) => format!("{} d", m / 1_440),
        m if m.is_multiple_of(60) => format!("{} h", m / 60),
        m => format!("{m} min"),
    }
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The text on one line: control characters become spaces.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::alert::BudgetTold;
    use gateway_domain::id::OrgId;
    use gateway_domain::time::Timestamp;
    use uuid::Uuid;

    fn message(kind: AlertKind) -> AlertMessage {
        AlertMessage {
            id: Uuid::nil(),
            rule: Uuid::nil(),
            name: "too <!channel> much\n& more".to_owned(),
            org: OrgId(Uuid::nil()),
            workspace: None,
            kind,
            threshold: 5.0,
            value: Some(7.256),
            window_minutes: 1_440,
            calls: 12,
            is_partial: false,
            budgets: Vec::new(),
            at: Timestamp(0),
            is_test: false,
            over_since: None,
        }
    }

    #[test]
    fn people_read_what_it_is_about() {
        let told = |kind| sentence(&message(kind)).replacen("too <!channel> much & more: ", "", 1);
        assert_eq!(told(AlertKind::Spend), "7.26 USD were spent within 1 d, the threshold is 5 USD");
        assert_eq!(told(AlertKind::ErrorRate), "7.26 % of 12 calls within 1 d failed, the threshold is 5 %");
        assert_eq!(told(AlertKind::Latency), "calls within 1 d took 7.26 ms, the threshold is 5 ms");
        assert_eq!(told(AlertKind::Budget), "7.26 % of a budget are used, the threshold is 5 %");
    }

    #[test]
    fn what_is_over_says_so() {
        let mut over = AlertMessage { over_since: Some(Timestamp(5)), ..message(AlertKind::Spend) };
        assert_eq!(document(&over)["event"], "alert.recovered");
        assert!(sentence(&over).ends_with("it is over: 7.26 USD were spent within 1 d, the threshold is 5 USD"));
        over.value = None;
        assert!(sentence(&over).ends_with("it is over: there is nothing to measure, or too little"));
        assert_eq!(document(&over)["value"], Value::Null);
    }

    #[test]
    fn names_do_nothing_where_they_are_put() {
        let mut loud = message(AlertKind::Budget);
        let budget =
            BudgetTold { holder: "key:x".to_owned(), value_key: "metadata._user:<@U1>".to_owned(), percent: 90.0 };
        loud.budgets.push(budget);
        let text = slack(&loud)["text"].as_str().expect("text").to_owned();
        assert!(!text.contains('<') && text.contains("&lt;!channel&gt;") && text.contains("&amp;"), "{text}");
        assert!(!subject(&loud).contains('\n'));
    }
}
