//! Certificates for servers of tests, made by `openssl`.

use crate::program::finish;
use std::path::Path;
use std::process::Command;

/// Leaves `server.pem` and `server.key` for `localhost` and no other name, the authority that signed them as `ca.pem`,
/// and one that did not as `other.pem`.
pub(crate) fn certify(dir: &Path) {
    let openssl = |line: &str| finish(Command::new("openssl").args(line.split(' ')).current_dir(dir), "openssl");
    for ca in ["ca", "other"] {
        let made = format!("-nodes -keyout {ca}.key -out {ca}.pem -days 2 -subj /CN={ca}");
        openssl(&format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 {made}"));
    }
    std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost\n")
        .unwrap_or_else(|e| panic!("cannot write names: {e}"));
    let made = "-nodes -keyout server.key -out server.csr -subj /CN=localhost";
    openssl(&format!("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 {made}"));
    openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem");
}
