//! Exports of records: what an admin asks for once and fetches when it is made. Knows no store and no form of a file.

use crate::id::{OrgId, WorkspaceId};
use crate::record::LogQuery;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! fields {
    ($($variant:ident = $name:literal)+) => {
        /// A field of a record that can be asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum LogField {
            $($variant),+
        }

        impl LogField {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

fields! {
    Id = "id"
    TraceId = "trace_id"
    CreatedAt = "created_at"
    Request = "request"
    Response = "response"
    IsSuccess = "is_success"
    AiOrg = "ai_org"
    AiModel = "ai_model"
    ReqUnits = "req_units"
    ResUnits = "res_units"
    TotalUnits = "total_units"
    RequestUrl = "request_url"
    Cost = "cost"
    CostCurrency = "cost_currency"
    ResponseTime = "response_time"
    ResponseStatusCode = "response_status_code"
    Mode = "mode"
    Config = "config"
    PromptSlug = "prompt_slug"
    Metadata = "metadata"
}

impl LogField {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Whether it can be kept from those who read logs.
    pub const fn is_deniable(self) -> bool {
        !matches!(self, Self::IsSuccess | Self::Mode)
    }

    /// Lies with the messages, which are read one by one.
    pub const fn is_of_messages(self) -> bool {
        matches!(self, Self::Request | Self::Response)
    }
}

/// A set of fields, as small as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFields(u32);

impl LogFields {
    #[must_use]
    pub const fn with(self, field: LogField) -> Self {
        Self(self.0 | 1 << field as u32)
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, field: LogField) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn names(self) -> Vec<&'static str> {
        LogField::ALL.iter().filter(|field| self.contains(**field)).map(|field| field.name()).collect()
    }
}

impl FromIterator<LogField> for LogFields {
    fn from_iter<I: IntoIterator<Item = LogField>>(fields: I) -> Self {
        fields.into_iter().fold(Self::default(), Self::with)
    }
}

/// The kind of the jobs that make exports, and of the blobs that hold the parts of their files.
pub const EXPORT_KIND: &str = "log_export";

/// What the file of an export is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// A line of JSON for each record.
    #[default]
    Jsonl,
    Parquet,
}

impl ExportFormat {
    pub const ALL: [Self; 2] = [Self::Jsonl, Self::Parquet];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether a file can be gone on with: columns are written as a whole.
    pub const fn is_resumable(self) -> bool {
        matches!(self, Self::Jsonl)
    }
}

/// What is asked for: as an admin wrote it, and fit to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    pub description: String,
    /// The filters as they were given, JSON.
    pub filters: String,
    pub fields: Vec<LogField>,
    pub format: ExportFormat,
    /// How many records matched when it was asked for.
    pub total: u64,
}

/// What the job is given: the question with all that depends on who asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportOrder {
    pub export: Uuid,
    pub workspace: WorkspaceId,
    /// Its range stands beside it.
    pub query: LogQuery,
    /// Microseconds.
    pub from: Option<i64>,
    pub to: i64,
    pub fields: Vec<LogField>,
    pub format: ExportFormat,
    /// When its file goes.
    pub expires_at: i64,
}

/// What has been written, and where the next page of records begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportProgress {
    /// The job whose parts make up the file, where that is not the one that goes on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts_of: Option<Uuid>,
    /// A cursor; absent before the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    pub rows: u64,
    pub bytes: u64,
    /// The first part of the file: a run that begins anew leaves the parts of the one before.
    pub first: u32,
    /// Which part of the file, and how much of that is written.
    pub part: u32,
    pub at: u64,
    /// There were more records than may be exported.
    pub is_cut: bool,
}

impl ExportProgress {
    /// The progress of a run that writes the whole file once more, since nobody can go on with what another run began.
    #[must_use]
    pub fn anew(&self) -> Self {
        let next = self.part + 1;
        Self { first: next, part: next, ..Self::default() }
    }

    /// The progress of a job that goes on from here, with the file that was begun. `None`: nothing was begun.
    #[must_use]
    pub fn handed_on(&self, job: Uuid) -> Option<Self> {
        self.behind.is_some().then(|| Self { parts_of: Some(self.parts_of.unwrap_or(job)), ..self.clone() })
    }

    /// The blob that holds a part of the file that a job writes.
    pub fn part_of(&self, job: Uuid, part: u32) -> Uuid {
        Uuid::from_u128(self.parts_of.unwrap_or(job).as_u128().wrapping_add(u128::from(part)))
    }

    /// All blobs of the file that a job writes.
    pub fn parts(&self, job: Uuid) -> impl Iterator<Item = Uuid> {
        (self.first..=self.part).map(move |part| self.part_of(job, part))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportState {
    Draft,
    InProgress,
    Success,
    Failed,
    Stopped,
}

impl ExportState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::InProgress => "in_progress",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// An export as it stands. What becomes of it is told by its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogExport {
    pub id: Uuid,
    pub org: OrgId,
    pub workspace: WorkspaceId,
    /// The person, or the key.
    pub created_by: Uuid,
    pub request: ExportRequest,
    /// The job that was made when it was last started; `None` before the first start.
    pub job: Option<Uuid>,
    pub state: ExportState,
    /// How far the file is written.
    pub progress: ExportProgress,
    /// Why it failed.
    pub note: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Which exports are shown, the newest first.
#[derive(Clone, Debug)]
pub struct ExportQuery {
    pub org: OrgId,
    pub workspaces: Vec<WorkspaceId>,
    pub id: Option<Uuid>,
    /// Only those of this person.
    pub created_by: Option<Uuid>,
    pub page: u64,
    pub page_size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_written() {
        for field in LogField::ALL {
            assert_eq!(serde_json::to_value(field).expect("a name"), field.name());
            assert_eq!(LogField::parse(field.name()), Some(*field));
        }
        for format in ExportFormat::ALL {
            assert_eq!(serde_json::to_value(format).expect("a name"), format.name());
        }
        assert_eq!(LogField::ALL.iter().filter(|field| !field.is_deniable()).count(), 2);
        let some: LogFields = [LogField::Cost, LogField::Id].into_iter().collect();
        assert!(some.contains(LogField::Id) && !some.contains(LogField::Mode) && LogFields::default().is_empty());
        assert_eq!(some.union(LogFields::default().with(LogField::Metadata)).names(), ["id", "cost", "metadata"]);
    }
}
