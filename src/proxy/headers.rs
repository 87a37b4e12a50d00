//! The gateway's own request headers as one typed value (`docs/data-plane.md`, request headers). A bad one is a
//! 400 that names it as the client spelled it. `--header-alias` prefixes count like `x-gateway-`.

mod baggage;
mod provider_settings;
mod trace_context;
mod values;

pub(crate) use trace_context::TraceContext;

use baggage::baggage;
use gateway_domain::bounds::check_forward_header;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::config::INLINE_TEXT;
use gateway_domain::egress::{BaseUrl, Trusted, check_custom_host};
use gateway_domain::record::{ClientLibrary, Parent};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use provider_settings::PROVIDER_HEADERS;
use std::sync::Arc;
use values::{bad, flag, list, read_metadata, refuses, short, sound_millis, word};

pub(crate) const PREFIX: &str = "x-gateway-";
/// What stands in `x-gateway-provider` for the gateway itself.
pub(crate) const SELF: &str = "gateway";

#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayHeaders {
    pub(crate) api_key: Option<HeaderValue>,
    pub(crate) provider: Option<Arc<str>>,
    pub(crate) virtual_key: Option<Arc<str>>,
    pub(crate) config: Option<HeaderValue>,
    pub(crate) custom_host: Option<Arc<BaseUrl>>,
    pub(crate) trace_id: Option<Arc<str>>,
    pub(crate) metadata: Vec<(String, String)>,
    /// Members of `baggage`; metadata where that does not say otherwise.
    pub(crate) baggage: Vec<(String, String)>,
    pub(crate) request_timeout_ms: Option<u64>,
    pub(crate) integrated_models: bool,
    /// A fresh upstream call is wanted, and its answer kept.
    pub(crate) cache_refresh: bool,
    pub(crate) cache_namespace: Option<Arc<str>>,
    /// Comments are wanted before a stream's first content, too.
    pub(crate) early_keepalive: bool,
    /// `false`: nothing of this call is kept beside its figures, not even an answer.
    pub(crate) debug: Option<bool>,
    /// Length of the sound in the body, where its container does not tell it.
    pub(crate) sound_ms: Option<u32>,
    pub(crate) forward_headers: Option<Arc<[String]>>,
    /// The header that says where a provider is to be found.
    pub(crate) provider_url: Option<&'static str>,
    /// A setting of what is not built; told after what the organisation forbids.
    pub(crate) not_built: Option<Fault>,
    /// `strict-open-ai-compliance`: `false` beats the config.
    pub(crate) strict: Option<bool>,
    /// `adjusted-params: refuse`: a request of which a target would get less than was asked is a 400.
    pub(crate) unadjusted: bool,
    /// `None` when the client tells nothing of a trace.
    pub(crate) traced: Option<Box<TraceContext>>,
    /// What the client's library tells of itself.
    pub(crate) client: Option<Arc<ClientLibrary>>,
    /// Names in lower case whose values records hold as hashes.
    pub(crate) sensitive: Option<Arc<[String]>>,
    /// Provider settings that ride on headers of their own (`openai-beta`, `anthropic-version` …).
    pub(crate) provider_headers: Vec<(&'static str, HeaderValue)>,
    /// The settings of a cloud (`x-gateway-vertex-region`), for providers whose credential comes with the request.
    pub(crate) settings: CloudSettings,
}

impl GatewayHeaders {
    pub(crate) fn parse(headers: &HeaderMap, aliases: &[String], trusted: &Trusted) -> Result<Self, Fault> {
        let mut parsed = Self::default();
        // Only what stands there twice, or under two prefixes, can say two things.
        if headers.len() > headers.keys_len() || !aliases.is_empty() {
            check_unanimous(headers, aliases)?;
        }
        for (name, value) in headers {
            let name = name.as_str();
            if !name.starts_with("x-") || name.starts_with("x-vertex-ai-") {
                parsed.take_bare(name, value);
                continue;
            }
            if let Some(suffix) = suffix_of(name, aliases) {
                parsed.take(name, suffix, value, trusted)?;
            }
        }
        let hidden = |name: &String| suffix_of(name, aliases).is_some_and(|suffix| TOLD.contains(&suffix));
        if parsed.client.is_some() && parsed.sensitive.as_deref().is_some_and(|names| names.iter().any(hidden)) {
            parsed.client = None;
        }
        Ok(parsed)
    }

