//! What tells apart, within the classes of usage, what is priced apart; and what is counted beside tokens. A count here
//! is part of the class that its comment names, so sums of tokens do not change by it.

use crate::money::NanoUsd;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageDetail {
    /// Part of the cache writes: tokens that are kept for an hour.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_1h: u32,
    /// Part of the cache reads: tokens of sound.
    #[serde(skip_serializing_if = "is_none")]
    pub audio_cache_read: u32,
    /// Part of the cache reads: tokens of pictures.
    #[serde(skip_serializing_if = "is_none")]
    pub image_cache_read: u32,
    /// Part of the input: tokens of pictures.
    #[serde(skip_serializing_if = "is_none")]
    pub image_in: u32,
    /// Part of the input: tokens of videos.
    #[serde(skip_serializing_if = "is_none")]
    pub video_in: u32,
    /// Part of the output: tokens of pictures.
    #[serde(skip_serializing_if = "is_none")]
    pub image_out: u32,
    /// Part of the output: tokens of a prediction that came true.
    #[serde(skip_serializing_if = "is_none")]
    pub prediction_accepted: u32,
    /// Part of the output: tokens of a prediction that did not come true.
    #[serde(skip_serializing_if = "is_none")]
    pub prediction_rejected: u32,
    /// Thousandths of a second of sound that was heard.
    #[serde(skip_serializing_if = "is_none")]
    pub millis_in: u32,
    /// Thousandths of a second of sound that was made.
    #[serde(skip_serializing_if = "is_none")]
    pub millis_out: u32,
    #[serde(skip_serializing_if = "is_none")]
    pub characters: u32,
    #[serde(skip_serializing_if = "is_none")]
    pub pages: u32,
    /// Pages whose contents were told in a form of the client's.
    #[serde(skip_serializing_if = "is_none")]
    pub pages_annotated: u32,
    #[serde(skip_serializing_if = "is_none")]
    pub search_units: u32,
    #[serde(skip_serializing_if = "is_none")]
    pub web_searches: u32,
    /// Tokens that a fine-tuning job trained; no part of any class.
    #[serde(skip_serializing_if = "is_none")]
    pub trained: u32,
    /// What pictures that were made are like.
    #[serde(skip_serializing_if = "PictureSize::is_untold")]
    pub picture: PictureSize,
    /// Steps that each picture took.
    #[serde(skip_serializing_if = "is_none")]
    pub steps: u32,
    /// What another model charged for a part of the call: it adds to what the call's own model does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<NanoUsd>,
    /// The tier that served the call, which need not be the one that was asked for.
    #[serde(skip_serializing_if = "ServiceTier::is_standard")]
    pub tier: ServiceTier,
    /// The provider's own figure of what the call cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<NanoUsd>,
}

/// More units than one call of anybody's uses.
const MOST_UNITS: u32 = 10_000;
const DAY_MILLIS: u32 = 86_400_000;

impl UsageDetail {
    /// What a host that a client brought may tell: neither what it costs nor at which tier, and no more units than a
    /// call can have. The parts of classes are bounded by those.
    #[must_use]
    pub fn believable(self) -> Self {
        Self {
            millis_in: self.millis_in.min(DAY_MILLIS),
            millis_out: self.millis_out.min(DAY_MILLIS),
            characters: self.characters.min(DAY_MILLIS),
            pages: self.pages.min(MOST_UNITS),
            pages_annotated: self.pages_annotated.min(MOST_UNITS),
            search_units: self.search_units.min(MOST_UNITS),
            web_searches: self.web_searches.min(MOST_UNITS),
            steps: self.steps.min(MOST_UNITS),
            tier: ServiceTier::Standard,
            told: None,
            beside: None,
            ..self
        }
    }

    /// Both together. What one call has but once is as the later part tells it, and a price that is not known of one
    /// part is not known of both.
    #[must_use]
    pub fn plus(self, later: Self) -> Self {
        let both = |one: Option<NanoUsd>, other: Option<NanoUsd>| match (one, other) {
            (Some(one), Some(other)) => Some(NanoUsd(one.0.saturating_add(other.0))),
            (one, other) => one.or(other),
        };
        let is_unknown = self.tier == ServiceTier::Unknown;
        Self {
            cache_write_1h: self.cache_write_1h.saturating_add(later.cache_write_1h),
            audio_cache_read: self.audio_cache_read.saturating_add(later.audio_cache_read),
            image_cache_read: self.image_cache_read.saturating_add(later.image_cache_read),
            image_in: self.image_in.saturating_add(later.image_in),
            video_in: self.video_in.saturating_add(later.video_in),
            image_out: self.image_out.saturating_add(later.image_out),
            prediction_accepted: self.prediction_accepted.saturating_add(later.prediction_accepted),
            prediction_rejected: self.prediction_rejected.saturating_add(later.prediction_rejected),
            millis_in: self.millis_in.saturating_add(later.millis_in),
            millis_out: self.millis_out.saturating_add(later.millis_out),
            characters: self.characters.saturating_add(later.characters),
            pages: self.pages.saturating_add(later.pages),
            pages_annotated: self.pages_annotated.saturating_add(later.pages_annotated),
            search_units: self.search_units.saturating_add(later.search_units),
            web_searches: self.web_searches.saturating_add(later.web_searches),
            trained: self.trained.saturating_add(later.trained),
            picture: later.picture,
            steps: later.steps,
            beside: both(self.beside, later.beside),
            tier: if is_unknown { self.tier } else { later.tier },
            told: both(self.told, later.told),
        }
    }

    /// Nothing to tell.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

/// How fast, and at what rates, a provider served a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTier {
    #[default]
    Standard,
    Batch,
    Flex,
    Priority,
    Fast,
    Ultrafast,
    /// One that this version knows nothing of, prices least of all.
    #[serde(other)]
    Unknown,
}

impl ServiceTier {
    /// The tier by the name that providers give it in `service_tier` and `speed` of their answers.
    pub fn named(name: &str) -> Self {
        match name {
            "" | "default" | "standard" | "auto" | "on_demand" => Self::Standard,
            "batch" => Self::Batch,
            "flex" => Self::Flex,
            "priority" => Self::Priority,
            "fast" => Self::Fast,
            "ultrafast" => Self::Ultrafast,
            _ => Self::Unknown,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
    const fn is_standard(&self) -> bool {
        matches!(self, Self::Standard)
    }
}

/// Quality and size of pictures, each untold or told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PictureSize {
    pub quality: PictureQuality,
    pub width: u16,
    pub height: u16,
}

impl PictureSize {
    /// Reads texts like `high` and `1024x1536`; what is not of that form counts as untold.
    pub fn named(quality: &str, size: &str) -> Self {
        let sides = size.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
        let (width, height) = sides.unwrap_or_default();
        Self { quality: PictureQuality::named(quality), width, height }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
    fn is_untold(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureQuality {
    Low,
    Medium,
    High,
    Standard,
    Hd,
    #[default]
    #[serde(other)]
    Default,
}

impl PictureQuality {
    pub fn named(name: &str) -> Self {
        match name {
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "standard" => Self::Standard,
            "hd" => Self::Hd,
            _ => Self::Default,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Standard => "standard",
            Self::Hd => "hd",
        }
    }
}
