//! Ids of objects that a provider keeps. Where a call could reach one provider only they stay as that made them; where
//! it could reach several, answers give them bound: sealed with the provider in them. A bound id leads the call that
//! names it to that provider and to no other. Knows no store, as there is none.

mod isolation;
mod ownership;
mod stream;

pub(crate) use isolation::{is_isolated, shown_list};
use ownership::ObjectNotes;
pub(crate) use stream::BoundStream;

use super::content::look;
use super::request::{PinnedTo, Request, RequestContent};
use super::routing::ObjectRoute;
use super::target::{self, Aim, Credential};
use crate::kept_objects::KeptObjectNotes;
use bytes::Bytes;
use gateway_domain::config::{Config, Leaf, ProviderRef};
use gateway_domain::form::ClientForm;
use gateway_domain::kept::{self, BoundId, KeptAt, Touches};
use gateway_domain::path::decoded;
use gateway_domain::ports::IdSeal;
use gateway_domain::{Fault, FaultKind};
use gateway_providers::forms::form_media;
use memchr::memmem;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock};

/// Looked for in every request that is held: made once.
static MARK: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(kept::MARK));

/// One text for whatever is no id of this caller's: nobody learns whose it is.
fn unknown() -> Fault {
    Fault::new(FaultKind::UnknownObject, "No object with this id is known")
}

/// Puts providers' own ids in the place of bound ones, in path, query and body, and notes where they lead.
pub(crate) async fn unbind(seal: &dyn IdSeal, request: &mut Request) -> Result<(), Fault> {
    isolation::look(request);
    let marked = |text: &[u8]| MARK.find(text).is_some();
    let route = &request.ask.route;
    if marked(route.path.as_bytes()) || route.query.as_deref().is_some_and(|query| marked(query.as_bytes())) {
        unbind_route(seal, request)?;
    }
    let content = &request.ask.content;
    match content.form.clone() {
        // Pictures and sound have such bytes in them, too.
        Some(form) => unbind_form(seal, request, &form)?,
        None if !content.names_no_object && marked(&content.bytes) => unbind_body(seal, request).await?,
        None => {}
    }
    Ok(())
}

/// Fields of text in a form that is held.
fn unbind_form(seal: &dyn IdSeal, request: &mut Request, form: &ClientForm) -> Result<(), Fault> {
    let mut opener = Opener::of(seal, request);
    opener.pin = request.ask.pin.clone();
    let content = &request.ask.content;
    let (mut out, mut copied) = (Vec::new(), 0);
    for part in form.parts().iter().filter(|part| part.filename.is_none()) {
        let text = content.bytes.get(part.value.clone()).and_then(|value| std::str::from_utf8(value).ok());
        let is_bound = |text: &&str| kept::sealed_part(text).is_some();
        let Some(text) = text.filter(is_bound).filter(|_| kept::names_object(&isolation::place_of_part(part))) else {
            continue;
        };
        out.extend_from_slice(content.bytes.get(copied..part.value.start).unwrap_or_default());
        out.extend_from_slice(opener.open(&part.name, text)?.as_bytes());
        copied = part.value.end;
    }
    let pin = opener.pin;
    if copied > 0 {
        out.extend_from_slice(content.bytes.get(copied..).unwrap_or_default());
        let read = ClientForm::read(&form_media(form.boundary()), &out)
            .map_err(|why| Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}")))?;
        let content = &mut request.ask.content;
        (content.bytes, content.form) = (out.into(), Some(Arc::new(read)));
    }
    request.ask.pin = pin;
    Ok(())
}

fn unbind_route(seal: &dyn IdSeal, request: &mut Request) -> Result<(), Fault> {
    let mut opener = Opener::of(seal, request);
    let route = &request.ask.route;
    let (front, tail) = route.path.split_at(route.tail.start);
    let mut path = front.to_owned();
    for (place, segment) in tail.split('/').enumerate() {
        if place > 0 {
            path.push('/');
        }
        match kept::sealed_part(segment) {
            Some(_) => encode(&mut path, &opener.open("the id in the path", segment)?),
            None => path.push_str(segment),
        }
    }
    let query = route.query.as_deref().map(|query| unbind_query(&mut opener, query)).transpose()?;
    let pin = opener.pin;
    let route = &mut request.ask.route;
    (route.tail, route.path) = (route.tail.start..path.len(), path.into());
    route.query = query.map(Into::into);
    request.ask.pin = pin;
    Ok(())
}

fn unbind_query(opener: &mut Opener<'_>, query: &str) -> Result<String, Fault> {
    let mut out = String::with_capacity(query.len());
    for (place, pair) in query.split('&').enumerate() {
        if place > 0 {
            out.push('&');
        }
        match pair.split_once('=').filter(|(_, value)| kept::sealed_part(value).is_some()) {
            Some((name, value)) => {
                out.push_str(name);
                out.push('=');
                let is_place = opener.lists && isolation::is_cursor(&decoded(name));
                let native = if is_place { opener.open_place(name, value) } else { opener.open(name, value) };
                encode(&mut out, &native?);
            }
            None => out.push_str(pair),
        }
    }
    Ok(out)
}

