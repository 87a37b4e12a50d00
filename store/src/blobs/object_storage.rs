//! Where pieces lie outside the database: a bucket that is spoken to as S3 is, or a folder that all nodes share. The
//! name of an object begins with that of its place, so that a piece tells where it is found. Knows bytes, never what
//! they are of.

use super::http::OwnConnector;
use bytes::Bytes;
use futures_util::future::ready;
use futures_util::{StreamExt as _, TryStreamExt as _};
use gateway_domain::ports::StoreError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::limit::LimitStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, ObjectStoreExt as _, RetryConfig};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;
use uuid::Uuid;

/// Requests to one place that are under way at once; more wait.
const MOST_AT_ONCE: usize = 64;
/// Tries of one request after the first, where the answer was none or one of a server in trouble.
const RETRIES: usize = 4;
/// Time for one object, all tries together.
const WHOLE: Duration = Duration::from_secs(40);
const LONGEST_PREFIX: usize = 512;
/// A day may have some hundred thousand objects.
const DROPPING: Duration = Duration::from_secs(600);
/// Objects that go with their day lie in a folder of this one.
const DAYS: &str = "days";

/// What is wrong with a URL, told without repeating it: it may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBlobUrl {
    #[error("write s3://bucket/prefix, file:///folder, or rows: for the database")]
    Form,
    #[error("the scheme '{0}' is not supported: use s3:, file: or rows:")]
    Scheme(String),
    #[error("s3:// needs the name of a bucket, of letters, digits, dots and hyphens")]
    Bucket,
    #[error("the prefix may have at most 512 characters, without `//`, `.` and `..`")]
    Prefix,
    #[error("a key id needs its secret: s3://KEY:SECRET@bucket, both percent-encoded")]
    HalfKey,
    #[error("'{0}' is no parameter: s3: takes region, endpoint and path-style, file: takes none")]
    Parameter(String),
    #[error("'{0}' must be {1}")]
    Value(&'static str, &'static str),
    #[error("{0}")]
    Refused(String),
}

/// An object that is not there, or trouble on the way.
#[derive(Debug)]
pub(crate) enum Lost {
    Missing,
    Store(StoreError),
}

/// One place, open for use.
#[derive(Clone)]
pub struct ObjectPlace {
    /// What names of objects begin with, its last character a `/`.
    name: Arc<str>,
    prefix: Path,
    store: Arc<dyn ObjectStore>,
}

/// Where pieces lie and are looked for. What is written goes to the first.
#[derive(Clone, Debug, Default)]
pub struct BlobPlaces {
    pub(super) new_in_rows: bool,
    pub(super) places: Arc<[ObjectPlace]>,
}

impl BlobPlaces {
    /// `cloud` is what the platform says of its own credentials, by AWS's names of them; the URL's win.
    pub fn open(urls: &[String], cloud: &[(String, String)]) -> Result<Self, BadBlobUrl> {
        let mut places = Vec::new();
        for url in urls.iter().filter(|url| !is_rows(url)) {
            places.push(ObjectPlace::open(url, cloud)?);
        }
        Ok(Self { new_in_rows: urls.first().is_none_or(|url| is_rows(url)), places: places.into() })
    }

    /// Where new pieces go, unless into rows.
    pub(crate) fn current(&self) -> Option<&ObjectPlace> {
        if self.new_in_rows { None } else { self.places.first() }
    }

    /// Whether each takes an object, gives it back and lets it go.
    pub async fn probe(&self) -> Result<(), StoreError> {
        for place in self.places.iter() {
            let object = place.new_object(Uuid::nil(), 0);
            place.put(&object, b"probe".to_vec()).await?;
            let back = place.get(&object, 5).await.is_ok_and(|back| back == b"probe");
            place.delete(&object).await?;
            if !back {
                return Err(StoreError::Unavailable(format!("{} does not give back what it took", place.name)));
            }
        }
        Ok(())
    }

    pub(crate) fn all(&self) -> &[ObjectPlace] {
        &self.places
    }

    pub(crate) fn of(&self, object: &str) -> Result<&ObjectPlace, StoreError> {
        self.places.iter().find(|place| object.starts_with(&*place.name)).ok_or_else(|| {
            let place = object.rsplitn(3, '/').last().unwrap_or_default();
            StoreError::Broken(format!("an object lies in {place}, which is none of the places that are named"))
        })
    }
}

