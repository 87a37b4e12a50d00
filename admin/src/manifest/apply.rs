//! One document, one write: everything that is to change is checked as it will stand together, and committed at once. A
//! process that is killed on the way leaves what was there.

use super::author::Author;
use super::item::{Assumed, within};
use super::naming::name_all;
use super::operator;
use super::plan::{DocumentPlan, plan};
use super::prune::{prune, unmentioned};
use super::report::{ConfigurationReport, ItemChange, ManifestAct, NewSecret, UNMENTIONED};
use super::stored_rows::StoredRows;
use super::text::Manifest;
use crate::app::App;
use crate::change::WriteView;
use crate::problem::{Problem, bad, busy};
use crate::resource::declared::secrets::SecretValues;
use crate::route::AdminCall;
use gateway_domain::id::OrgId;
use gateway_domain::ports::Batch;

pub(super) async fn run(
    app: &App,
    author: &Author<'_>,
    manifest: &Manifest,
    secrets: &SecretValues,
    act: ManifestAct,
) -> Result<ConfigurationReport, Problem> {
    const TRIES: usize = 5;
    for _ in 0..TRIES {
        let org = match author {
            Author::Call(call) => Some(call.actor.org),
            Author::Operator => None,
        };
        let stored = StoredRows::load(app, org).await?;
        let own;
        let call = match author {
            Author::Call(call) => *call,
            Author::Operator => {
                own = operator::call(app, stored.org.unwrap_or_else(|| OrgId(app.id())))?;
                &own
            }
        };
        let standing = DocumentUse { author, call, manifest, secrets };
        let done = match act {
            ManifestAct::Import { dry_run } => standing.import(&stored, dry_run).await?,
            ManifestAct::Diff => Some(standing.diff(&stored)?),
            ManifestAct::Prune { dry_run } => prune(author, call, manifest, &stored, dry_run).await?,
        };
        if let Some(report) = done {
            return Ok(report);
        }
    }
    Err(busy("the configuration was changed by others meanwhile, try again"))
}

struct DocumentUse<'a> {
    author: &'a Author<'a>,
    call: &'a AdminCall,
    manifest: &'a Manifest,
    secrets: &'a SecretValues,
}

impl DocumentUse<'_> {
    fn plan(&self, stored: &StoredRows) -> Result<DocumentPlan, Problem> {
        let mut named = name_all(self.manifest, stored, &self.call.app)?;
        if stored.org.is_none() {
            // Everything of an empty gateway is of the organisation that this makes.
            let org = self.call.actor.org.0;
            let first = named.items.first_mut().filter(|item| item.kind.is_single());
            first.ok_or_else(|| bad("organisation", "is required, since there is none yet"))?.id = org;
        }
        plan(named, self.call, self.secrets, self.author.is_operator())
    }

    fn diff(&self, stored: &StoredRows) -> Result<ConfigurationReport, Problem> {
        let plan = self.plan(stored)?;
        let mut report = report_plan(&plan, true);
        for unknown in &plan.unknown {
            if let Assumed::Unknown { name, kind, action } = unknown {
                report.changes.push(ItemChange::new(action.name(), kind.section, name, Vec::new()));
            }
        }
        for row in unmentioned(self.manifest, stored, self.call)? {
            report.changes.push(ItemChange::new(UNMENTIONED, row.kind.section, &row.name, Vec::new()));
        }
        Ok(report)
    }

    /// `None`: others have written meanwhile.
    async fn import(&self, stored: &StoredRows, dry_run: bool) -> Result<Option<ConfigurationReport>, Problem> {
        let plan = self.plan(stored)?;
        if !plan.missing_secrets.is_empty() {
            let names: Vec<&str> = plan.missing_secrets.iter().map(String::as_str).collect();
            let rule = format!("are not set, and nothing is stored that could stay: {}", names.join(", "));
            return Err(bad("secrets", rule));
        }
        for row in &plan.rows {
            self.author.may(row.kind.allow, &row.stored, row.action)?;
        }
        let mut report = report_plan(&plan, dry_run);
        if !dry_run {
            let keys = plan.rows.iter().filter_map(|row| {
                let key = plan.made.get(&row.stored.id)?;
                Some(NewSecret::new(&row.name, key.clone()))
            });
            report.keys = keys.collect();
        }
        if plan.rows.is_empty() {
            return Ok(Some(report));
        }
        let mut late = false;
        let decide = |around: &WriteView<'_>| {
            if !around.is_as_seen() {
                late = true;
                return Err(busy("changed meanwhile"));
            }
            let batch = self.batch(plan, around)?;
            // What would be refused is refused in a dry run too.
            if dry_run { Ok(Batch::default()) } else { Ok(batch) }
        };
        match self.call.commit(stored.revision, decide).await {
            Ok(revision) => {
                report.revision = Some(revision).filter(|_| !dry_run);
                Ok(Some(report))
            }
            Err(_) if late => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    fn batch(&self, plan: DocumentPlan, around: &WriteView<'_>) -> Result<Batch, Problem> {
        let mut batch = Batch::default();
        let mut checks = Vec::new();
        for row in plan.rows {
            batch.audit.push(self.author.audit(&self.call.app, row.action, &row.stored, &row.told));
            checks.push((format!("{} {}", row.kind.section, row.name.shown()), row.check));
            batch.rows.push(row.stored);
            batch.versions.extend(row.versions);
        }
        let after = around.plus(&batch.rows)?;
        for (at, check) in checks {
            check(&after).map_err(|why| within(&at, why))?;
        }
        Ok(batch)
    }
}

fn report_plan(plan: &DocumentPlan, dry_run: bool) -> ConfigurationReport {
    let changes = plan
        .rows
        .iter()
        .map(|row| ItemChange::new(row.action.name(), row.kind.section, &row.name, row.changes.clone()));
    ConfigurationReport {
        dry_run,
        unchanged: plan.unchanged,
        changes: changes.collect(),
        missing_secrets: plan.missing_secrets.iter().cloned().collect(),
        ..ConfigurationReport::default()
    }
}