async fn unbind_body(seal: &dyn IdSeal, request: &mut Request) -> Result<(), Fault> {
    let mut opener = Opener::of(seal, request);
    opener.pin = request.ask.pin.clone();
    let mut wrong = None;
    let rewritten = kept::rewrite(&request.ask.content.bytes, |place, text| {
        if !kept::names_object(place) || kept::sealed_part(text).is_none() || wrong.is_some() {
            return None;
        }
        opener.open(place.field, text).map_err(|fault| wrong = Some(fault)).ok()
    });
    if let Some(fault) = wrong {
        return Err(fault);
    }
    let pin = opener.pin;
    if let Some(body) = rewritten {
        let waited_us = request.ask.content.waited_us;
        let bytes = Bytes::from(body);
        let found = look(&bytes, request.ask.route.asked()).await?;
        let unread = found.unread;
        request.ask.content = RequestContent { bytes, unread, waited_us, ..found };
    }
    request.ask.pin = pin;
    Ok(())
}

/// What may stand in a segment of a path or a value of a query stays, all else is written as its bytes.
fn encode(out: &mut String, id: &str) {
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Opens the ids of one request, which must all lead to the same place.
struct Opener<'a> {
    seal: &'a dyn IdSeal,
    workspace: uuid::Uuid,
    pin: Option<PinnedTo>,
    /// A list is asked for that may go on behind an object of others.
    lists: bool,
}

impl<'a> Opener<'a> {
    fn of(seal: &'a dyn IdSeal, request: &Request) -> Self {
        let lists = shown_list(request).is_some();
        Self { seal, workspace: request.caller.tenant.workspace.id.0, pin: None, lists }
    }

    /// The id of an object, or of one that a list goes on behind.
    fn open_place(&mut self, field: &str, id: &str) -> Result<String, Fault> {
        let (_, sealed) = kept::sealed_part(id).ok_or_else(unknown)?;
        match self.seal.open(sealed).and_then(|plain| BoundId::read_cursor(&plain)) {
            Some(cursor) => self.opened(field, (id, cursor)),
            None => self.open(field, id),
        }
    }

    /// The provider's own id.
    fn open(&mut self, field: &str, id: &str) -> Result<String, Fault> {
        let (_, sealed) = kept::sealed_part(id).ok_or_else(unknown)?;
        let opened = self.seal.open(sealed).and_then(|plain| BoundId::read(&plain)).ok_or_else(unknown)?;
        self.opened(field, (id, opened))
    }

    fn opened(&mut self, field: &str, (id, opened): (&str, BoundId)) -> Result<String, Fault> {
        let (kind, _) = kept::sealed_part(id).ok_or_else(unknown)?;
        if opened.workspace != self.workspace || kept::kind_of(&opened.native) != kind {
            return Err(unknown());
        }
        match &self.pin {
            Some(pin) if pin.at != opened.at => {
                let why = format!("{} and {field} name objects that different providers keep", pin.field);
                Err(Fault::new(FaultKind::BadBody, why).on(field))
            }
            Some(_) => Ok(opened.native),
            None => {
                self.pin = Some(PinnedTo { at: opened.at, field: field.to_owned() });
                Ok(opened.native)
            }
        }
    }
}

/// Where a request goes that names kept objects. One with a bound id goes to its provider only; what names none, or
/// names one as a provider made it, goes to the first target where there are several.
pub(crate) fn route(config: &Config, inline: bool, request: &mut Request) -> Result<ObjectRoute, Fault> {
    if let Some(pin) = request.ask.pin.clone() {
        let only = pinned(&pin.at, config, inline, request).ok_or_else(unknown)?;
        isolation::judge(config, inline, request)?;
        return Ok(ObjectRoute { only: Some(only), binds: true });
    }
    let touches = match request.beside() {
        Some(_) => Touches::Asks,
        None => kept::touches(&request.ask.method, request.ask.route.tail()),
    };
    if isolation::judge(config, inline, request)? {
        // A list asks one target.
        let only = shown_list(request).and_then(|_| config.leaves().next().cloned());
        return Ok(ObjectRoute { only, binds: touches != Touches::Nothing });
    }
    if touches == Touches::Nothing || !has_several(config, inline, request) {
        return Ok(ObjectRoute::default());
    }
    let asks = touches == Touches::Asks || names_native(request);
    Ok(ObjectRoute { only: config.leaves().next().filter(|_| asks).cloned(), binds: true })
}

/// Whether the targets of a config lead to more than one provider.
fn has_several(config: &Config, inline: bool, request: &Request) -> bool {
    let mut marks = config.leaves().filter_map(|leaf| mark_of(leaf, inline, request));
    let first = marks.next();
    marks.any(|mark| Some(mark) != first)
}

/// Whether the body names an object by the id that its provider gave it.
fn names_native(request: &Request) -> bool {
    let mut found = false;
    let _ = kept::rewrite(&request.ask.content.bytes, |place, text| {
        found |= place.field != "id" && kept::names_object(place) && !kept::kind_of(text).is_empty();
        None
    });
    found
}