    /// Whether a header of this name says anything of how a provider is asked.
    pub(crate) fn reads(name: &str, aliases: &[String]) -> bool {
        suffix_of(name, aliases).is_some() || PROVIDER_HEADERS.contains(&name)
    }

    /// Provider headers are honoured unprefixed too; the prefixed form wins.
    fn take_bare(&mut self, name: &str, value: &HeaderValue) {
        match name {
            // Whatever cannot be read is ignored, as the recommendation says.
            "traceparent" => {
                if let Some(parent) = value.to_str().ok().and_then(|t| Parent::parse(t.trim())) {
                    self.traced.get_or_insert_default().parent = Some(parent);
                }
                return;
            }
            "tracestate" => {
                if let Some(state) = value.to_str().ok().filter(|t| t.len() <= 512) {
                    self.traced.get_or_insert_default().state = Some(state.into());
                }
                return;
            }
            "baggage" => {
                self.baggage = value.to_str().map(baggage).unwrap_or_default();
                return;
            }
            _ => {}
        }
        if let Some(known) = PROVIDER_HEADERS.iter().find(|n| **n == name)
            && !self.provider_headers.iter().any(|(n, _)| n == known)
        {
            self.provider_headers.push((known, value.clone()));
        }
    }

    /// What no record could hold is ignored: nothing depends on it.
    fn note_client(&mut self, what: &str, value: &HeaderValue) {
        let Some(text) = value.to_str().ok().filter(|t| (1..=128).contains(&t.len())) else { return };
        let client = Arc::make_mut(self.client.get_or_insert_default());
        let field = match what {
            "runtime" => &mut client.runtime,
            "runtime-version" => &mut client.runtime_version,
            _ => &mut client.sdk_version,
        };
        *field = Some(text.into());
    }

    fn take(&mut self, name: &str, suffix: &str, value: &HeaderValue, trusted: &Trusted) -> Result<(), Fault> {
        let text = || value.to_str().map(str::trim).map_err(|_| bad(name, "must be visible ASCII"));
        match suffix {
            "api-key" => self.api_key = Some(value.clone()),
            "provider" => self.provider = Some(word(name, text()?)?.into()),
            "virtual-key" => {
                let slug = word(name, text()?)?;
                self.virtual_key = Some(slug.strip_prefix('@').unwrap_or(slug).into());
            }
            "config" => {
                if std::str::from_utf8(value.as_bytes()).is_ok_and(|v| v.trim().is_empty()) {
                    return Err(bad(name, "must not be empty"));
                }
                if value.len() > INLINE_TEXT {
                    let rule = "bytes; save a larger config, and send its slug";
                    return Err(bad(name, &format!("must be at most {INLINE_TEXT} {rule}")));
                }
                self.config = Some(value.clone());
            }
            "custom-host" => {
                let base = check_custom_host(text()?, trusted).map_err(|why| {
                    Fault::new(FaultKind::BadHost, format!("Invalid custom host: {name} {why}")).on(name)
                })?;
                self.custom_host = Some(Arc::new(base));
            }
            "trace-id" => self.trace_id = Some(short(name, text()?)?),
            "span-id" => self.traced.get_or_insert_default().span_id = Some(short(name, text()?)?),
            "span-name" => self.traced.get_or_insert_default().span_name = Some(short(name, text()?)?),
            "parent-span-id" => self.traced.get_or_insert_default().parent_span_id = Some(short(name, text()?)?),
            "runtime" | "runtime-version" | "package-version" => self.note_client(suffix, value),
            "metadata" => self.metadata = read_metadata(name, value)?,
            "cache-force-refresh" => self.cache_refresh = flag(name, text()?)?,
            "cache-namespace" => self.cache_namespace = Some(short(name, text()?)?),
            "early-keepalive" => self.early_keepalive = flag(name, text()?)?,
            "request-timeout" => match text()?.parse() {
                Ok(ms) if ms > 0 => self.request_timeout_ms = Some(ms),
                _ => return Err(bad(name, "must be an integer of at least 1 (milliseconds)")),
            },
            "fetch-integrated-models" | "models-endpoint" => self.integrated_models = flag(name, text()?)?,
            "forward-headers" => {
                let names: Result<Vec<String>, Fault> = list(name, text()?)?
                    .iter()
                    .map(|n| check_forward_header(n).map_err(|why| bad(name, &format!("`{n}` {why}"))))
                    .collect();
                self.forward_headers = Some(names?.into());
            }
            "sensitive-headers" => {
                let lower: Vec<String> = list(name, text()?)?.iter().map(|n| n.to_ascii_lowercase()).collect();
                if let Some(wrong) = lower.iter().find(|n| HeaderName::from_bytes(n.as_bytes()).is_err()) {
                    return Err(bad(name, &format!("`{wrong}` is not a valid header name")));
                }
                self.sensitive = Some(lower.into());
            }
            "strict-open-ai-compliance" | "strict-openai-compliance" => self.strict = Some(flag(name, text()?)?),
            "adjusted-params" => self.unadjusted = refuses(name, text()?)?,
            "audio-file-duration" => self.sound_ms = Some(sound_millis(name, text()?)?),
            "debug" => self.debug = Some(flag(name, text()?)?),
            other => return self.take_setting(name, other, value, trusted),
        }
        Ok(())
    }
}

