//! The key that seals every secret at rest: where it comes from, and whether a database was sealed with it.
//! It is never printed, and a file with it is made readable for its owner alone.

use crate::database::{Database, Side};
use crate::session::failure;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use gateway_domain::Secret;
use gateway_domain::ports::{StoreError, Vault, VaultError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};
use tokio::time::timeout;

const LENGTH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("master key file {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("master key file {} cannot be created: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("master key file {}: {source}", path.display())]
    File { path: PathBuf, source: BadKey },
    #[error("the master key is not the one that this database's secrets were sealed with")]
    WrongKey,
    #[error("the database's mark of its master key is damaged")]
    Damaged,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key is {LENGTH} bytes, written as 64 hex digits or as base64; these are {got}")]
pub struct BadKey {
    /// Bytes after decoding, or characters when they decode to nothing.
    pub got: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterKey(Secret<[u8; LENGTH]>);

impl MasterKey {
    pub fn generate() -> Self {
        Self(Secret::new(rand::random()))
    }

    /// Hex or base64 (either alphabet, padded or not), with or without white space around.
    pub fn from_text(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        let bytes = from_hex(text).or_else(|| from_base64(text)).ok_or(BadKey { got: text.len() })?;
        Self::from_bytes(&bytes)
    }

    /// The file's text, or its 32 raw bytes. A missing file is made, with a new key.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let found = match fs::read(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                create(path).map_err(|source| KeyError::Create { path: path.to_owned(), source })?;
                fs::read(path)
            }
            found => found,
        };
        let bytes = found.map_err(|source| KeyError::Unreadable { path: path.to_owned(), source })?;
        warn_when_open(path);
        let key = match std::str::from_utf8(&bytes) {
            Ok(text) if bytes.len() != LENGTH => Self::from_text(text),
            _ => Self::from_bytes(&bytes),
        };
        key.map_err(|source| KeyError::File { path: path.to_owned(), source })
    }

    pub(crate) fn expose(&self) -> &[u8; LENGTH] {
        self.0.expose()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, BadKey> {
        let key = <[u8; LENGTH]>::try_from(bytes).map_err(|_| BadKey { got: bytes.len() })?;
        Ok(Self(Secret::new(key)))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * LENGTH {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [alphabet::STANDARD, alphabet::URL_SAFE].iter().find_map(|a| GeneralPurpose::new(a, config).decode(text).ok())
}

/// Whole or not at all, and never over another: of two programs that start at once one makes the key, both use it.
fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let text = base64::engine::general_purpose::STANDARD.encode(MasterKey::generate().expose());
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            tracing::info!(path = %path.display(), "made a new master key; keep a copy, without it no secret can be opened");
            Ok(())
        }
        Err(e) if e.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e.error),
    }
}

/// Only a warning: mounted secrets often cannot have a stricter mode.
#[cfg(unix)]
fn warn_when_open(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o007 != 0) {
        tracing::warn!(path = %path.display(), "every user of this machine can read the master key");
    }
}

#[cfg(not(unix))]
fn warn_when_open(_: &Path) {}

/// What is sealed to recognise a key by; any text would do.
pub(crate) const PROBE: &str = "gateway";

impl Database {
    /// The first key to be checked becomes the database's own; any other is refused from then on.
    pub async fn check_key(&self, vault: &dyn Vault) -> Result<(), KeyError> {
        let mine = vault.seal(PROBE);
        let mut lease = self.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            session.run("UPDATE meta SET key_check = $1 WHERE key_check = ''", vec![mine.into()]).await?;
            session.fetch_text("SELECT key_check FROM meta", vec![]).await
        };
        let outcome = timeout(self.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
        let sealed = lease.finish(outcome)?;
        match vault.open(&sealed) {
            Ok(opened) if opened.expose() == PROBE => {
                self.remember_mark(sealed);
                Ok(())
            }
            Ok(_) | Err(VaultError::Malformed) => Err(KeyError::Damaged),
            Err(VaultError::WrongKey) => Err(KeyError::WrongKey),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF";

    #[test]
    fn every_way_of_writing_is_the_same_key() {
        let key = MasterKey::from_text(HEX).unwrap();
        assert_eq!(key.expose()[..3], [0, 1, 2]);
        assert_eq!(key.expose()[31], 255);
        for text in [
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8",
            "  AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=\n",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8",
        ] {
            assert_eq!(MasterKey::from_text(text).unwrap().expose(), key.expose(), "{text}");
        }
        let url_safe = MasterKey::from_text("__________________________________________8").unwrap();
        assert_eq!(url_safe.expose(), &[255; 32]);
    }

    #[test]
    fn wrong_lengths_are_told() {
        for (text, got) in [("", 0), ("c2hvcnQ=", 5), (&HEX[..62], 62), ("not base64!", 11)] {
            assert_eq!(MasterKey::from_text(text).unwrap_err(), BadKey { got }, "{text}");
        }
    }

    #[test]
    fn a_missing_file_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| MasterKey::from_file(&path).unwrap())).collect();
            starts.into_iter().map(|s| s.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|k| k.expose() == keys[0].expose()));
        assert_eq!(MasterKey::from_file(&path).unwrap().expose(), keys[0].expose());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside the key");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_may_hold_raw_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("raw.key");
        fs::write(&path, [0xAB; 32]).unwrap();
        assert_eq!(MasterKey::from_file(&path).unwrap().expose(), &[0xAB; 32]);
    }

    #[test]
    fn bad_files_are_told_without_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.key");
        fs::write(&path, "hunter2hunter2").unwrap();
        let told = MasterKey::from_file(&path).unwrap_err().to_string();
        assert!(told.contains("bad.key") && told.contains("32 bytes") && !told.contains("hunter2"), "{told}");
        let folder = MasterKey::from_file(dir.path()).unwrap_err();
        assert!(matches!(folder, KeyError::Unreadable { .. }), "{folder}");
        let nowhere = MasterKey::from_file(&dir.path().join("no/such/key")).unwrap_err();
        assert!(matches!(nowhere, KeyError::Create { .. }), "{nowhere}");
    }

    #[test]
    fn a_key_is_not_printed() {
        let shown = format!("{:?}", MasterKey::from_text(HEX).unwrap());
        assert!(!shown.contains("255") && !shown.contains("31"), "{shown}");
    }
}
