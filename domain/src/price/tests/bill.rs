//! What `price()` makes of each class and each rule of a card.

use super::*;
use crate::price::{DearHours, PictureRate, PriceBook, PriceList, PriceQuery, UpperRates};
use crate::usage::{PictureSize, UsageDetail};

fn rates(of: &[(PriceClass, u64)]) -> RateTable {
    of.iter().map(|(class, rate)| (*class, PicoRate(*rate))).collect()
}

fn tier(of: &[(PriceClass, u64)]) -> TierRates {
    TierRates { rates: rates(of), ..TierRates::default() }
}

/// 2.50, 1.25 and 10 dollars for a million.
fn card() -> PriceCard {
    let standard =
        tier(&[(PriceClass::Input, 2_500_000), (PriceClass::CacheRead, 1_250_000), (PriceClass::Output, 10_000_000)]);
    PriceCard::public(PriceList { standard, ..PriceList::default() })
}

fn cost(usage: &Usage, card: &PriceCard) -> Option<i64> {
    price(usage, Some(card), Timestamp(0)).map(|nano| nano.0)
}

const NONE: Usage = Usage {
    input: 0,
    cache_read: 0,
    cache_write: 0,
    output: 0,
    reasoning: 0,
    audio_in: 0,
    audio_out: 0,
    images: 0,
    estimated: false,
    detail: PLAIN,
};

const PLAIN: UsageDetail = UsageDetail {
    cache_write_1h: 0,
    audio_cache_read: 0,
    image_cache_read: 0,
    image_in: 0,
    video_in: 0,
    image_out: 0,
    prediction_accepted: 0,
    prediction_rejected: 0,
    millis_in: 0,
    millis_out: 0,
    characters: 0,
    pages: 0,
    pages_annotated: 0,
    search_units: 0,
    web_searches: 0,
    trained: 0,
    picture: PictureSize { quality: crate::usage::PictureQuality::Default, width: 0, height: 0 },
    steps: 0,
    tier: ServiceTier::Standard,
    told: None,
    beside: None,
};

fn detail(detail: UsageDetail) -> Usage {
    Usage { detail, ..NONE }
}

#[test]
fn each_class_has_a_rate_of_its_own() {
    use PriceClass as C;
    // Each its own power of ten, in thousands of picodollars: the sum tells which was taken.
    let classes = [
        (C::Input, Usage { input: 2, ..NONE }, 2),
        (C::CacheRead, Usage { cache_read: 3, ..NONE }, 3),
        (C::CacheWrite, Usage { cache_write: 4, ..NONE }, 4),
        (C::CacheWrite1h, Usage { cache_write: 5, ..detail(UsageDetail { cache_write_1h: 5, ..PLAIN }) }, 5),
        (C::Output, Usage { output: 6, ..NONE }, 6),
        (C::Reasoning, Usage { reasoning: 7, ..NONE }, 7),
        (C::AudioIn, Usage { audio_in: 8, ..NONE }, 8),
        (C::AudioOut, Usage { audio_out: 9, ..NONE }, 9),
        (C::AudioCacheRead, Usage { cache_read: 2, ..detail(UsageDetail { audio_cache_read: 2, ..PLAIN }) }, 2),
        (C::ImageIn, Usage { input: 3, ..detail(UsageDetail { image_in: 3, ..PLAIN }) }, 3),
        (C::ImageOut, Usage { output: 4, ..detail(UsageDetail { image_out: 4, ..PLAIN }) }, 4),
        (C::ImageCacheRead, Usage { cache_read: 5, ..detail(UsageDetail { image_cache_read: 5, ..PLAIN }) }, 5),
        (C::VideoIn, Usage { input: 6, ..detail(UsageDetail { video_in: 6, ..PLAIN }) }, 6),
        (C::SecondIn, detail(UsageDetail { millis_in: 7_000, ..PLAIN }), 7),
        (C::SecondOut, detail(UsageDetail { millis_out: 6_000, ..PLAIN }), 6),
        (C::Character, detail(UsageDetail { characters: 8, ..PLAIN }), 8),
        (C::Page, detail(UsageDetail { pages: 9, ..PLAIN }), 9),
        (C::PageAnnotated, detail(UsageDetail { pages_annotated: 7, ..PLAIN }), 7),
        (C::SearchUnit, detail(UsageDetail { search_units: 2, ..PLAIN }), 2),
        (C::WebSearch, detail(UsageDetail { web_searches: 3, ..PLAIN }), 3),
        (C::TrainToken, detail(UsageDetail { trained: 4, ..PLAIN }), 4),
    ];
    for (at, (class, usage, count)) in classes.iter().enumerate() {
        let table: Vec<(PriceClass, u64)> = classes
            .iter()
            .enumerate()
            .map(|(other, (c, ..))| (*c, if other == at { 1_000_000 } else { 1_000 }))
            .collect();
        let all = PriceCard::public(PriceList { standard: tier(&table), ..PriceList::default() });
        assert_eq!(cost(usage, &all), Some(count * 1_000), "{class:?}");
        let bare = PriceCard::public(PriceList { standard: tier(&[(C::Maps, 1)]), ..PriceList::default() });
        assert_eq!(cost(usage, &bare), None, "{class:?} without a rate");
    }
}

