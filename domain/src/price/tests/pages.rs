//! Prices against the pages of the providers themselves, as public look-ups showed them on their days; none of these is
//! a source of the file. A page that changes is a line here, in the same change as the row.

use super::*;
use crate::money::PicoRate;
use crate::price::PriceClass;

/// What one page says: model, class (and above how many tokens, or at dear hours), picodollars for each unit.
struct Page {
    provider: &'static str,
    read: &'static str,
    #[expect(dead_code, reason = "for whoever checks it")]
    url: &'static str,
    says: &'static [(&'static str, PriceClass, When, u64)],
}

#[derive(Clone, Copy, Debug)]
enum When {
    Ever,
    Above(u64),
    Dear,
}

use PriceClass::{AudioIn, CacheRead, CacheWrite, CacheWrite1h, ImageOut, Input, Output, WebSearch};
use When::{Above, Dear, Ever};

#[rustfmt::skip]
const PAGES: &[Page] = &[
    Page { provider: "anthropic", read: "2026-11-22", url: "https://platform.claude.com/docs/en/about-claude/pricing", says: &[
        ("claude-fable-5-1", Input, Ever, 10_000_000),
        ("claude-fable-5-1", CacheWrite, Ever, 12_500_000),
        ("claude-fable-5-1", CacheWrite1h, Ever, 20_000_000),
        ("claude-fable-5-1", CacheRead, Ever, 250_000),
        ("claude-fable-5-1", Output, Ever, 50_000_000),
        ("claude-mythos-5-1", Input, Ever, 10_000_000),
        ("claude-mythos-5-1", CacheWrite, Ever, 12_500_000),
        ("claude-mythos-5-1", CacheWrite1h, Ever, 20_000_000),
        ("claude-mythos-5-1", CacheRead, Ever, 250_000),
        ("claude-mythos-5-1", Output, Ever, 50_000_000),
        ("claude-fable-5", Input, Ever, 10_000_000),
        ("claude-fable-5", CacheWrite, Ever, 12_500_000),
        ("claude-fable-5", CacheWrite1h, Ever, 20_000_000),
        ("claude-fable-5", CacheRead, Ever, 1_000_000),
        ("claude-fable-5", Output, Ever, 50_000_000),
        ("claude-mythos-5", Input, Ever, 10_000_000),
        ("claude-mythos-5", CacheWrite, Ever, 12_500_000),
        ("claude-mythos-5", CacheWrite1h, Ever, 20_000_000),
        ("claude-mythos-5", CacheRead, Ever, 1_000_000),
        ("claude-mythos-5", Output, Ever, 50_000_000),
        ("claude-opus-5", Input, Ever, 5_000_000),
        ("claude-opus-5", CacheWrite, Ever, 6_250_000),
        ("claude-opus-5", CacheWrite1h, Ever, 10_000_000),
        ("claude-opus-5", CacheRead, Ever, 500_000),
        ("claude-opus-5", Output, Ever, 25_000_000),
        ("claude-opus-4-8", Input, Ever, 5_000_000),
        ("claude-opus-4-8", CacheWrite, Ever, 6_250_000),
        ("claude-opus-4-8", CacheWrite1h, Ever, 10_000_000),
        ("claude-opus-4-8", CacheRead, Ever, 500_000),
        ("claude-opus-4-8", Output, Ever, 25_000_000),
        ("claude-opus-4-7", Input, Ever, 5_000_000),
        ("claude-opus-4-7", CacheWrite, Ever, 6_250_000),
        ("claude-opus-4-7", CacheWrite1h, Ever, 10_000_000),
        ("claude-opus-4-7", CacheRead, Ever, 500_000),
        ("claude-opus-4-7", Output, Ever, 25_000_000),
        ("claude-opus-4-6", Input, Ever, 5_000_000),
        ("claude-opus-4-6", CacheWrite, Ever, 6_250_000),
        ("claude-opus-4-6", CacheWrite1h, Ever, 10_000_000),
        ("claude-opus-4-6", CacheRead, Ever, 500_000),
        ("claude-opus-4-6", Output, Ever, 25_000_000),
        ("claude-opus-4-5", Input, Ever, 5_000_000),
        ("claude-opus-4-5", CacheWrite, Ever, 6_250_000),
        ("claude-opus-4-5", CacheWrite1h, Ever, 10_000_000),
        ("claude-opus-4-5", CacheRead, Ever, 500_000),
        ("claude-opus-4-5", Output, Ever, 25_000_000),
    ] },
    Page { provider: "anthropic", read: "2026-11-22", url: "https://platform.claude.com/docs/zh-CN/models/sonnet-5/overview", says: &[
        ("claude-sonnet-5", Input, Ever, 2_000_000),
        ("claude-sonnet-5", CacheWrite, Ever, 2_500_000),
        ("claude-sonnet-5", CacheWrite1h, Ever, 4_000_000),
        ("claude-sonnet-5", CacheRead, Ever, 200_000),
        ("claude-sonnet-5", Output, Ever, 10_000_000),
    ] },
    Page { provider: "anthropic", read: "2026-10-24", url: "https://github.com/kurofune/claudit/releases/tag/v1.9.2", says: &[
        ("claude-sonnet-5-5", Input, Ever, 2_000_000),
        ("claude-sonnet-5-5", CacheWrite, Ever, 2_500_000),
        ("claude-sonnet-5-5", CacheWrite1h, Ever, 4_000_000),
        ("claude-sonnet-5-5", CacheRead, Ever, 100_000),
        ("claude-sonnet-5-5", Output, Ever, 10_000_000),
        ("claude-haiku-5-5", Input, Ever, 100_000),
        ("claude-haiku-5-5", CacheWrite, Ever, 125_000),
        ("claude-haiku-5-5", CacheWrite1h, Ever, 200_000),
        ("claude-haiku-5-5", CacheRead, Ever, 10_000),
        ("claude-haiku-5-5", Output, Ever, 500_000),
        ("claude-haiku-5-5", Input, Above(100_000), 500_000),
        ("claude-haiku-5-5", CacheWrite, Above(100_000), 625_000),
        ("claude-haiku-5-5", CacheWrite1h, Above(100_000), 1_000_000),
        ("claude-haiku-5-5", CacheRead, Above(100_000), 50_000),
        ("claude-haiku-5-5", Output, Above(100_000), 2_500_000),
    ] },
    Page { provider: "anthropic", read: "2026-11-22", url: "https://platform.claude.com/docs/about-claude/models/whats-new-opus-5", says: &[
        ("claude-opus-5-5", Input, Ever, 4_000_000),
        ("claude-opus-5-5", Output, Ever, 20_000_000),
    ] },
    Page { provider: "deepseek", read: "2026-11-15", url: "https://api-docs.deepseek.com/quick_start/pricing", says: &[
        ("deepseek-flash", CacheRead, Ever, 3_000),
        ("deepseek-flash", CacheRead, Dear, 6_000),
        ("deepseek-flash", Input, Ever, 150_000),
        ("deepseek-flash", Input, Dear, 300_000),
        ("deepseek-flash", Output, Ever, 600_000),
        ("deepseek-flash", Output, Dear, 1_200_000),
        ("deepseek-v4-pro", CacheRead, Ever, 22_000),
        ("deepseek-v4-pro", CacheRead, Dear, 44_000),
        ("deepseek-v4-pro", Input, Ever, 660_000),
        ("deepseek-v4-pro", Input, Dear, 1_320_000),
        ("deepseek-v4-pro", Output, Ever, 1_980_000),
        ("deepseek-v4-pro", Output, Dear, 3_960_000),
    ] },
    Page { provider: "google", read: "2026-10-07", url: "https://ai.google.dev/gemini-api/docs/pricing", says: &[
        ("gemini-3.8-flash", Input, Ever, 750_000),
        ("gemini-3.8-flash", Output, Ever, 3_750_000),
        ("gemini-3.5-flash", Input, Ever, 1_500_000),
        ("gemini-3.5-flash", Output, Ever, 9_000_000),
        ("gemini-3.5-flash-lite", Input, Ever, 300_000),
        ("gemini-3.5-flash-lite", Output, Ever, 2_500_000),
        ("gemini-3.1-pro-preview", Input, Ever, 2_000_000),
        ("gemini-3.1-pro-preview", Input, Above(200_000), 4_000_000),
        ("gemini-3.1-pro-preview", Output, Ever, 12_000_000),
        ("gemini-3.1-pro-preview", Output, Above(200_000), 18_000_000),
        ("gemini-2.5-pro", Input, Ever, 1_250_000),
        ("gemini-2.5-pro", Input, Above(200_000), 2_500_000),
        ("gemini-2.5-flash", Input, Ever, 300_000),
        ("gemini-2.5-flash", AudioIn, Ever, 1_000_000),
        ("gemini-2.5-flash-lite", Output, Ever, 400_000),
        ("gemini-3-pro-image", ImageOut, Ever, 120_000_000),
        ("gemini-embedding-2", Input, Ever, 200_000),
        ("gemini-3.8-flash", WebSearch, Ever, 14_000_000_000),
    ] },
    Page { provider: "openai", read: "2026-09-05", url: "https://developers.openai.com/api/docs/models/gpt-6-astra", says: &[
        ("gpt-6-astra", Input, Ever, 10_000_000),
        ("gpt-6-astra", CacheRead, Ever, 1_000_000),
        ("gpt-6-astra", CacheWrite, Ever, 12_500_000),
        ("gpt-6-astra", Output, Ever, 50_000_000),
    ] },
    Page { provider: "openai", read: "2026-11-22", url: "https://developers.openai.com/api/docs/models/gpt-4o-transcribe", says: &[
        ("gpt-4o-transcribe", AudioIn, Ever, 2_500_000),
        ("gpt-4o-mini-transcribe", AudioIn, Ever, 1_250_000),
    ] },
];

#[test]
fn the_providers_own_pages_say_the_same() {
    let (book, mut seen) = (PriceBook::builtin(), 0);
    for page in PAGES {
        for (model, class, when, pico) in page.says {
            let found = book.model(query(page.provider, model)).unwrap_or_else(|| panic!("{model} is not listed"));
            let list = &found.card.list;
            let rates = match when {
                Ever => &list.standard.rates,
                Above(tokens) => {
                    let upper = list.standard.over.iter().find(|u| u.tokens == *tokens);
                    &upper.unwrap_or_else(|| panic!("{model} has no step at {tokens}")).rates
                }
                Dear => &list.hours[0].rates,
            };
            assert_eq!(rates.get(*class), Some(PicoRate(*pico)), "{model} {class:?} {when:?}, {}", page.read);
            seen += 1;
        }
    }
    assert!(seen >= 60, "{seen}");
}
