//! Files in a bucket of a cloud: looked at, read and removed by the address that the client holds. The bucket is the
//! one of the target's settings, and what came by the gateway from another workspace is unknown.

use super::list_page::FileListPart;
use super::service::{ServiceCall, Services};
use super::{DirectStop, own_objects};
use crate::upstream::http1::Response;
use gateway_domain::cloud::CloudService;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::stored_files::{BucketStore, ListedFile, ListedPage, StoredFile};
use http::{HeaderName, Method, header};
use serde_json::{Value, json};

/// Pages of a bucket that are looked at for one list, and bytes of each.
const MOST_PAGES: usize = 10;
const MOST_PAGE: usize = 8 << 20;

pub(super) struct Files<'a> {
    pub(super) services: &'a Services<'a>,
    pub(super) store: &'static BucketStore,
    pub(super) bucket: String,
    /// Ids are bound on their way down: the address itself is.
    binds: bool,
}

/// What is known of a file.
pub(super) struct FileFacts {
    pub(super) bytes: u64,
    pub(super) created: i64,
    pub(super) purpose: String,
}

impl<'a> Files<'a> {
    pub(super) fn of(services: &'a Services<'a>, store: &'static BucketStore, binds: bool) -> Result<Self, Fault> {
        let Some(bucket) = services.aim().settings.get(store.setting) else {
            let why =
                format!("Files of {} need the setting {}: the bucket that they lie in", services.slug(), store.setting);
            return Err(Fault::new(FaultKind::Refused, why).on(store.setting));
        };
        services.permit(CloudService::Storage)?;
        Ok(Self { services, store, bucket: bucket.to_owned(), binds })
    }

    pub(super) fn workspace(&self) -> String {
        self.services.request.caller.tenant.workspace.id.0.simple().to_string()
    }

    pub(super) fn find(&self, uri: &str) -> Result<StoredFile, Fault> {
        self.store.read(uri, &self.bucket, &self.workspace()).ok_or_else(own_objects::unknown)
    }

    /// The id that the client holds. Where ids are bound it is bound later, so the file's own address is given.
    pub(super) fn id(&self, file: &StoredFile) -> String {
        if self.binds { self.store.uri(file) } else { self.store.id(file) }
    }

    pub(super) fn shown(&self, file: &StoredFile, facts: &FileFacts) -> Value {
        json!({
            "id": self.id(file), "object": "file", "bytes": facts.bytes, "created_at": facts.created,
            "filename": file.name(), "purpose": facts.purpose, "status": "processed",
        })
    }

    pub(super) fn call(method: Method, file: &StoredFile) -> ServiceCall {
        ServiceCall::bare(CloudService::Storage, method, file.path())
    }

    async fn asked(&self, method: Method, file: &StoredFile) -> Result<Response, DirectStop> {
        match self.services.open(Self::call(method, file)).await {
            // One text for all that is not there.
            Err(DirectStop::Told(said)) if said.status == 404 => Err(own_objects::unknown().into()),
            other => other,
        }
    }

    pub(super) async fn show(&self, uri: &str) -> Result<Value, DirectStop> {
        let file = self.find(uri)?;
        let found = self.asked(Method::HEAD, &file).await?;
        let told = |name: &HeaderName| found.head().headers().get(name).and_then(|value| value.to_str().ok());
        let bytes = told(&header::CONTENT_LENGTH).and_then(|text| text.parse().ok()).unwrap_or_default();
        let created = told(&header::LAST_MODIFIED).and_then(|text| jiff::fmt::rfc2822::parse(text).ok());
        let created = created.map(|at| at.timestamp().as_second()).unwrap_or_default();
        let purpose = told(&HeaderName::from_static(self.store.purpose_header)).unwrap_or("batch").to_owned();
        Ok(self.shown(&file, &FileFacts { bytes, created, purpose }))
    }

    /// Those of the workspace. Stores tell the oldest first, so that all are looked at.
    pub(super) async fn list(&self) -> Result<Value, DirectStop> {
        let (part, workspace) = (FileListPart::read(self.services.request)?, self.workspace());
        let (mut files, mut page) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let path = self.store.list_path(&self.bucket, &workspace, page.as_deref());
            let call = ServiceCall::bare(CloudService::Storage, Method::GET, path);
            let body = self.services.fetch(call, MOST_PAGE).await?;
            let told = self
                .store
                .listed(&self.bucket, &workspace, &body)
                .unwrap_or_else(|| ListedPage { files: Vec::new(), next: None });
            files.extend(told.files);
            page = told.next;
            if page.is_none() {
                break;
            }
        }
        if page.is_some() {
            let why = "More files of this workspace lie in the bucket than are listed (10,000)";
            return Err(Fault::new(FaultKind::Refused, why).into());
        }
        let shown = files.iter().rev().map(|ListedFile { file, bytes, created }| {
            let purpose = file.purpose().to_owned();
            self.shown(file, &FileFacts { bytes: *bytes, created: *created, purpose })
        });
        Ok(part.cut(shown.collect(), false)?)
    }

    pub(super) async fn content(&self, uri: &str) -> Result<Response, DirectStop> {
        self.asked(Method::GET, &self.find(uri)?).await
    }

    /// What did not come by the gateway is not its to remove.
    pub(super) async fn delete(&self, uri: &str) -> Result<Value, DirectStop> {
        let file = self.find(uri)?;
        if !file.is_of(&self.workspace()) {
            let why = "Only files that came by the gateway are removed by it";
            return Err(Fault::new(FaultKind::Forbidden, why).on("file_id").into());
        }
        // A store says the same of what is there and of what is not.
        self.asked(Method::HEAD, &file).await?;
        self.asked(Method::DELETE, &file).await?;
        Ok(json!({ "id": self.id(&file), "object": "file", "deleted": true }))
    }
}
