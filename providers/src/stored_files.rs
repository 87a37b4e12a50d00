//! Files of clouds that keep them as objects of a bucket: what they are called, and where they lie. What clients hold
//! is the address of the object, percent-encoded once. Pure: nothing is sent.

use gateway_domain::Timestamp;
use std::fmt::Write as _;

/// Where all files lie that come by the gateway, each below the folder of its workspace.
const FOLDER: &str = "gateway-files";
/// Where batches lie that the gateway looks after: theirs are told by the batch alone.
const BATCHES: &str = "gateway-batches";
/// Characters of what a client calls a file that are kept.
const LONGEST_NAME: usize = 100;
const LONGEST_KEY: usize = 1_024;
/// Objects of a page.
const MOST_LISTED: usize = 1_000;

/// How one cloud has it.
#[derive(Debug, PartialEq, Eq)]
pub struct BucketStore {
    scheme: &'static str,
    /// The setting that names the bucket.
    pub setting: &'static str,
    /// Keeps what the file is for, beside it.
    pub purpose_header: &'static str,
}

static S3: BucketStore =
    BucketStore { scheme: "s3://", setting: "aws_s3_bucket", purpose_header: "x-amz-meta-gateway-purpose" };
static GCS: BucketStore = BucketStore {
    scheme: "gs://",
    setting: "vertex_storage_bucket_name",
    purpose_header: "x-goog-meta-gateway-purpose",
};

/// `None`: the family keeps files in no bucket.
pub fn bucket_store(slug: &str) -> Option<&'static BucketStore> {
    match slug {
        "bedrock" => Some(&S3),
        "vertex-ai" => Some(&GCS),
        _ => None,
    }
}

/// An object of the bucket that the settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub bucket: String,
    pub key: String,
}

impl StoredFile {
    /// The object's path, to be appended to the store's address.
    pub fn path(&self) -> String {
        format!("/{}/{}", self.bucket, encoded(&self.key, b"/"))
    }

    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    /// What it is for, as far as its address says.
    pub fn purpose(&self) -> &str {
        let told = self.key.rsplit('/').nth(1).and_then(|folder| folder.split_once('.'));
        told.map_or("batch", |(_, purpose)| purpose)
    }

    /// One that came by the gateway, from this workspace.
    pub fn is_of(&self, workspace: &str) -> bool {
        self.key.starts_with(&folder(workspace))
    }
}

/// One of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    pub file: StoredFile,
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ListedPage {
    pub files: Vec<ListedFile>,
    pub next: Option<String>,
}

fn folder(workspace: &str) -> String {
    format!("{FOLDER}/{workspace}/")
}

impl BucketStore {
    /// A new one, called as its client calls it as far as that can stand in an address. The `id` begins with the time,
    /// and what the file is for stands behind it: a list tells both, and nothing else of it.
    pub fn new_file(
        &self,
        bucket: &str,
        (workspace, id): (&str, &str),
        (filename, purpose): (&str, &str),
    ) -> StoredFile {
        let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        let name: String = filename.chars().take(LONGEST_NAME).map(fits).collect();
        let name = if name.trim_matches('.').is_empty() { "file" } else { &name };
        let key = format!("{}{id}.{purpose}/{name}", folder(workspace));
        StoredFile { bucket: bucket.to_owned(), key }
    }

    /// Where a page is listed of what came by the gateway from a workspace: oldest first.
    pub fn list_path(&self, bucket: &str, workspace: &str, page: Option<&str>) -> String {
        let next = page.map_or_else(String::new, |page| format!("continuation-token={}&", encoded(page, b"")));
        let folder = encoded(&folder(workspace), b"");
        format!("/{bucket}?{next}list-type=2&max-keys={MOST_LISTED}&prefix={folder}")
    }

    /// A page as stores tell it, in XML; and by what the next one is asked for. What lies there and has no name that a
    /// file of the workspace could have is none. `None`: this tells of no page.
    pub fn listed(&self, bucket: &str, workspace: &str, body: &[u8]) -> Option<ListedPage> {
        let text = std::str::from_utf8(body).ok().filter(|text| text.contains("<ListBucketResult"))?;
        let objects = text.split("<Contents>").skip(1).filter_map(|object| {
            let file = self.read(&format!("{}{bucket}/{}", self.scheme, element(object, "Key")?), bucket, workspace)?;
            let changed = element(object, "LastModified").and_then(|at| at.parse::<Timestamp>().ok());
            let bytes = element(object, "Size")?.parse().ok()?;
            file.is_of(workspace).then(|| ListedFile { file, bytes, created: changed.map_or(0, Timestamp::secs) })
        });
        let next = element(text, "NextContinuationToken").filter(|_| element(text, "IsTruncated") == Some("true"));
        Some(ListedPage { files: objects.collect(), next: next.map(|token| token.replace("&amp;", "&")) })
    }

    /// The address of an object.
    pub fn uri(&self, file: &StoredFile) -> String {
        format!("{}{}/{}", self.scheme, file.bucket, file.key)
    }

    /// The file's id as clients hold it.
    pub fn id(&self, file: &StoredFile) -> String {
        self.held(&self.uri(file))
    }

