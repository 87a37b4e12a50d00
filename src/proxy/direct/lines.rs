//! Lines of a file for a batch of the provider's own, each written as a call of it would be, with the parameters of the
//! config. Read from one spool and written to the next, so that a few are held at a time; the first that cannot be
//! asked ends it all.

use super::service::Services;
use super::{DirectParts, bad, own_objects};
use crate::batches::{BadLine, FileWriter, Spool, SpooledLine};
use crate::proxy::content::look;
use crate::proxy::exchange::LineTarget;
use crate::proxy::request::{LineMark, Request, RequestContent, Route};
use crate::proxy::route_match::route;
use crate::proxy::routing::Routing;
use bytes::{BufMut as _, Bytes, BytesMut};
use gateway_domain::operation::Body;
use gateway_domain::{Fault, FaultKind, Operation};
use gateway_providers::native_batches::{NativeBatches, NewLine, native_batches};
use http::Method;
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;

/// What all lines have in common.
struct WrittenSoFar {
    family: &'static dyn NativeBatches,
    provider: &'static str,
    /// What they ask, as the first one says.
    route: Option<Route>,
    model: Option<Arc<str>>,
    /// Takes them; `None` while it writes.
    out: Option<FileWriter>,
}

fn at_line(number: u64, why: &str) -> Fault {
    Fault::new(FaultKind::BadBody, format!("Line {number} of the file {why}")).on("file")
}

/// The lines as the provider reads them.
pub(super) async fn written(
    parts: DirectParts<'_>,
    (request, routing): (&Request, &Routing),
    services: &Services<'_>,
    spool: &Spool,
) -> Result<Spool, Fault> {
    let provider = services.slug();
    let family = native_batches(provider)
        .ok_or_else(|| bad("purpose", &format!("must be another than batch: {provider} runs no batches")))?;
    let (batches, owner) = (parts.own.batches, own_objects::owner(request));
    let work = batches.clone();
    let begun = batches.apart(async move { work.begin_spool(owner).await }).await;
    let out = Some(begun.map_err(own_objects::fault)?);
    let mut so_far = WrittenSoFar { family, provider, route: None, model: None, out };
    let done = write_all(parts, (request, routing), &mut so_far, spool).await;
    match (done, so_far.out) {
        (Ok(()), Some(out)) => {
            let work = batches.clone();
            batches.apart(out.spooled(work)).await.map_err(own_objects::fault)
        }
        (done, out) => {
            let work = batches.clone();
            if let Some(out) = out {
                batches.runtime.spawn(async move { work.drop_file(out).await });
            }
            Err(done.err().unwrap_or_else(|| Fault::new(FaultKind::Internal, "The lines were lost")))
        }
    }
}

async fn write_all(
    parts: DirectParts<'_>,
    asked: (&Request, &Routing),
    so_far: &mut WrittenSoFar,
    spool: &Spool,
) -> Result<(), Fault> {
    let batches = parts.own.batches;
    let mut reader = spool.lines();
    let mut is_empty = true;
    loop {
        let (next, lines) = batches.apart(reader.more()).await.map_err(own_objects::fault)?;
        reader = next;
        let lines = lines.map_err(|BadLine { number, why }| at_line(number, &why))?;
        if lines.is_empty() {
            return if is_empty { Err(bad("file", "has no lines")) } else { Ok(()) };
        }
        is_empty = false;
        let mut text = BytesMut::new();
        for line in &lines {
            text.put_slice(&so_far.write(asked, line).await?);
            text.put_u8(b'\n');
        }
        let Some(file) = so_far.out.take() else { return Ok(()) };
        let pushed = batches.apart(async move { file.push(text.freeze()).await }).await;
        so_far.out = Some(pushed.map_err(own_objects::fault)?);
    }
}

/// The route of what a line asks.
pub(super) fn route_of(url: &str) -> Option<Route> {
    route(&Method::POST, url, None).ok().filter(|route| !route.raw && route.body == Some(Body::Json))
}

/// The least that a line of a model can ask, in the place of one that is not at hand.
pub(super) fn stand_in(operation: Operation, model: Option<&str>) -> Bytes {
    let mut body = match operation {
        Operation::ChatCompletions | Operation::Messages => {
            json!({ "messages": [{ "role": "user", "content": "-" }], "max_tokens": 1 })
        }
        Operation::ImagesGenerate => json!({ "prompt": "-" }),
        _ => json!({ "input": "-" }),
    };
    if let Some(model) = model {
        body["model"] = model.into();
    }
    body.to_string().into()
}

/// The line as a request of its own.
pub(super) async fn line_request(
    request: &Request,
    route: &Route,
    (body, mark): (Bytes, LineMark<'_>),
) -> Result<Request, Fault> {
    let found = look(&body, route.asked()).await?;
    Ok(request.line(route, RequestContent { bytes: body, ..found }, mark))
}

impl WrittenSoFar {
    async fn write(&mut self, (request, routing): (&Request, &Routing), line: &SpooledLine) -> Result<Vec<u8>, Fault> {
        let number = line.number;
        let wrong = |fault: Fault| match fault.status() {
            400 | 403 | 404 => at_line(number, &format!("cannot be asked: {}", fault.message())),
            _ => fault,
        };
        if !self.family.takes_name(&line.custom_id) {
            return Err(at_line(number, &format!("has a custom_id that {} does not take", self.provider)));
        }
        let route = match &self.route {
            Some(route) => route.clone(),
            None => {
                let known = route_of(&line.url).filter(|route| self.family.serves(route.operation));
                let why = || format!("asks for {}, of which {} runs no batches", line.url, self.provider);
                let route = known.ok_or_else(|| at_line(number, &why()))?;
                self.route.insert(route).clone()
            }
        };
        let mark = LineMark { trace: &request.caller.trace, metadata: &[] };
        let asked = line_request(request, &route, (line.body.clone(), mark)).await.map_err(wrong)?;
        let target = LineTarget::of(&asked, routing).map_err(wrong)?;
        self.one_model(target.model()).map_err(|why| at_line(number, &why))?;
        let body = target.filled().and_then(|filled| target.written(filled)).map_err(wrong)?;
        let body: &RawValue =
            serde_json::from_slice(&body).map_err(|_| at_line(number, "would be asked with a body that is no JSON"))?;
        Ok(self.family.line(&NewLine { name: &line.custom_id, body }))
    }

    fn one_model(&mut self, model: Option<&str>) -> Result<(), String> {
        if !self.family.has_one_model() {
            return Ok(());
        }
        let Some(model) = model else { return Err("names no model".to_owned()) };
        match &self.model {
            Some(first) if **first != *model => {
                Err(format!("asks for {model}: all lines of a batch ask for one model here, and the first for {first}"))
            }
            Some(_) => Ok(()),
            None => {
                self.model = Some(model.into());
                Ok(())
            }
        }
    }
}
