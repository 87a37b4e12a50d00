//! Sums by one thing at a time. Most questions are for all calls, or by one of what calls are told apart by; the rows
//! that answer those are few, where all combinations are many. The workspace and the status stay apart in each.

use super::{Combination, CutValues, Dimension, SumQuery};
use smol_str::SmolStr;

/// What the rows of one kind are told apart by, beside workspace and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Margin {
    Nothing,
    Key,
    User,
    Provider,
    VirtualKey,
    Model,
    Config,
    Prompt,
    /// All named keys at once.
    Metadata,
    /// All there is: the rollups of a day once more, where they lie together.
    Everything,
}

impl Margin {
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Key,
        Self::User,
        Self::Provider,
        Self::VirtualKey,
        Self::Model,
        Self::Config,
        Self::Prompt,
        Self::Metadata,
        Self::Everything,
    ];

    /// The name under which it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Key => "key",
            Self::User => "user",
            Self::Provider => "provider",
            Self::VirtualKey => "virtual_key",
            Self::Model => "model",
            Self::Config => "config",
            Self::Prompt => "prompt",
            Self::Metadata => "metadata",
            Self::Everything => "all",
        }
    }

    /// Whether it is kept for hours as well as for days.
    pub const fn has_hours(self) -> bool {
        !matches!(self, Self::Everything)
    }

    /// The one whose rows answer a question that rollups can answer.
    pub fn of(query: &SumQuery) -> Self {
        let of = &query.of;
        let filters = [
            (Self::Key, of.keys.is_empty()),
            (Self::Provider, of.providers.is_empty()),
            (Self::VirtualKey, of.virtual_keys.is_empty()),
            (Self::Model, of.models.is_empty()),
            (Self::Config, of.configs.is_empty()),
            (Self::Prompt, of.prompts.is_empty()),
        ];
        let filters = filters.into_iter().filter(|(_, asks_nothing)| !asks_nothing).map(|(margin, _)| margin);
        let metadata = of.metadata.iter().map(|(key, _)| if key == super::USER { Self::User } else { Self::Metadata });
        let by = query.by.iter().filter_map(|by| match by {
            Dimension::Workspace | Dimension::Status => None,
            Dimension::Key => Some(Self::Key),
            Dimension::User => Some(Self::User),
            Dimension::Provider => Some(Self::Provider),
            Dimension::VirtualKey => Some(Self::VirtualKey),
            Dimension::Model => Some(Self::Model),
            Dimension::Config => Some(Self::Config),
            Dimension::Prompt => Some(Self::Prompt),
            // No rollup tells traces apart.
            Dimension::Trace => None,
            Dimension::Metadata(_) => Some(Self::Metadata),
        });
        let mut all = filters.chain(metadata).chain(by);
        let first = all.next().unwrap_or(Self::Nothing);
        if all.all(|other| other == first) { first } else { Self::Everything }
    }

    /// What this row of a rollup is counted under.
    #[must_use]
    pub fn share_of(self, row: &Combination) -> Combination {
        if self == Self::Everything {
            return row.clone();
        }
        let text = |margin, text: &SmolStr| if self == margin { text.clone() } else { SmolStr::default() };
        let cut = match self {
            Self::User => CutValues::USER,
            Self::Model => CutValues::MODEL,
            Self::Metadata => CutValues::METADATA,
            _ => CutValues::default(),
        };
        Combination {
            org: row.org,
            workspace: row.workspace,
            status: row.status,
            key: row.key.filter(|_| self == Self::Key),
            user: text(Self::User, &row.user),
            provider: text(Self::Provider, &row.provider),
            virtual_key: text(Self::VirtualKey, &row.virtual_key),
            model: text(Self::Model, &row.model),
            config: text(Self::Config, &row.config),
            prompt: text(Self::Prompt, &row.prompt),
            metadata: text(Self::Metadata, &row.metadata),
            cut: CutValues(row.cut.0 & cut.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::SumParts;
    use crate::record::LogQuery;
    use std::time::Duration;

    fn asked(of: LogQuery, by: Vec<Dimension>) -> SumQuery {
        SumQuery { of, edges: Vec::new(), by, parts: SumParts::NONE, most_records: 0, time: Duration::ZERO }
    }

    #[test]
    fn one_thing_has_rows_of_its_own_and_two_have_all_of_a_day() {
        let models = || LogQuery { models: vec!["m".into()], ..LogQuery::default() };
        let metadata = |key: &str| LogQuery { metadata: vec![(key.into(), "x".into())], ..LogQuery::default() };
        for (of, by, margin) in [
            (LogQuery::default(), vec![], Margin::Nothing),
            (LogQuery { statuses: vec![500], ..LogQuery::default() }, vec![Dimension::Workspace], Margin::Nothing),
            (models(), vec![], Margin::Model),
            (models(), vec![Dimension::Status, Dimension::Model], Margin::Model),
            (models(), vec![Dimension::User], Margin::Everything),
            (metadata("_user"), vec![Dimension::User], Margin::User),
            (metadata("team"), vec![Dimension::Metadata("other".into())], Margin::Metadata),
            (metadata("team"), vec![Dimension::Key], Margin::Everything),
            (LogQuery::default(), vec![Dimension::Provider, Dimension::Model], Margin::Everything),
        ] {
            assert_eq!(Margin::of(&asked(of.clone(), by.clone())), margin, "{of:?} {by:?}");
        }
    }
}
