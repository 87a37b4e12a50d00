//! A key that the gateway signs its own tokens with: ECDSA on P-256 (RFC 7518, 3.4). Every node has it. Knows no
//! signature.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Stored with the organisation of the first start, for the whole installation. Its id is the name that tokens have for
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKey {
    /// Coordinates of the public key as a JSON Web Key has them (RFC 7518, 6.2.1).
    pub x: String,
    pub y: String,
    /// PKCS #8 in base64, sealed.
    pub private: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
