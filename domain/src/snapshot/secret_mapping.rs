//! Integrations, of providers, of MCP servers and of agents, that are filled from secrets of managers: which they are,
//! what fills them as things stand, and how they are made anew when a value changes. A value that is not there, or does
//! not fit, is told by its reference and never by itself.

use super::{Build, Draft, RowProblem, SavedSecretReference, Snapshot, Upstream};
use crate::cloud::CloudSettings;
use crate::id::{IntegrationId, OrgId, SecretReferenceId, WorkspaceId};
use crate::resource::secret_reference::{MappedPlace, SecretMapping};
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use crate::secret_source::SecretText;
use std::collections::HashSet;
use std::sync::Arc;

/// An integration that is filled from references: its row, to be read again, and what stands behind it.
#[derive(Clone, Debug)]
pub(super) struct MappedRow {
    pub(super) row: Arc<Stored>,
    pub(super) references: Vec<Arc<SavedSecretReference>>,
}

impl MappedRow {
    /// `None` where it is filled from none.
    pub(super) fn of(row: &Stored, filled: &mut Filled) -> Option<Arc<Self>> {
        let references = std::mem::take(&mut filled.references);
        (!references.is_empty()).then(|| Arc::new(Self { row: Arc::new(row.clone()), references }))
    }

    pub(super) fn uses(&self, reference: SecretReferenceId) -> bool {
        self.references.iter().any(|known| known.id == reference)
    }

    fn is_touched(&self, moved: &HashSet<SecretReferenceId>) -> bool {
        self.references.iter().any(|known| moved.contains(&known.id))
    }

    pub(super) fn open_to(&self, workspace: WorkspaceId) -> bool {
        self.references.iter().all(|reference| reference.open_to(workspace))
    }
}

/// What references bring to an integration.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) key: Option<Secret<String>>,
    pub(super) headers: Vec<(String, Secret<String>)>,
    pub(super) settings: CloudSettings,
    pub(super) references: Vec<Arc<SavedSecretReference>>,
    /// Why a call cannot be made now.
    pub(super) missing: Option<Arc<str>>,
    /// Stands for all values together.
    pub(super) print: u64,
}

/// Longer values stand in no head.
const LONGEST_VALUE: usize = 16 * 1024;

impl Filled {
    pub(super) fn of(mappings: &[SecretMapping], org: OrgId, snapshot: &Snapshot) -> Result<Self, String> {
        let mut filled = Self::default();
        for mapping in mappings {
            let reference = snapshot.secret_reference(mapping.secret_reference_id);
            let reference = reference.filter(|reference| reference.org == org);
            let reference = reference.ok_or("names a secret reference that does not exist")?.clone();
            let place = MappedPlace::read(&mapping.target_field)?;
            let text = snapshot.secrets.get(&reference.id);
            if let Err(why) = filled.take(place, mapping, &reference, text) {
                let why = format!("the secret reference `{}` {why}", reference.slug);
                filled.missing.get_or_insert_with(|| why.into());
            }
            filled.print = filled.print.rotate_left(7) ^ text.map_or(1, |text| text.print());
            if !filled.references.iter().any(|known| known.id == reference.id) {
                filled.references.push(reference);
            }
        }
        Ok(filled)
    }

    fn take(
        &mut self,
        place: MappedPlace<'_>,
        mapping: &SecretMapping,
        reference: &SavedSecretReference,
        text: Option<&Arc<SecretText>>,
    ) -> Result<(), String> {
        let text = text.ok_or("could not be read yet")?;
        let key = mapping.secret_key.as_deref().or(reference.key.as_deref());
        let value = text.pick(key, mapping.value_format)?;
        let fits = |value: &str| value.len() <= LONGEST_VALUE && http::HeaderValue::from_str(value).is_ok();
        let unfit = || format!("holds nothing that could be `{}`", mapping.target_field);
        match place {
            MappedPlace::Key | MappedPlace::Header(_) if value.is_empty() || !fits(&value) => return Err(unfit()),
            MappedPlace::Key => self.key = Some(Secret::new(value)),
            MappedPlace::Header(name) => self.headers.push((name.to_owned(), Secret::new(value))),
            MappedPlace::Setting(setting) => self.settings.set(setting, value).map_err(|_| unfit())?,
        }
        Ok(())
    }
}

impl Snapshot {
    pub fn secret_reference(&self, id: SecretReferenceId) -> Option<&Arc<SavedSecretReference>> {
        self.secret_references.get(&id)
    }

    pub fn secret_references(&self) -> impl Iterator<Item = &Arc<SavedSecretReference>> {
        self.secret_references.values()
    }

    /// Finds a secret reference of an organisation by id or slug.
    pub fn secret_reference_named(&self, org: OrgId, name: &str) -> Option<&Arc<SavedSecretReference>> {
        let id = name.parse().ok();
        let mut ours = self.secret_references().filter(|reference| reference.org == org);
        ours.find(|reference| Some(reference.id) == id || *reference.slug == *name)
    }