#[test]
fn one_rounding_over_the_sum() {
    let u = Usage { input: 1, cache_read: 1, ..NONE };
    assert_eq!(cost(&u, &card()), Some(3_750));
    let third = tier(&[(PriceClass::Input, 333), (PriceClass::Output, 333)]);
    let third = PriceCard::public(PriceList { standard: third, ..PriceList::default() });
    assert_eq!(cost(&Usage { input: 1, output: 1, ..NONE }, &third), Some(1), "666 pico rounds once, not 0 + 0");
    let most = Usage { input: u64::MAX, output: u64::MAX, ..NONE };
    assert_eq!(cost(&most, &card()), None, "more than can be told is not known");
}

#[test]
fn unknown_class_makes_unknown_cost() {
    assert_eq!(cost(&Usage { input: 10, audio_in: 1, ..NONE }, &card()), None);
    assert_eq!(cost(&NONE, &card()), Some(0));
    assert_eq!(price(&NONE, None, Timestamp(0)), None);
    assert_eq!(cost(&Usage { images: 1, ..NONE }, &card()), None);
}

#[test]
fn what_has_no_rate_of_its_own_costs_what_it_is_part_of() {
    assert_eq!(cost(&Usage { reasoning: 2, ..NONE }, &card()), Some(20_000), "reasoning is output");
    let seen = Usage { input: 10, ..detail(UsageDetail { image_in: 4, video_in: 3, ..PLAIN }) };
    assert_eq!(cost(&seen, &card()), cost(&Usage { input: 10, ..NONE }, &card()), "pictures that are read are input");
    let heard = Usage { cache_read: 10, ..detail(UsageDetail { audio_cache_read: 4, ..PLAIN }) };
    assert_eq!(cost(&heard, &card()), Some(12_500), "where sound costs what text does");
    let sound = tier(&[(PriceClass::CacheRead, 1), (PriceClass::AudioIn, 7)]);
    let sound = PriceCard::public(PriceList { standard: sound, ..PriceList::default() });
    assert_eq!(cost(&heard, &sound), None, "where it costs something else, nobody knows what");
    let kept = Usage { cache_write: 4, ..detail(UsageDetail { cache_write_1h: 9, ..PLAIN }) };
    assert_eq!(cost(&kept, &card()), None, "an hour's keeping is never the price of five minutes");
}

#[test]
fn a_rate_of_nothing_for_what_is_said_leaves_the_rest_to_pay() {
    let of =
        |rates: &[(PriceClass, u64)]| PriceCard::public(PriceList { standard: tier(rates), ..PriceList::default() });
    let heard = of(&[(PriceClass::Input, 2_500_000), (PriceClass::Output, 0)]);
    let spoken = Usage { input: 100, output: 40, ..NONE };
    assert_eq!(cost(&spoken, &heard), Some(250_000), "what was read costs all the same");
    assert_eq!(cost(&Usage { audio_in: 1, ..spoken }, &heard), None, "sound without a rate is not text");
    let sound = of(&[(PriceClass::Input, 2_500_000), (PriceClass::Output, 0), (PriceClass::AudioIn, 40_000_000)]);
    assert_eq!(cost(&Usage { audio_in: 1, ..spoken }, &sound), Some(290_000));
}

