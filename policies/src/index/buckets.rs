//! Lists of policies by what a call must have to match them.
//! Kept by hash alone: two anchors that collide cost a needless look, never a wrong answer.

use crate::subject::{Attribute, AttributeValue, Subject, bare_model};
use ahash::RandomState;
use std::collections::HashMap;

/// Something to find a policy by.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Anchor<'a> {
    Is(Attribute<&'a str>, AttributeValue<'a>),
    ModelStarts(&'a str),
    Has(Attribute<&'a str>),
    All,
}

impl Anchor<'_> {
    /// Only admins choose what is kept under these hashes, so the seeds may be known.
    fn hash(&self) -> u64 {
        RandomState::with_seeds(1, 2, 3, 4).hash_one(self)
    }

    /// How likely a call has it, next to the most selective kind. Every call of an index is of one workspace.
    const fn weight(&self) -> u64 {
        match self {
            Self::Is(Attribute::Workspace, _) | Self::All => 4_096,
            Self::Has(_) => 64,
            Self::Is(Attribute::EndpointType, _) => 8,
            Self::Is(Attribute::Provider | Attribute::McpServer, _) => 4,
            Self::ModelStarts(_) => 2,
            Self::Is(..) => 1,
        }
    }
}

/// How many policies could be found by each anchor.
#[derive(Debug, Default)]
pub(super) struct Population(HashMap<u64, u64, RandomState>);

impl Population {
    pub(super) fn add(&mut self, anchors: &[Anchor<'_>]) {
        for anchor in anchors {
            *self.0.entry(anchor.hash()).or_default() += 1;
        }
    }

    /// What the fullest bucket of the list would cost the calls that come to it.
    pub(super) fn cost(&self, anchors: &[Anchor<'_>]) -> u64 {
        let cost = |a: &Anchor<'_>| self.0.get(&a.hash()).copied().unwrap_or(1).saturating_mul(a.weight());
        anchors.iter().map(cost).max().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Buckets {
    found: HashMap<u64, Vec<u32>, RandomState>,
    all: Vec<u32>,
    /// Attributes that some anchor names, by their bits: a call is asked about no others.
    exact: u16,
    present: u16,
    /// Lengths of the model prefixes there are, ascending.
    prefixes: Vec<usize>,
}

impl Buckets {
    pub(super) fn put(&mut self, rule: u32, anchors: &[Anchor<'_>]) {
        for anchor in anchors {
            match anchor {
                Anchor::All => {
                    self.all.push(rule);
                    continue;
                }
                Anchor::Is(attribute, _) => self.exact |= attribute.bit(),
                Anchor::Has(attribute) => self.present |= attribute.bit(),
                Anchor::ModelStarts(prefix) => {
                    if let Err(at) = self.prefixes.binary_search(&prefix.len()) {
                        self.prefixes.insert(at, prefix.len());
                    }
                }
            }
            let bucket = self.found.entry(anchor.hash()).or_default();
            if bucket.last() != Some(&rule) {
                bucket.push(rule);
            }
        }
    }

    /// Each policy that the subject might match, some perhaps more than once.
    pub(super) fn visit(&self, subject: &Subject<'_>, each: &mut impl FnMut(u32)) {
        self.all.iter().for_each(|rule| each(*rule));
        if self.found.is_empty() {
            return;
        }
        for attribute in Attribute::SINGLE {
            if (self.exact | self.present) & attribute.bit() != 0
                && let Some(seen) = subject.see(attribute)
            {
                self.visit_value(attribute, seen, each);
            }
        }
        if let Some(AttributeValue::Text(model)) = subject.see(Attribute::Model) {
            self.visit_model(model, each);
        }
        if (self.exact | self.present) & Attribute::Metadata("").bit() != 0 {
            for (name, value) in subject.metadata.iter().filter(|(_, value)| !value.is_empty()) {
                self.visit_value(Attribute::Metadata(name), AttributeValue::Text(value), each);
            }
        }
    }

    fn visit_value(&self, attribute: Attribute<&str>, seen: AttributeValue<'_>, each: &mut impl FnMut(u32)) {
        if self.exact & attribute.bit() != 0 {
            self.look(&Anchor::Is(attribute, seen), each);
        }
        if self.present & attribute.bit() != 0 {
            self.look(&Anchor::Has(attribute), each);
        }
    }

    /// What only models have: a name behind `@slug/`, and prefixes of both names.
    fn visit_model(&self, model: &str, each: &mut impl FnMut(u32)) {
        let bare = bare_model(model);
        if let Some(bare) = bare
            && self.exact & Attribute::<&str>::Model.bit() != 0
        {
            self.look(&Anchor::Is(Attribute::Model, AttributeValue::Text(bare)), each);
        }
        for name in [Some(model), bare].into_iter().flatten() {
            let lengths = self.prefixes.iter().take_while(|length| **length <= name.len());
            // Inside a character no prefix can end.
            for prefix in lengths.filter_map(|length| name.get(..*length)) {
                self.look(&Anchor::ModelStarts(prefix), each);
            }
        }
    }

    fn look(&self, anchor: &Anchor<'_>, each: &mut impl FnMut(u32)) {
        if let Some(bucket) = self.found.get(&anchor.hash()) {
            bucket.iter().for_each(|rule| each(*rule));
        }
    }
}