/// A setting that is given two values could be in force with either.
fn check_unanimous(headers: &HeaderMap, aliases: &[String]) -> Result<(), Fault> {
    let mut seen: Vec<(&str, &HeaderValue)> = Vec::new();
    for (name, value) in headers {
        let Some(suffix) = suffix_of(name.as_str(), aliases) else { continue };
        match seen.iter().find(|(known, _)| *known == suffix) {
            Some((_, first)) if *first != value => {
                return Err(bad(name.as_str(), "is given twice, with different values"));
            }
            Some(_) => {}
            None => seen.push((suffix, value)),
        }
    }
    Ok(())
}

/// Headers of libraries that tell of themselves.
const TOLD: [&str; 3] = ["runtime", "runtime-version", "package-version"];

/// What stands behind the gateway's prefix or one of its aliases.
pub(crate) fn suffix_of<'a>(name: &'a str, aliases: &[String]) -> Option<&'a str> {
    name.strip_prefix(PREFIX).or_else(|| aliases.iter().find_map(|a| name.strip_prefix(a.as_str())))
}

/// Headers that `connection` names: they belong to one connection as well (RFC 9110, 7.6.1).
pub(crate) fn of_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let names = lists.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty());
    names
        .filter(|name| !name.eq_ignore_ascii_case("close") && !name.eq_ignore_ascii_case("keep-alive"))
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<GatewayHeaders, Fault> {
        let mut map = HeaderMap::new();
        for (k, v) in pairs {
            let name = HeaderName::from_bytes(k.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_str(v).expect("a value"));
        }
        GatewayHeaders::parse(&map, &["x-acme-".into()], &Trusted::default())
    }

    /// Every setting of a cloud is kept for the call, or refused by its name below.
    #[test]
    fn no_setting_of_a_cloud_is_ignored() {
        let account = r#"{"type":"service_account","client_email":"a@b","private_key":"-"}"#;
        let rows: &[(&str, &[(&str, &str)])] = &[
            (
                "azure-",
                &[
                    ("resource-name", "r"),
                    ("deployment-id", "d"),
                    ("api-version", "v"),
                    ("model-name", "m"),
                    ("ad-token", "t"),
                    ("auth-mode", "entra"),
                    ("managed-client-id", "c"),
                    ("workload-client-id", "c"),
                    ("entra-client-id", "c"),
                    ("entra-client-secret", "s"),
                    ("entra-tenant-id", "t"),
                    ("entra-scope", "s"),
                    ("extra-params", "drop"),
                    ("foundry-url", "https://r.services.ai.azure.com/models"),
                    ("deployment-name", "d"),
                ],
            ),
            (
                "aws-",
                &[
                    ("access-key-id", "k"),
                    ("secret-access-key", "s"),
                    ("session-token", "t"),
                    ("region", "us-east-1"),
                    ("auth-type", "accessKey"),
                    ("role-arn", "arn:aws:iam::1:role/r"),
                    ("external-id", "e"),
                    ("bedrock-model", "amazon.nova-lite-v1:0"),
                ],
            ),
            (
                "vertex-",
                &[("project-id", "p"), ("region", "global"), ("service-account-json", account), ("auth-type", "basic")],
            ),
            (
                "oauth-",
                &[
                    ("token-endpoint", "https://x.example/t"),
                    ("client-id", "c"),
                    ("client-secret", "s"),
                    ("scope", "s"),
                ],
            ),
            ("provider-", &[("responses-proxy", "true")]),
            (
                "amzn-sagemaker-",
                &[
                    ("custom-attributes", "trace=1"),
                    ("target-model", "m.tar.gz"),
                    ("target-variant", "v"),
                    ("target-container-hostname", "c"),
                    ("inference-id", "i"),
                    ("enable-explanations", "`true`"),
                    ("inference-component", "ic-1"),
                    ("session-id", "NEW_SESSION"),
                    ("model-name", "m"),
                ],
            ),
            ("workers-ai-", &[("account-id", "023e105f")]),
            ("snowflake-", &[("account", "org-account.eu")]),
            ("databricks-", &[("workspace", "dbc-1.cloud.databricks.com"), ("serving-endpoint-name", "e")]),
            ("byteplus-", &[("region", "eu-west")]),
            ("triton-", &[("api", "generate")]),
            ("huggingface-", &[("base-url", "https://x.endpoints.huggingface.cloud")]),
            (
                "oracle-",
                &[
                    ("region", "us-chicago-1"),
                    ("api-version", "20231130"),
                    ("compartment-id", "ocid1.compartment.oc1..a"),
                    ("tenancy", "ocid1.tenancy.oc1..a"),
                    ("user", "ocid1.user.oc1..a"),
                    ("private-key", "k"),
                    ("fingerprint", "20:3b:97:13:55:1c:5b:0d:d3:37:d8:50:4e:c5:3a:34"),
                ],
            ),
        ];
        for (cloud, settings) in rows {
            for (setting, value) in *settings {
                let parsed = parse(&[(&format!("x-gateway-{cloud}{setting}"), value)]);
                let parsed = parsed.unwrap_or_else(|fault| panic!("{cloud}{setting}: {}", fault.message()));
                let name = format!("{cloud}{setting}").replace('-', "_");
                assert_eq!(parsed.settings.get(&name), Some(*value), "{name}");
            }
        }
        for header in PROVIDER_HEADERS {
            let bare = header.strip_prefix("x-").unwrap_or(header);
            let parsed = parse(&[(&format!("x-gateway-{bare}"), "v")]).expect("valid");
            assert_eq!(parsed.provider_headers.len(), 1, "{header}");
        }
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        for header in [
            "azure-endpoint-name",
            "aws-s3-object-key",
            "provider-file-name",
            "provider-model",
            "amz-server-side-encryption",
            "amz-server-side-encryption-aws-kms-key-id",
            "provider-batch-endpoint",
            "oracle-key-passphrase",
            "amzn-sagemaker-nothing",
            "mistral-fim-completion",
        ] {
            let fault = parse(&[(&format!("x-gateway-{header}"), "v")]).expect("read").not_built.expect(header);
            assert!(fault.status() == 400 && fault.message().contains(header), "{}", fault.message());
        }
    }

    #[test]
    fn each_bad_value_names_its_header() {
        let pairs: Vec<String> = (0..65).map(|n| format!("\"k{n}\":\"v\"")).collect();
        let many = format!("{{{}}}", pairs.join(","));
        let long_key = format!("{{\"{}\":\"v\"}}", "k".repeat(129));
        let large = format!("{{\"provider\":\"openai\"{}}}", " ".repeat(INLINE_TEXT));
        let names = (0..101).map(|n| format!("x-{n}")).collect::<Vec<_>>().join(",");
        for (name, value) in [
            ("x-gateway-provider", "open ai"),
            ("x-gateway-virtual-key", ""),
            ("x-gateway-config", " "),
            ("x-gateway-custom-host", "http://127.0.0.1"),
            ("x-gateway-trace-id", ""),
            ("x-gateway-metadata", "{"),
            ("x-gateway-metadata", r#"{"a":1}"#),
            ("x-gateway-metadata", &many),
            ("x-gateway-metadata", &long_key),
            ("x-gateway-config", &large),
            ("x-gateway-forward-headers", &names),
            ("x-gateway-cache-namespace", &large),
            ("x-gateway-cache-force-refresh", "maybe"),
            ("x-gateway-early-keepalive", "15s"),
            ("x-gateway-request-timeout", "soon"),
            ("x-gateway-request-timeout", "0"),
            ("x-gateway-fetch-integrated-models", "y"),
            ("x-gateway-forward-headers", "x-gateway-forward-headers"),
            ("x-gateway-forward-headers", "[1]"),
            ("x-gateway-sensitive-headers", "a b"),
            ("x-gateway-vertex-region", "evil.example/"),
            ("x-gateway-snowflake-account", "evil.example#"),
            ("x-gateway-workers-ai-account-id", "../x"),
            ("x-gateway-databricks-workspace", "https://dbc-1.cloud.databricks.com"),
            ("x-gateway-databricks-workspace", "dbc-1.cloud.databricks.com.evil.example"),
            ("x-gateway-byteplus-region", "-eu"),
            ("x-gateway-oracle-region", "a..b"),
            ("x-gateway-huggingface-base-url", "http://169.254.169.254/"),
            ("x-gateway-azure-foundry-url", "http://169.254.169.254/"),
            ("x-gateway-azure-deployment-config", "[]"),
            ("x-gateway-provider-responses-proxy", "yes"),
            ("x-gateway-strict-open-ai-compliance", "no"),
            ("x-gateway-adjusted-params", "drop"),
            ("x-acme-request-timeout", "-1"),
        ] {
            let fault = parse(&[(name, value)]).expect_err(name);
            assert_eq!((fault.status(), fault.param()), (400, Some(name)), "{}", fault.message());
        }
    }

    #[test]
    fn baggage_that_no_record_could_hold_is_left_out() {
        let (long, many) = ("k".repeat(129), (0..100).map(|n| format!("n{n}=v")).collect::<Vec<_>>());
        let text = format!("{long}=v,short={long},{}", many.join(","));
        let parsed = parse(&[("baggage", &text)]).expect("valid").baggage;
        assert_eq!((parsed.len(), parsed[0].0.as_str()), (64, "n0"));
    }

    #[test]
    fn good_values_and_aliases() {
        let h = parse(&[
            ("x-acme-provider", "@main"),
            ("x-gateway-metadata", r#"{"_user":"ann"}"#),
            ("x-gateway-forward-headers", r#"["X-A","x-b"]"#),
            ("x-gateway-request-timeout", "1500"),
            ("x-gateway-strict-open-ai-compliance", "false"),
            ("openai-beta", "bare"),
            ("baggage", "_user=bob,team=blue%20one;p=1, ,x"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("x-gateway-span-name", "step"),
            ("x-gateway-openai-beta", "prefixed"),
        ])
        .expect("valid");
        assert_eq!(h.provider.as_deref(), Some("@main"));
        assert_eq!(h.metadata, [("_user".to_owned(), "ann".to_owned())]);
        assert_eq!(h.forward_headers.as_deref(), Some(&["x-a".to_owned(), "x-b".to_owned()][..]));
        assert_eq!(h.baggage, [("_user".to_owned(), "bob".to_owned()), ("team".to_owned(), "blue one".to_owned())]);
        let told = h.traced.as_deref().expect("a trace");
        assert_eq!(
            (told.parent.map(|p| p.span), told.span_name.as_deref()),
            (Some(0xb7ad_6b71_6920_3331), Some("step"))
        );
        assert!(h.strict == Some(false) && h.request_timeout_ms == Some(1500));
        assert_eq!(h.provider_headers, [("openai-beta", HeaderValue::from_static("prefixed"))]);
    }
}