#[test]
fn above_a_threshold_the_whole_request_costs_more() {
    let upper = |inclusive| UpperRates {
        tokens: 272_000,
        inclusive,
        rates: rates(&[
            (PriceClass::Input, 10_000_000),
            (PriceClass::CacheRead, 1_000_000),
            (PriceClass::Output, 45_000_000),
        ]),
    };
    let base = [
        (PriceClass::Input, 5_000_000),
        (PriceClass::CacheRead, 500_000),
        (PriceClass::Output, 30_000_000),
        (PriceClass::AudioIn, 1),
    ];
    let of = |inclusive| {
        let standard = TierRates { rates: rates(&base), over: [upper(inclusive)].into() };
        PriceCard::public(PriceList { standard, ..PriceList::default() })
    };
    let long = Usage { input: 200_000, cache_read: 100_000, output: 1_000, ..NONE };
    assert_eq!(cost(&long, &of(false)), Some(2_145_000_000), "2.145 dollars");
    let edge = Usage { input: 272_000, ..NONE };
    assert_eq!(cost(&edge, &of(false)), Some(1_360_000_000), "not above");
    assert_eq!(cost(&edge, &of(true)), Some(2_720_000_000), "from there on");
    let heard = Usage { audio_in: 1, ..long };
    assert_eq!(cost(&heard, &of(false)), None, "the base's rate is not that of a long prompt");
}

#[test]
fn the_tier_that_served_is_billed() {
    let upper = UpperRates { tokens: 100, inclusive: false, rates: rates(&[(PriceClass::Input, 9_000)]) };
    let standard = TierRates {
        rates: rates(&[(PriceClass::Input, 5_000), (PriceClass::WebSearch, 70_000)]),
        over: [upper].into(),
    };
    let tiers = [(ServiceTier::Priority, tier(&[(PriceClass::Input, 8_000)]))];
    let card = PriceCard::public(PriceList { standard, tiers: tiers.into(), ..PriceList::default() });
    let used = |tier, input| Usage { input, ..detail(UsageDetail { tier, ..PLAIN }) };
    assert_eq!(cost(&used(ServiceTier::Standard, 2), &card), Some(10));
    assert_eq!(cost(&used(ServiceTier::Priority, 2), &card), Some(16));
    assert_eq!(cost(&used(ServiceTier::Priority, 101), &card), None, "a long prompt at this tier has no known rate");
    assert_eq!(cost(&used(ServiceTier::Flex, 2), &card), None, "a tier without rates");
    assert_eq!(cost(&used(ServiceTier::Unknown, 2), &card), None);
    assert_eq!(cost(&used(ServiceTier::Batch, 2), &card), Some(5), "half, where nothing else is listed");
    assert_eq!(cost(&used(ServiceTier::Batch, 101), &card), Some(455), "half of what a long one costs");
    let searched = detail(UsageDetail { tier: ServiceTier::Batch, web_searches: 1, ..PLAIN });
    assert_eq!(cost(&searched, &card), Some(70), "what is no token is not halved");
    let set = PriceCard::set(rates(&[(PriceClass::Input, 5_000)]), Box::default());
    assert_eq!(cost(&used(ServiceTier::Priority, 2), &set), Some(10), "what an admin set stands for every tier");
}

#[test]
fn dear_hours_are_of_the_start_of_the_call() {
    let dear = DearHours {
        days: 0b001_1111,
        minutes: [(60, 240), (360, 600)].into(),
        rates: rates(&[(PriceClass::Input, 2_000)]),
    };
    let list =
        PriceList { standard: tier(&[(PriceClass::Input, 1_000)]), hours: [dear].into(), ..PriceList::default() };
    let card = PriceCard::public(list);
    let used = Usage { input: 1, ..NONE };
    for (at, nanos) in [
        ("2026-11-20T00:59:59Z", 1),
        ("2026-11-20T01:00:00Z", 2),
        ("2026-11-20T03:59:59Z", 2),
        ("2026-11-20T04:00:00Z", 1),
        ("2026-11-20T06:00:00Z", 2),
        ("2026-11-20T10:00:00Z", 1),
        ("2026-11-21T02:00:00Z", 1), // a Saturday
        ("2026-11-22T02:00:00Z", 1),
        ("2026-11-23T02:00:00Z", 2),
    ] {
        let cost = price(&used, Some(&card), at.parse().expect("a time"));
        assert_eq!(cost.map(|c| c.0), Some(nanos), "{at}");
    }
}

