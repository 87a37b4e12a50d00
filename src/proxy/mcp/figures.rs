//! How full the tables are that the process keeps for MCP, read when metrics are gathered and at no other time.

use super::state::McpState;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use std::sync::Arc;

pub(crate) struct McpFigures {
    state: Arc<McpState>,
    kept: IntGaugeVec,
}

impl McpFigures {
    pub(crate) fn new(state: Arc<McpState>) -> Result<Self, prometheus::Error> {
        let help = "What this process keeps for MCP servers, by table; each is bounded";
        let kept = IntGaugeVec::new(Opts::new("gateway_mcp_kept", help), &["table"])?;
        Ok(Self { state, kept })
    }
}

impl Collector for McpFigures {
    fn desc(&self) -> Vec<&Desc> {
        self.kept.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (table, rows) in self.state.kept() {
            self.kept.with_label_values(&[table]).set(i64::try_from(rows).unwrap_or(i64::MAX));
        }
        self.kept.collect()
    }
}