fn is_rows(url: &str) -> bool {
    url == "rows:"
}

impl ObjectPlace {
    fn open(text: &str, cloud: &[(String, String)]) -> Result<Self, BadBlobUrl> {
        let url = Url::parse(text).map_err(|_| BadBlobUrl::Form)?;
        match url.scheme() {
            "s3" => Self::bucket(&url, cloud),
            "file" => Self::folder(&url),
            other => Err(BadBlobUrl::Scheme(other.to_owned())),
        }
    }

    fn bucket(url: &Url, cloud: &[(String, String)]) -> Result<Self, BadBlobUrl> {
        let bucket = url.host_str().unwrap_or_default();
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(known) || url.port().is_some() {
            return Err(BadBlobUrl::Bucket);
        }
        let prefix = prefix(url)?;
        let asked = BucketParameters::read(url)?;
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(2),
                base: 2.0,
            },
            max_retries: RETRIES,
            retry_timeout: WHOLE,
        };
        let mut builder = AmazonS3Builder::new().with_retry(retry).with_http_connector(OwnConnector);
        let owns_key = !url.username().is_empty();
        let of_keys = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
        for (name, value) in cloud.iter().filter(|(name, _)| !(owns_key && of_keys.contains(&name.as_str()))) {
            if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        if owns_key {
            let secret = url.password().filter(|secret| !secret.is_empty()).ok_or(BadBlobUrl::HalfKey)?;
            builder = builder.with_access_key_id(decoded(url.username())?).with_secret_access_key(decoded(secret)?);
        }
        if let Some(region) = &asked.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = asked.endpoint_for(bucket)? {
            builder = builder.with_endpoint(endpoint);
        }
        let builder = builder.with_bucket_name(bucket).with_virtual_hosted_style_request(!asked.is_path_style());
        let store = builder.build().map_err(|e| BadBlobUrl::Refused(e.to_string()))?;
        let name = if prefix.is_root() { format!("s3://{bucket}/") } else { format!("s3://{bucket}/{prefix}/") };
        Ok(Self { name: name.into(), prefix, store: Arc::new(LimitStore::new(store, MOST_AT_ONCE)) })
    }

    /// Written beside its name, synced and renamed: what is there is whole.
    fn folder(url: &Url) -> Result<Self, BadBlobUrl> {
        if let Some((name, _)) = url.query_pairs().next() {
            return Err(BadBlobUrl::Parameter(name.into_owned()));
        }
        let folder = url.to_file_path().map_err(|()| BadBlobUrl::Form)?;
        let refused = |e: &dyn fmt::Display| BadBlobUrl::Refused(format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(|e| refused(&e))?;
        let store = LocalFileSystem::new_with_prefix(&folder).map_err(|e| refused(&e))?;
        let store = store.with_automatic_cleanup(true).with_fsync(true);
        let name = format!("file://{}/", folder.display().to_string().trim_end_matches('/'));
        let store = Arc::new(LimitStore::new(store, MOST_AT_ONCE));
        Ok(Self { name: name.into(), prefix: Path::default(), store })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A name that no other piece ever has, so that what is written anew never stands in the place of what is read.
    pub(super) fn new_object(&self, blob: Uuid, at: u64) -> String {
        format!("{}{}/{at}-{:016x}", self.name, blob.simple(), rand::random::<u64>())
    }

    /// One of a day's, whose name is its own too.
    pub(crate) fn object_of_day(&self, day: &str, id: Uuid) -> String {
        format!("{}{DAYS}/{day}/{}.jsonl.gz", self.name, id.simple())
    }

    fn path(&self, object: &str) -> Path {
        let inner = object.strip_prefix(&*self.name).unwrap_or(object);
        inner.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    pub(crate) async fn put(&self, object: &str, sealed: Vec<u8>) -> Result<(), StoreError> {
        let path = self.path(object);
        let put = self.store.put(&path, Bytes::from(sealed).into());
        timeout(WHOLE, put).await.map_err(|_| self.late())?.map(drop).map_err(|e| self.trouble(&e))
    }

    /// Reads an object of at most `most` bytes; what is larger was not written here.
    pub(super) async fn get(&self, object: &str, most: usize) -> Result<Vec<u8>, Lost> {
        let path = self.path(object);
        let read = async {
            let found = self.store.get(&path).await?;
            if found.meta.size > most as u64 { Ok(None) } else { found.bytes().await.map(Some) }
        };
        match timeout(WHOLE, read).await {
            Err(_) => Err(Lost::Store(self.late())),
            Ok(Err(object_store::Error::NotFound { .. })) => Err(Lost::Missing),
            Ok(Err(e)) => Err(Lost::Store(self.trouble(&e))),
            Ok(Ok(None)) => Err(Lost::Store(StoreError::Broken("an object is larger than any piece".to_owned()))),
            Ok(Ok(Some(bytes))) => Ok(bytes.into()),
        }
    }

    pub(crate) async fn get_part(&self, object: &str, part: Range<u64>) -> Result<Bytes, Lost> {
        let path = self.path(object);
        match timeout(WHOLE, self.store.get_range(&path, part)).await {
            Err(_) => Err(Lost::Store(self.late())),
            Ok(Err(object_store::Error::NotFound { .. })) => Err(Lost::Missing),
            Ok(found) => found.map_err(|e| Lost::Store(self.trouble(&e))),
        }
    }

    /// Days that there are objects of.
    pub(crate) async fn days(&self) -> Result<Vec<String>, StoreError> {
        let found = timeout(WHOLE, self.store.list_with_delimiter(Some(&self.prefix.clone().join(DAYS)))).await;
        let found = found.map_err(|_| self.late())?.map_err(|e| self.trouble(&e))?;
        Ok(found.common_prefixes.iter().filter_map(|path| path.filename().map(ToOwned::to_owned)).collect())
    }

    /// All objects of a day. What is left when the time is over goes the next time.
    pub(crate) async fn drop_day(&self, day: &str) -> Result<(), StoreError> {
        let folder = self.prefix.clone().join(DAYS).join(day);
        let objects = self.store.list(Some(&folder)).map_ok(|object| object.location).boxed();
        let gone = self.store.delete_stream(objects).try_for_each(|_| ready(Ok(())));
        match timeout(DROPPING, gone).await {
            Err(_) => Err(self.late()),
            Ok(Ok(()) | Err(object_store::Error::NotFound { .. })) => Ok(()),
            Ok(Err(e)) => Err(self.trouble(&e)),
        }
    }

    /// One that is not there is gone as well.
    pub(super) async fn delete(&self, object: &str) -> Result<(), StoreError> {
        let path = self.path(object);
        match timeout(WHOLE, self.store.delete(&path)).await {
            Err(_) => Err(self.late()),
            Ok(Ok(()) | Err(object_store::Error::NotFound { .. })) => Ok(()),
            Ok(Err(e)) => Err(self.trouble(&e)),
        }
    }

    fn late(&self) -> StoreError {
        StoreError::Unavailable(format!("{} did not answer within {} s", self.name, WHOLE.as_secs()))
    }

    fn trouble(&self, error: &object_store::Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {error}", self.name))
    }
}

/// Parameters of a bucket.
#[derive(Default)]
struct BucketParameters {
    region: Option<String>,
    endpoint: Option<Url>,
    path_style: Option<bool>,
}

impl BucketParameters {
    fn read(url: &Url) -> Result<Self, BadBlobUrl> {
        let mut asked = Self::default();
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "region" if !value.is_empty() => asked.region = Some(value.into_owned()),
                "region" => return Err(BadBlobUrl::Value("region", "the name of a region, such as eu-central-1")),
                "endpoint" => {
                    let endpoint = Url::parse(&value).ok().filter(|endpoint| {
                        matches!(endpoint.scheme(), "http" | "https")
                            && endpoint.has_host()
                            && endpoint.query().is_none()
                    });
                    let why = BadBlobUrl::Value("endpoint", "an http: or https: URL without a query");
                    asked.endpoint = Some(endpoint.ok_or(why)?);
                }
                "path-style" => {
                    let why = BadBlobUrl::Value("path-style", "true or false");
                    asked.path_style = Some(value.parse().map_err(|_| why)?);
                }
                other => return Err(BadBlobUrl::Parameter(other.to_owned())),
            }
        }
        Ok(asked)
    }

    /// AWS wants the bucket in the name of the host, others seldom can.
    fn is_path_style(&self) -> bool {
        self.path_style.unwrap_or(self.endpoint.is_some())
    }

    fn endpoint_for(&self, bucket: &str) -> Result<Option<String>, BadBlobUrl> {
        let Some(mut endpoint) = self.endpoint.clone() else { return Ok(None) };
        if !self.is_path_style() {
            let host = format!("{bucket}.{}", endpoint.host_str().unwrap_or_default());
            let why = BadBlobUrl::Value("path-style", "true where the endpoint is a bare address");
            endpoint.set_host(Some(&host)).map_err(|_| why)?;
        }
        Ok(Some(endpoint.as_str().trim_end_matches('/').to_owned()))
    }
}