/// The target of the config that leads there; of a request that names its providers itself, the provider.
fn pinned(at: &KeptAt, config: &Config, inline: bool, request: &mut Request) -> Option<Arc<Leaf>> {
    let found = config.leaves().find(|leaf| mark_of(leaf, inline, request).as_ref() == Some(at));
    if let Some(leaf) = found {
        return Some(leaf.clone());
    }
    let KeptAt::Provider(id) = at else { return None };
    let open = config.leaves().find(|leaf| matches!(leaf.provider, ProviderRef::FromRequest))?;
    if request.is_held_to_config() {
        return None;
    }
    let provider = request.caller.tenant.workspace.providers().find(|provider| provider.id.0 == *id)?;
    request.ask.headers.virtual_key = Some(provider.slug.clone());
    let leads = mark_of(open, inline, request).as_ref() == Some(at);
    leads.then(|| open.clone())
}

fn mark_of(leaf: &Leaf, inline: bool, request: &Request) -> Option<KeptAt> {
    let aim = target::resolve_place(leaf, inline, request).ok()?;
    Some(mark(&aim, request))
}

/// What tells this target's objects from those of others.
fn mark(aim: &Aim, request: &Request) -> KeptAt {
    if let (Credential::Managed(_), Some(provider)) =
        (&aim.credential, request.caller.tenant.workspace.provider(&aim.virtual_key))
    {
        return KeptAt::Provider(provider.id.0);
    }
    let mut hash = Sha256::new();
    for part in [aim.adapter.info().slug, &aim.base.authority()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(aim.origin.to_le_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    KeptAt::Elsewhere(std::array::from_fn(|place| digest[place]))
}

/// What tells this target's objects from those of others, as bytes that are equal on every node.
pub(crate) fn place_of(aim: &Aim, request: &Request) -> Vec<u8> {
    match mark(aim, request) {
        KeptAt::Provider(id) => id.as_bytes().to_vec(),
        KeptAt::Elsewhere(digest) => digest.to_vec(),
    }
}

/// What keeps what a target was asked for, where workspaces may share it.
pub(crate) fn keeper_of(aim: &Aim, request: &Request) -> Vec<u8> {
    match &aim.credential {
        Credential::Managed(upstream) => upstream.integration.0.as_bytes().to_vec(),
        Credential::Own(_) | Credential::None => place_of(aim, request),
    }
}

/// Binds the ids in one target's answers.
pub(crate) struct Binder {
    seal: Arc<dyn IdSeal>,
    workspace: uuid::Uuid,
    at: KeptAt,
    /// The answer is an object's own bytes.
    is_content: bool,
    /// Where objects of workspaces are kept apart.
    notes: Option<ObjectNotes>,
}

impl Binder {
    pub(crate) fn new(
        (seal, notes): (&Arc<dyn IdSeal>, &Arc<KeptObjectNotes>),
        aim: &Aim,
        request: &Request,
    ) -> Arc<Self> {
        let is_content = kept::is_content(request.ask.route.tail());
        let (workspace, at) = (request.caller.tenant.workspace.id.0, mark(aim, request));
        let notes = is_isolated(aim).then(|| ObjectNotes::new(notes.clone(), keeper_of(aim, request), request));
        Arc::new(Self { seal: seal.clone(), workspace, at, is_content, notes })
    }

    /// Waits until it is noted, as far as that may take, whose the objects are that the answer to a call told of.
    pub(crate) async fn settled(&self) {
        if let Some(notes) = &self.notes {
            notes.settled().await;
        }
    }

    /// The provider did what it was asked for.
    pub(crate) fn done(&self) {
        if let Some(notes) = &self.notes {
            notes.forget_removed();
        }
    }

    /// Where a list goes on that was not read to its end.
    pub(crate) fn cursor(&self, native: &str) -> String {
        let id = BoundId { workspace: self.workspace, at: self.at, native: native.to_owned() };
        format!("{}{}{}", kept::kind_of(native), kept::MARK, self.seal.seal(&id.cursor()))
    }

    pub(crate) const fn reads(&self) -> bool {
        !self.is_content
    }

    /// An id that an answer names beside its body.
    pub(crate) fn bound_id(&self, native: &str) -> String {
        let id = BoundId { workspace: self.workspace, at: self.at, native: native.to_owned() };
        format!("{}{}{}", kept::kind_of(native), kept::MARK, self.seal.seal(&id.plain()))
    }

    /// Gives the JSON with bound ids in the place of the provider's.
    pub(crate) fn bound(&self, body: &Bytes) -> Bytes {
        let rewritten = kept::rewrite(body, |place, text| {
            if !kept::is_id_of_object(place, text) {
                return None;
            }
            if let Some(notes) = &self.notes {
                notes.saw(place, text);
            }
            Some(self.bound_id(text))
        });
        rewritten.map_or_else(|| body.clone(), Bytes::from)
    }
}

impl fmt::Debug for Binder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binder").field("at", &self.at).finish_non_exhaustive()
    }
}