    /// The id that clients hold for an address.
    pub fn held(&self, uri: &str) -> String {
        encoded(uri, b"")
    }

    /// The object of an address: of this bucket, and of no other workspace's. What is encoded is no address.
    pub fn read(&self, uri: &str, bucket: &str, workspace: &str) -> Option<StoredFile> {
        let (named, key) = uri.strip_prefix(self.scheme)?.split_once('/')?;
        let leads_on = key.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if named != bucket || key.len() > LONGEST_KEY || !leads_on || key.chars().any(char::is_control) {
            return None;
        }
        let file = StoredFile { bucket: named.to_owned(), key: key.to_owned() };
        let is_below = |folder: &str| file.key.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        (!is_below(BATCHES) && (!is_below(FOLDER) || file.is_of(workspace))).then_some(file)
    }
}

/// All but letters, digits, `-._~` and `kept`, as their bytes.
pub(crate) fn encoded(text: &str, kept: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What a store says went wrong, in the XML that stores speak.
pub fn xml_error_message(body: &[u8]) -> Option<String> {
    element(std::str::from_utf8(body).ok()?, "Message").map(str::to_owned)
}

/// What stands in the first element of this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "0007";

    #[test]
    fn a_file_is_found_by_the_address_that_it_was_given() {
        for (slug, begins) in [("bedrock", "s3%3A%2F%2Fmy-bucket%2Fgateway-files%2F"), ("vertex-ai", "gs%3A%2F%2Fmy-")]
        {
            let store = bucket_store(slug).expect("a store");
            let file = store.new_file("my-bucket", (HOME, "0009"), ("my lines/ä.jsonl", "fine-tune"));
            assert_eq!(file.purpose(), "fine-tune");
            assert!(file.key.ends_with("/my_lines__.jsonl") && file.is_of(HOME), "{}", file.key);
            assert!(store.id(&file).starts_with(begins), "{}", store.id(&file));
            assert_eq!(store.read(&store.uri(&file), "my-bucket", HOME), Some(file.clone()));
            assert_eq!(store.read(&store.id(&file), "my-bucket", HOME), None, "what is encoded is no address");
            assert_eq!(store.read(&store.uri(&file), "my-bucket", "0008"), None, "another workspace");
            assert_eq!(store.read(&store.uri(&file), "other", HOME), None);
        }
        assert!(bucket_store("openai").is_none());
    }

    #[test]
    fn addresses_lead_nowhere_else() {
        let store = bucket_store("bedrock").expect("a store");
        for bad in [
            "my-bucket/a",
            "gs://my-bucket/a",
            "s3://my-bucket",
            "s3://my-bucket/",
            "s3://my-bucket/a/../b",
            "s3://my-bucket//a",
            "s3://my-bucket/a\nb",
            "s3://evil.com/my-bucket/a",
            "s3://my-bucket/gateway-batches/b/lines.jsonl",
        ] {
            assert_eq!(store.read(bad, "my-bucket", HOME), None, "{bad}");
        }
        let own = store.read("s3://my-bucket/in/a b.jsonl", "my-bucket", HOME).expect("any other of the bucket");
        assert_eq!((own.path().as_str(), own.is_of(HOME)), ("/my-bucket/in/a%20b.jsonl", false));
    }

    #[test]
    fn a_page_tells_the_files_of_one_workspace() {
        let store = bucket_store("bedrock").expect("a store");
        let object = |key: &str| {
            format!(
                "<Contents><Key>{key}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>\
                 <Size>12</Size></Contents>"
            )
        };
        let page = |truncated: bool| {
            let keys = ["gateway-files/0007/01.batch/a.jsonl", "gateway-files/0008/02/b", "gateway-files/0007/&lt;/c"];
            let objects: String = keys.iter().map(|key| object(key)).collect();
            let next = "<NextContinuationToken>a&amp;b=</NextContinuationToken>";
            format!(
                "<?xml?><ListBucketResult xmlns=\"x\"><IsTruncated>{truncated}</IsTruncated>{next}{objects}</ListBucketResult>"
            )
        };
        let found = store.listed("my-bucket", HOME, page(true).as_bytes()).expect("a page");
        let names: Vec<_> = found.files.iter().map(|one| (one.file.name(), one.bytes, one.created)).collect();
        assert_eq!(names, [("a.jsonl", 12, 1_735_689_600), ("c", 12, 1_735_689_600)]);
        assert_eq!(found.files[0].file.purpose(), "batch");
        assert_eq!(found.next.as_deref(), Some("a&b="));
        assert_eq!(store.listed("my-bucket", HOME, page(false).as_bytes()).expect("a page").next, None);
        assert_eq!(store.listed("my-bucket", HOME, b"<Error></Error>"), None);
        let path = store.list_path("my-bucket", HOME, Some("a&b="));
        let asked = "/my-bucket?continuation-token=a%26b%3D&list-type=2&max-keys=1000&prefix=gateway-files%2F0007%2F";
        assert_eq!(path, asked);
    }

    #[test]
    fn what_a_store_says_is_read() {
        let said = b"<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>No such bucket</Message></Error>";
        assert_eq!(xml_error_message(said).as_deref(), Some("No such bucket"));
        assert_eq!(xml_error_message(b"busy"), None);
    }
}