#[test]
fn pictures_cost_by_quality_and_size() {
    let picture = |quality, size, rate| PictureRate { of: PictureSize::named(quality, size), rate: PicoRate(rate) };
    let pictures = [
        picture("high", "1024x1024", 1_000),
        picture("high", "default", 2_000),
        picture("default", "1024x1024", 3_000),
    ];
    let card = PriceCard::public(PriceList { pictures: pictures.into(), ..PriceList::default() });
    let made = |quality, size| Usage {
        images: 2,
        ..detail(UsageDetail { picture: PictureSize::named(quality, size), ..PLAIN })
    };
    for (quality, size, nanos) in [
        ("high", "1024x1024", Some(2)),
        ("high", "1536x1024", Some(4)),
        ("low", "1024x1024", Some(6)),
        ("low", "1536x1024", None),
        ("", "", None),
    ] {
        assert_eq!(cost(&made(quality, size), &card), nanos, "{quality} {size}");
    }
}

#[test]
fn pictures_of_a_batch_cost_half_where_their_provider_says_so() {
    let any = PictureRate { of: PictureSize::default(), rate: PicoRate(3_000) };
    let list = PriceList { pictures: [any].into(), ..PriceList::default() };
    let drawn = |tier| Usage { images: 2, ..detail(UsageDetail { tier, ..PLAIN }) };
    let [halving, other] = [true, false].map(|halves_pictures| PriceList { halves_pictures, ..list.clone() });
    for (list, tier, nanos) in
        [(&halving, ServiceTier::Batch, 3), (&halving, ServiceTier::Standard, 6), (&other, ServiceTier::Batch, 6)]
    {
        assert_eq!(cost(&drawn(tier), &PriceCard::public(list.clone())), Some(nanos), "{tier:?}");
    }
    let set = PriceCard::set(RateTable::default(), [any].into());
    assert_eq!(cost(&drawn(ServiceTier::Batch), &set), Some(6), "what an admin set stands for every tier");
    let listed = |provider: &str| {
        let query = PriceQuery {
            provider,
            model: "gpt-image-1",
            region: "",
            at: "2026-09-01T00:00:00Z".parse().expect("a time"),
        };
        PriceBook::builtin().deployed(query).map(|card| card.list.halves_pictures)
    };
    assert_eq!([listed("openai"), listed("azure-openai")], [Some(true); 2]);
}

#[test]
fn pictures_cost_by_their_size_and_their_steps() {
    use PriceClass::{Megapixel, Step, Tile};
    let made = |size, steps| Usage {
        images: 2,
        ..detail(UsageDetail { picture: PictureSize::named("", size), steps, ..PLAIN })
    };
    let any = PictureRate { of: PictureSize::default(), rate: PicoRate(1_000_000) };
    for (of, size, steps, nanos) in [
        (&[(Megapixel, 25_000_000_000)][..], "1024x1024", 0, Some(52_428_800)),
        (&[(Megapixel, 25_000_000_000)], "", 4, None),
        (&[(Step, 350_000_000)], "", 4, Some(2_800_000)),
        (&[(Step, 350_000_000)], "1024x1024", 0, None),
        (&[(Tile, 53_000_000), (Step, 110_000_000)], "1024x1025", 4, Some(2 * (6 * 53_000 + 4 * 110_000))),
        (&[], "1024x1024", 4, None),
    ] {
        assert_eq!(cost(&made(size, steps), &PriceCard::set(rates(of), Box::default())), nanos, "{of:?} {size}");
        let both = cost(&made(size, steps), &PriceCard::set(rates(of), [any].into()));
        let known = nanos.is_some() || of.is_empty();
        assert_eq!(both, known.then(|| nanos.unwrap_or_default() + 2_000), "{of:?} {size}");
    }
}

#[test]
fn the_providers_own_figure_goes_before_lists_and_behind_what_an_admin_set() {
    let told = Usage { input: 1, ..detail(UsageDetail { told: Some(NanoUsd(42)), ..PLAIN }) };
    assert_eq!(price(&told, None, Timestamp(0)), Some(NanoUsd(42)));
    assert_eq!(cost(&told, &card()), Some(42));
    let set = PriceCard::set(rates(&[(PriceClass::Input, 5_000)]), Box::default());
    assert_eq!(cost(&told, &set), Some(5));
}