fn prefix(url: &Url) -> Result<Path, BadBlobUrl> {
    let text = decoded(url.path().trim_matches('/'))?;
    if text.len() > LONGEST_PREFIX {
        return Err(BadBlobUrl::Prefix);
    }
    Path::parse(&text).map_err(|_| BadBlobUrl::Prefix)
}

fn decoded(text: &str) -> Result<String, BadBlobUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = (*first == b'%').then(|| behind.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).map_err(|_| BadBlobUrl::Form)
}

/// No secret: the name of a place has none.
impl fmt::Debug for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectPlace").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Result<ObjectPlace, BadBlobUrl> {
        ObjectPlace::open(url, &[])
    }

    #[test]
    fn a_url_names_bucket_and_prefix_and_hides_its_secret() {
        let url =
            "s3://ID:se%2Fcret@my.bucket-1/a/b%20c/?region=eu-central-1&endpoint=http://127.0.0.1:1&path-style=true";
        let place = place(url).expect("a place");
        assert_eq!(place.name(), "s3://my.bucket-1/a/b c/");
        assert!(!format!("{place:?}").contains("cret"));
        let object = place.new_object(Uuid::from_u128(1), 7);
        assert!(object.starts_with("s3://my.bucket-1/a/b c/00000000000000000000000000000001/7-"), "{object}");
        assert_ne!(object, place.new_object(Uuid::from_u128(1), 7));
        assert!(place.path(&object).as_ref().starts_with("a/b c/0000"), "{:?}", place.path(&object));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (url, why) in [
            ("bucket", "write s3://"),
            ("gs://bucket/x", "'gs'"),
            ("az://bucket/x", "'az'"),
            ("s3:///x", "bucket"),
            ("s3://a", "bucket"),
            ("s3://under_score/x", "bucket"),
            ("s3://bucket:80/x", "bucket"),
            ("s3://bucket/a//b", "prefix"),
            ("s3://key@bucket/x", "its secret"),
            ("s3://bucket/x?regoin=1", "'regoin'"),
            ("s3://bucket/x?region=", "'region'"),
            ("s3://bucket/x?endpoint=ftp://h", "'endpoint'"),
            ("s3://bucket/x?path-style=1", "'path-style'"),
            ("s3://bucket/x?endpoint=http://127.0.0.1:1&path-style=false", "'path-style'"),
            ("file:///tmp/x?region=1", "'region'"),
        ] {
            let refused = place(url).expect_err(url).to_string();
            assert!(refused.contains(why), "{url}: {refused}");
        }
    }

    #[test]
    fn a_bucket_stands_in_the_path_or_the_host() {
        let endpoint = |url: &str| {
            let url = Url::parse(url).expect("a URL");
            let asked = BucketParameters::read(&url).expect("read");
            (asked.is_path_style(), asked.endpoint_for("bucket").expect("an endpoint"))
        };
        assert_eq!(endpoint("s3://bucket/x"), (false, None));
        let given = |style: &str| endpoint(&format!("s3://bucket/x?endpoint=https://minio.test:9000{style}"));
        assert_eq!(given(""), (true, Some("https://minio.test:9000".to_owned())));
        assert_eq!(given("&path-style=false"), (false, Some("https://bucket.minio.test:9000".to_owned())));
    }

    #[test]
    fn new_pieces_go_to_the_first_place_and_others_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = format!("file://{}", folder.path().display());
        let open = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            BlobPlaces::open(&urls, &[]).expect("places")
        };
        assert!(open(&[]).current().is_none());
        assert!(open(&["rows:", &file]).current().is_none());
        let both = open(&["s3://k:s@bucket/x", &file]);
        assert_eq!(both.current().expect("a place").name(), "s3://bucket/x/");
        assert_eq!(both.of(&format!("{file}/0/1-2")).expect("found").name(), format!("{file}/"));
        let unknown = both.of("s3://other/x/0/1-2").expect_err("unknown").to_string();
        assert!(unknown.contains("lies in s3://other/x,"), "{unknown}");
    }
}
