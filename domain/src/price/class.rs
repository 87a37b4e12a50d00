//! What is counted and has a rate: classes of tokens, and units that are none.

use serde::{Deserialize, Serialize};

/// A class of tokens, or another unit, that has a rate; in the order of the price file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum PriceClass {
    Input,
    Output,
    Reasoning,
    CacheRead,
    CacheWrite,
    #[serde(rename = "cache_write_1h")]
    CacheWrite1h,
    #[serde(rename = "cache_write_12h")]
    CacheWrite12h,
    AudioIn,
    AudioOut,
    AudioCacheRead,
    ImageIn,
    ImageOut,
    ImageCacheRead,
    VideoIn,
    PredictionAccepted,
    PredictionRejected,
    SecondIn,
    SecondOut,
    Character,
    Page,
    PageAnnotated,
    SearchUnit,
    Request,
    WebSearch,
    FileSearch,
    CodeSession,
    Maps,
    FileGbDay,
    TrainToken,
    TrainHour,
    /// A million pixels of a picture.
    Megapixel,
    /// 512 by 512 pixels of a picture, or a part of them.
    Tile,
    /// One that a picture took.
    Step,
}

impl PriceClass {
    /// Whether it is a class of tokens: those have other rates by tier and by the length of the prompt.
    pub const fn is_token(self) -> bool {
        (self as u8) <= (Self::PredictionRejected as u8)
    }

    /// The class whose rate counts where this one has none of its own. Sound is not among them: where it has a rate at
    /// all, that is another than text's.
    pub(super) const fn stand_in(self) -> Option<Self> {
        match self {
            Self::Reasoning | Self::ImageOut | Self::PredictionAccepted | Self::PredictionRejected => {
                Some(Self::Output)
            }
            // Models that only make pictures have no other output.
            Self::Output => Some(Self::ImageOut),
            Self::ImageIn | Self::VideoIn => Some(Self::Input),
            Self::ImageCacheRead => Some(Self::CacheRead),
            _ => None,
        }
    }
}
