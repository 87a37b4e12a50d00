//! Programs that MCP integrations may name: of the settings file alone, since whoever names a command runs it. No flag
//! and no variable says any, and nothing shows what they are given.

use crate::upstream::{ProgramSpec, ProgramUser};
use gateway_domain::Secret;
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::{BTreeMap, BTreeSet};

const MOST: usize = 100;
const LONGEST_NAME: usize = 64;

/// The table `mcp` of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpFile {
    stdio: Vec<StdioProgram>,
}

/// One `[[mcp.stdio]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StdioProgram {
    name: String,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default, deserialize_with = "hidden")]
    env: BTreeMap<String, Secret<String>>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    shared: bool,
}

fn hidden<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, Secret<String>>, D::Error> {
    let told = BTreeMap::<String, String>::deserialize(d)?;
    Ok(told.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
}

impl McpFile {
    pub(super) fn check(&self) -> Result<(), String> {
        self.specs().map(|_| ())
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.stdio.iter().map(|program| program.name.clone()).collect()
    }

    /// The programs by name, each checked and ready to be started.
    pub(crate) fn specs(&self) -> Result<BTreeMap<String, ProgramSpec>, String> {
        if self.stdio.len() > MOST {
            return Err(format!("the settings file has more than {MOST} [[mcp.stdio]]"));
        }
        let mut specs = BTreeMap::new();
        for program in &self.stdio {
            let wrong = |why: String| format!("[[mcp.stdio]] `{}`: {why}", program.name);
            let spec = program.spec().map_err(wrong)?;
            if specs.insert(program.name.clone(), spec).is_some() {
                return Err(wrong("the name stands twice".to_owned()));
            }
        }
        Ok(specs)
    }
}

impl StdioProgram {
    fn spec(&self) -> Result<ProgramSpec, String> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if self.name.is_empty() || self.name.len() > LONGEST_NAME || !self.name.bytes().all(is_plain) {
            return Err(format!("name must be 1 to {LONGEST_NAME} letters, digits, `-` and `_`"));
        }
        if self.command.trim().is_empty() {
            return Err("command must name a program".to_owned());
        }
        let texts = self.args.iter().chain([&self.command]).map(String::as_str);
        if texts.chain(self.env.values().map(|value| value.expose().as_str())).any(|text| text.contains('\0')) {
            return Err("command, args and env must not hold a NUL".to_owned());
        }
        if self.env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err("env has a name that is none".to_owned());
        }
        let user = self.user.as_deref().map(user).transpose()?;
        let (command, args, env) = (self.command.clone(), self.args.clone(), self.env.clone());
        Ok(ProgramSpec { command, args, env, user, shared: self.shared })
    }
}

/// Whoever is named, where the gateway may run something as them.
fn user(name: &str) -> Result<ProgramUser, String> {
    let all = std::fs::read_to_string("/etc/passwd").map_err(|e| format!("user: /etc/passwd cannot be read: {e}"))?;
    let user = find_user(&all, name).ok_or_else(|| format!("user `{name}` is none of this machine"))?;
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && own != user.uid {
        return Err(format!("user `{name}`: only root may run a program as somebody else"));
    }
    Ok(user)
}

/// Finds a user by name or number in the text of `/etc/passwd`.
fn find_user(passwd: &str, name: &str) -> Option<ProgramUser> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (called, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
        let user = ProgramUser { uid: uid.parse().ok()?, gid: gid.parse().ok()? };
        (called == name || uid == name).then_some(user)
    })
}

/// Where programs that are named without a folder are looked for.
pub(crate) fn program_path() -> Option<String> {
    super::aws::variable("PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<McpFile, String> {
        #[derive(Deserialize)]
        struct Settings {
            mcp: McpFile,
        }
        toml::from_str::<Settings>(text).map(|settings| settings.mcp).map_err(|e| e.to_string())
    }

    fn specs(text: &str) -> Result<BTreeMap<String, ProgramSpec>, String> {
        read(text).and_then(|file| file.specs())
    }

    #[test]
    fn programs_are_read_and_their_secrets_are_not_shown() {
        let text = "[[mcp.stdio]]\nname = \"files\"\ncommand = \"/bin/cat\"\nargs = [\"-u\"]\nshared = true\n\
                    env = { TOKEN = \"canary-1\" }";
        let file = read(text).expect("a file");
        assert!(!format!("{file:?}").contains("canary-1"), "{file:?}");
        let specs = file.specs().expect("specs");
        let spec = &specs["files"];
        assert!(spec.shared && spec.user.is_none() && spec.args == ["-u"]);
        assert_eq!(spec.env["TOKEN"].expose(), "canary-1");
        assert!(!format!("{spec:?}").contains("canary-1"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let one = |more: &str| format!("[[mcp.stdio]]\nname = \"a\"\ncommand = \"/bin/cat\"\n{more}\n");
        for (text, why) in [
            (one("shell = true"), "shell"),
            (one("").replace("\"a\"", "\"a b\""), "name must be"),
            (one("").replace("/bin/cat", " "), "command must name"),
            (one("args = [\"a\\u0000\"]"), "NUL"),
            (one("env = { \"A=B\" = \"x\" }"), "env has a name"),
            (one("user = \"nobody-there\""), "is none of this machine"),
            (one("") + &one(""), "stands twice"),
            ((0..=MOST).map(|n| one("").replace("\"a\"", &format!("\"a{n}\""))).collect(), "more than 100"),
        ] {
            let told = specs(&text).expect_err(why);
            assert!(told.contains(why), "{why}: {told}");
        }
    }

    #[test]
    fn people_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\nbroken\n";
        for name in ["nobody", "65534"] {
            let user = find_user(passwd, name).expect("somebody");
            assert_eq!((user.uid, user.gid), (65_534, 65_533));
        }
        assert!(find_user(passwd, "x").is_none());
    }
}
