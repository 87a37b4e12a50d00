//! Files of a family that keeps them as objects of a kind of its own: looked at, listed, read and removed by the id
//! that the provider has. What came by the gateway from another workspace is unknown, and only what came by it is
//! removed by it.

use super::list_page::FileListPart;
use super::service::{ServiceCall, Services};
use super::{DirectStop, own_objects};
use crate::upstream::http1::Response;
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::kept_files::{FileOwner, KeptFiles, ToldFile, is_name, owner, page, purpose};
use gateway_providers::native_batches::{BatchCall, BatchPlace};
use serde_json::{Value, json};

/// Pages of a provider's list that are looked at for one of a client's.
const MOST_PAGES: usize = 20;
/// Bytes of what is told of files.
const MOST_TOLD: usize = 4 << 20;

pub(super) struct FamilyFiles<'a> {
    pub(super) services: &'a Services<'a>,
    pub(super) family: &'static dyn KeptFiles,
    pub(super) place: BatchPlace,
}

impl<'a> FamilyFiles<'a> {
    pub(super) fn of(services: &'a Services<'a>, family: &'static dyn KeptFiles) -> Result<Self, Fault> {
        let place = BatchPlace::of(&services.aim().settings);
        match family.lacks(&place) {
            Some(what) => Err(Fault::new(FaultKind::Refused, format!("Files of {} need {what}", services.slug()))),
            None => Ok(Self { services, family, place }),
        }
    }

    pub(super) fn workspace(&self) -> String {
        self.services.request.caller.tenant.workspace.id.0.simple().to_string()
    }

    /// A call without bytes of a file. One text for all that is not there.
    pub(super) async fn ask(&self, call: BatchCall) -> Result<Bytes, DirectStop> {
        let call = ServiceCall::of_batch(call).ok_or_else(own_objects::unknown)?;
        match self.services.fetch(call, MOST_TOLD).await {
            Err(DirectStop::Told(said)) if said.status == 404 => Err(own_objects::unknown().into()),
            told => told,
        }
    }

    /// Says whose the file is; refuses those that this workspace may not ask for.
    fn permit(&self, id: &str) -> Result<FileOwner, Fault> {
        let whose = owner(id, &self.workspace());
        if is_name(id) && whose != FileOwner::Other { Ok(whose) } else { Err(own_objects::unknown()) }
    }

    pub(super) async fn look(&self, id: &str) -> Result<ToldFile, DirectStop> {
        self.permit(id)?;
        let told = self.ask(self.family.look(&self.place, id)).await?;
        let told: Value = serde_json::from_slice(&told).unwrap_or_default();
        Ok(self.family.parse_file(&told).ok_or_else(own_objects::unknown)?)
    }

    pub(super) fn shown(&self, file: &ToldFile) -> Value {
        file.shown(&file.id, purpose(&file.id).unwrap_or_else(|| self.family.usual_purpose()))
    }

    pub(super) async fn show(&self, id: &str) -> Result<Value, DirectStop> {
        Ok(self.shown(&self.look(id).await?))
    }

    pub(super) async fn list(&self) -> Result<Value, DirectStop> {
        let (part, workspace) = (FileListPart::read(self.services.request)?, self.workspace());
        let (mut files, mut next) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let body = self.ask(self.family.list(&self.place, next.as_deref())).await?;
            let (found, more) = page(self.family, &body).unwrap_or_default();
            files.extend(found.into_iter().filter(|file| owner(&file.id, &workspace) != FileOwner::Other));
            next = more;
            if next.is_none() {
                break;
            }
        }
        let ids: Vec<&str> = files.iter().map(|file: &ToldFile| file.id.as_str()).collect();
        if let Some(own) = self.services.own_among(&ids).await? {
            files.retain(|file| own.contains(&file.id));
        }
        files.sort_by_key(|file: &ToldFile| std::cmp::Reverse(file.created));
        Ok(part.cut(files.iter().map(|file| self.shown(file)).collect(), next.is_some())?)
    }

    pub(super) async fn content(&self, id: &str) -> Result<Response, DirectStop> {
        self.permit(id)?;
        let call = self.family.content(&self.place, id);
        let Some(addresses) = self.family.addresses() else {
            let call = ServiceCall::of_batch(call).ok_or_else(own_objects::unknown)?;
            return match self.services.open(call).await {
                Err(DirectStop::Told(said)) if said.status == 404 => Err(own_objects::unknown().into()),
                opened => opened,
            };
        };
        match addresses(&self.ask(call).await?).as_slice() {
            [] => Err(own_objects::unknown().into()),
            [url] => Ok(self.services.download(url).await?),
            _ => {
                let why =
                    "The dataset has several files: those of a batch are read by its output_file_id and error_file_id";
                Err(Fault::new(FaultKind::Refused, why).on("file_id").into())
            }
        }
    }

    /// What did not come by the gateway is not its to remove.
    pub(super) async fn delete(&self, id: &str) -> Result<Value, DirectStop> {
        if self.permit(id)? == FileOwner::Elsewhere {
            let why = "Only files that came by the gateway are removed by it";
            return Err(Fault::new(FaultKind::Forbidden, why).on("file_id").into());
        }
        self.ask(self.family.delete(&self.place, id)).await?;
        Ok(json!({ "id": id, "object": "file", "deleted": true }))
    }
}
