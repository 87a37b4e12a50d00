//! Secrets of the machine itself, as far as its operator opened it: variables of the environment under a prefix, files
//! below a folder.

use super::{SecretReader, Unread};
use gateway_domain::secret_source::LONGEST_SECRET;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt as _;

pub(super) fn variable(reader: &SecretReader, name: &str) -> Result<String, Unread> {
    (reader.places.variable)(name).ok_or_else(|| Unread::new("is not in the environment of this gateway"))
}

pub(super) async fn file(reader: &SecretReader, path: &str) -> Result<String, Unread> {
    let cannot = |e: std::io::Error| Unread(format!("cannot be read: {}", e.kind()));
    let folder = reader.openings.folder.clone().ok_or_else(|| Unread::new("is in no folder that is open"))?;
    let path = path.to_owned();
    let found = tokio::task::spawn_blocking(move || inside(&folder, &path)).await;
    let found = found.map_err(|_| Unread::new("cannot be read"))?.map_err(cannot)?;
    let found = found.ok_or_else(|| Unread::new("is no plain file below the folder that is open"))?;
    let mut text = String::new();
    let file = tokio::fs::File::open(found).await.map_err(cannot)?;
    file.take(LONGEST_SECRET as u64 + 1).read_to_string(&mut text).await.map_err(cannot)?;
    Ok(text)
}

/// Links are followed, as clusters mount secrets by them, but not out of the folder; a pipe would never end.
fn inside(folder: &Path, path: &str) -> std::io::Result<Option<PathBuf>> {
    let folder = folder.canonicalize()?;
    let found = folder.join(path).canonicalize()?;
    Ok((found.starts_with(&folder) && found.metadata()?.is_file()).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::inside;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_of_the_folder_is_a_secret() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("open");
        std::fs::create_dir_all(folder.join("..data")).expect("made");
        std::fs::write(place.path().join("shut"), "s").expect("written");
        std::fs::write(folder.join("..data/key"), "k").expect("written");
        symlink("..data/key", folder.join("key")).expect("linked");
        symlink("../shut", folder.join("out")).expect("linked");
        assert!(inside(&folder, "key").expect("found").is_some());
        for shut in ["out", "../shut", "..data", "/etc/hostname"] {
            assert!(!matches!(inside(&folder, shut), Ok(Some(_))), "{shut}");
        }
        assert!(inside(&folder, "gone").is_err());
    }
}