    /// Whether this very text is in force already.
    pub fn has_secret(&self, id: SecretReferenceId, text: &SecretText) -> bool {
        self.secrets.get(&id).is_some_and(|held| **held == *text)
    }

    /// The headers that mappings make as things stand. `Err` says why they cannot be made now: the rest of a sentence.
    pub fn mapped_headers(
        &self,
        mappings: &[SecretMapping],
        org: OrgId,
    ) -> Result<Vec<(String, Secret<String>)>, String> {
        let filled = Filled::of(mappings, org, self)?;
        filled.missing.map_or(Ok(filled.headers), |why| Err(why.to_string()))
    }

    /// This snapshot with what was read from managers since. An integration that cannot be called with a new value goes
    /// on with what it has.
    pub fn with_secrets(
        &self,
        read: Vec<(SecretReferenceId, Arc<SecretText>)>,
        build: &Build<'_>,
    ) -> (Self, Vec<RowProblem>) {
        let mut draft = self.draft();
        let secrets = Arc::make_mut(&mut draft.next.secrets);
        for (id, text) in read {
            // Whoever read it may be late: of a reference that is gone nothing is kept.
            if self.secret_references.contains_key(&id) && secrets.insert(id, text.clone()).as_ref() != Some(&text) {
                draft.moved.insert(id);
            }
        }
        draft.fill(build, true);
        draft.finish()
    }
}

impl Draft {
    /// Makes integrations anew whose references changed. `kept`: rather the state before than one that cannot be
    /// called.
    pub(super) fn fill(&mut self, build: &Build<'_>, kept: bool) {
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() {
            return;
        }
        self.fill_mcp(&moved, build, kept);
        self.fill_agents(&moved, build, kept);
        for (id, before) in touched(&self.next, &moved) {
            let Some(mapped) = &before.mapped else { continue };
            match super::entry::upstream(&mapped.row, build, &self.next) {
                Ok(made) => match &made.missing {
                    Some(why) if kept && before.missing.is_none() => {
                        let (kind, id) = (Kind::Integration.name().to_owned(), id.0);
                        self.problems.push(RowProblem { kind, id, message: why.to_string() });
                    }
                    _ => {
                        Arc::make_mut(&mut self.next.upstreams).insert(id, Arc::new(made));
                    }
                },
                Err(message) => {
                    self.problems.push(RowProblem { kind: Kind::Integration.name().to_owned(), id: id.0, message });
                }
            }
        }
    }
}

impl Draft {
    fn fill_mcp(&mut self, moved: &HashSet<SecretReferenceId>, build: &Build<'_>, kept: bool) {
        let upstreams = self.next.mcp_upstreams().filter(|u| u.mapped.as_ref().is_some_and(|m| m.is_touched(moved)));
        for before in upstreams.cloned().collect::<Vec<_>>() {
            let Some(mapped) = &before.mapped else { continue };
            let message = match super::entry::mcp_upstream(&mapped.row, build, &self.next) {
                Ok(made) => match &made.missing {
                    Some(why) if kept && before.missing.is_none() => why.to_string(),
                    _ => {
                        Arc::make_mut(&mut self.next.mcp_upstreams).insert(before.id, Arc::new(made));
                        continue;
                    }
                },
                Err(message) => message,
            };
            self.problems.push(RowProblem { kind: Kind::McpIntegration.name().to_owned(), id: before.id.0, message });
        }
    }
}

impl Draft {
    fn fill_agents(&mut self, moved: &HashSet<SecretReferenceId>, build: &Build<'_>, kept: bool) {
        let upstreams = self.next.agent_upstreams().filter(|u| u.mapped.as_ref().is_some_and(|m| m.is_touched(moved)));
        for before in upstreams.cloned().collect::<Vec<_>>() {
            let Some(mapped) = &before.mapped else { continue };
            let message = match super::entry::agent_upstream(&mapped.row, build, &self.next) {
                Ok(made) => match &made.missing {
                    Some(why) if kept && before.missing.is_none() => why.to_string(),
                    _ => {
                        Arc::make_mut(&mut self.next.agent_upstreams).insert(before.id, Arc::new(made));
                        continue;
                    }
                },
                Err(message) => message,
            };
            let kind = Kind::AgentIntegration.name().to_owned();
            self.problems.push(RowProblem { kind, id: before.id.0, message });
        }
    }
}

fn touched(snapshot: &Snapshot, moved: &HashSet<SecretReferenceId>) -> Vec<(IntegrationId, Arc<Upstream>)> {
    let uses = |upstream: &&Arc<Upstream>| upstream.mapped.as_ref().is_some_and(|mapped| mapped.is_touched(moved));
    snapshot.upstreams().filter(uses).map(|upstream| (upstream.integration, upstream.clone())).collect()
}
