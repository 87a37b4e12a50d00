//! `language`: which language a text is in, told from its letters. Where that cannot be told reliably it is an error.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use serde_json::json;
use whatlang::Lang;

/// Bytes that are looked at: more says nothing new about the language.
const MOST: usize = 64 * 1024;

/// Languages by ISO 639-3 with their script, as FLORES-200 names them.
const CODES: &[(Lang, &str)] = &[
    (Lang::Epo, "epo_Latn"),
    (Lang::Eng, "eng_Latn"),
    (Lang::Rus, "rus_Cyrl"),
    (Lang::Cmn, "zho_Hans"),
    (Lang::Spa, "spa_Latn"),
    (Lang::Por, "por_Latn"),
    (Lang::Ita, "ita_Latn"),
    (Lang::Ben, "ben_Beng"),
    (Lang::Fra, "fra_Latn"),
    (Lang::Deu, "deu_Latn"),
    (Lang::Ukr, "ukr_Cyrl"),
    (Lang::Kat, "kat_Geor"),
    (Lang::Ara, "arb_Arab"),
    (Lang::Hin, "hin_Deva"),
    (Lang::Jpn, "jpn_Jpan"),
    (Lang::Heb, "heb_Hebr"),
    (Lang::Yid, "ydd_Hebr"),
    (Lang::Pol, "pol_Latn"),
    (Lang::Amh, "amh_Ethi"),
    (Lang::Jav, "jav_Latn"),
    (Lang::Kor, "kor_Hang"),
    (Lang::Nob, "nob_Latn"),
    (Lang::Dan, "dan_Latn"),
    (Lang::Swe, "swe_Latn"),
    (Lang::Fin, "fin_Latn"),
    (Lang::Tur, "tur_Latn"),
    (Lang::Nld, "nld_Latn"),
    (Lang::Hun, "hun_Latn"),
    (Lang::Ces, "ces_Latn"),
    (Lang::Ell, "ell_Grek"),
    (Lang::Bul, "bul_Cyrl"),
    (Lang::Bel, "bel_Cyrl"),
    (Lang::Mar, "mar_Deva"),
    (Lang::Kan, "kan_Knda"),
    (Lang::Ron, "ron_Latn"),
    (Lang::Slv, "slv_Latn"),
    (Lang::Hrv, "hrv_Latn"),
    (Lang::Srp, "srp_Cyrl"),
    (Lang::Mkd, "mkd_Cyrl"),
    (Lang::Lit, "lit_Latn"),
    (Lang::Lav, "lvs_Latn"),
    (Lang::Est, "est_Latn"),
    (Lang::Tam, "tam_Taml"),
    (Lang::Vie, "vie_Latn"),
    (Lang::Urd, "urd_Arab"),
    (Lang::Tha, "tha_Thai"),
    (Lang::Guj, "guj_Gujr"),
    (Lang::Uzb, "uzn_Latn"),
    (Lang::Pan, "pan_Guru"),
    (Lang::Aze, "azj_Latn"),
    (Lang::Ind, "ind_Latn"),
    (Lang::Tel, "tel_Telu"),
    (Lang::Pes, "pes_Arab"),
    (Lang::Mal, "mal_Mlym"),
    (Lang::Ori, "ory_Orya"),
    (Lang::Mya, "mya_Mymr"),
    (Lang::Nep, "npi_Deva"),
    (Lang::Sin, "sin_Sinh"),
    (Lang::Khm, "khm_Khmr"),
    (Lang::Tuk, "tuk_Latn"),
    (Lang::Aka, "aka_Latn"),
    (Lang::Zul, "zul_Latn"),
    (Lang::Sna, "sna_Latn"),
    (Lang::Afr, "afr_Latn"),
    (Lang::Lat, "lat_Latn"),
    (Lang::Slk, "slk_Latn"),
    (Lang::Cat, "cat_Latn"),
    (Lang::Tgl, "tgl_Latn"),
    (Lang::Hye, "hye_Armn"),
];
const TRADITIONAL: &str = "zho_Hant";
/// Common characters that simplified writing has others for.
const TRADITIONAL_ONLY: &str =
    "們個來這為說時國學會對發經點過還體與見長門問間東車馬語話讀書寫買賣電腦網頁點號碼樣邊實現開關係統據單動總應該";

#[derive(Debug)]
struct Language {
    wanted: Vec<String>,
    not: bool,
    selection: Selection,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let wanted = p.required_texts("language", CODES.len() + 1);
    for code in wanted.iter().filter(|c| *c != TRADITIONAL && !CODES.iter().any(|(_, known)| known == c)) {
        p.problem("language", format!("must not hold `{code}`: codes are ISO 639-3 with a script, such as eng_Latn"));
    }
    let (not, selection) = (p.flag("not", false), selection(p, Selection::TEXT));
    Some(Box::new(Language { wanted, not, selection }))
}

fn code(lang: Lang, text: &str) -> &'static str {
    if lang == Lang::Cmn && text.chars().any(|c| TRADITIONAL_ONLY.contains(c)) {
        return TRADITIONAL;
    }
    CODES.iter().find(|(l, _)| *l == lang).map_or("unknown", |(_, code)| code)
}

impl Judge for Language {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let judge = |text: &str| {
            let mut end = text.len().min(MOST);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let text = &text[..end];
            let Some(info) = whatlang::detect(text).filter(whatlang::Info::is_reliable) else {
                let data = json!({"explanation": "The language cannot be told", "textExcerpt": excerpt(text)});
                let error = CheckError::open("UnreliableLanguage", "The language of the text cannot be told reliably");
                return CheckOutcome::failed(error).with_data(data);
            };
            let found = code(info.lang(), text);
            let verdict = self.wanted.iter().any(|w| w == found) != self.not;
            let data = json!({"verdict": verdict, "not": self.not, "explanation": format!("The text is in {found}"),
                "language": found, "allowedLanguages": self.wanted, "textExcerpt": excerpt(text)});
            CheckOutcome::new(verdict, data)
        };
        each_text(case, self.selection, false, |joined| judge(&joined.text)).into()
    }
}
