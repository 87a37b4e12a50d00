//! Usage-limit policies in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::limits::{Resets, declare_budget};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put};
use crate::resource::policy::declared::{declare_conditions, take_conditions};
use gateway_domain::counters::FailMode;
use gateway_domain::resource::policy::{Enforcement, Target, UsageLimitPolicy};
use serde_json::{Map, Value, json};

impl Declared for UsageLimitPolicy {
    const SECTION: &'static str = "usage_limit_policies";
    const SCOPES: Option<&'static str> = Some("policies");
    const STATES: &'static [&'static str] = &["archived"];

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "target", Some(doc.target).filter(|target| *target != Target::default()));
        fields.extend(declare_budget(&doc.budget));
        fields.insert("conditions".to_owned(), json!(declare_conditions(&doc.conditions, to)?));
        put(&mut fields, "group_by", &doc.group_by);
        put(&mut fields, "enforcement", Some(doc.enforcement).filter(|e| *e != Enforcement::default()));
        put(&mut fields, "assume_output", doc.assume_output);
        put(&mut fields, "fail_mode", Some(doc.fail_mode).filter(|mode| *mode != FailMode::default()));
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let conditions = take_conditions(&mut item.fields, item.workspace, from)?;
        let resets = Resets::take(&mut item.fields)?;
        let named = !item.name.is_empty();
        let mut row = item.create(from.call, named)?;
        row.doc.conditions = conditions;
        let before = item.before.as_ref().map(|row| std::slice::from_ref(&row.doc.budget));
        resets.settle(std::slice::from_mut(&mut row.doc.budget), before);
        Ok(row)
    }
}
