//! What a look at a rule brought.

use gateway_domain::alert::BudgetTold;

#[derive(Debug, Default)]
pub(super) struct AlertFinding {
    /// `None`: there is nothing to measure, or too little.
    pub(super) value: Option<f64>,
    pub(super) calls: i64,
    /// Not all could be read.
    pub(super) is_partial: bool,
    pub(super) budgets: Vec<BudgetTold>,
}
