#!/usr/bin/env python3
"""Signs the tokens that the tests of the check `jwt` read, with keys made for it; openssl does the work.

The tests' clock stands at 2026-11-22T01:15:36Z. Run it again to add a token: guardrails/tests/jwt/tokens.py
"""
import base64, hashlib, hmac, json, pathlib, subprocess, tempfile

HERE = pathlib.Path(__file__).parent
NOW = 1_795_310_136


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def key(folder, name):
    path = folder / name
    subprocess.run(["openssl", "genrsa", "-out", path, "2048"], check=True, capture_output=True)
    text = subprocess.run(["openssl", "rsa", "-in", path, "-noout", "-modulus"], check=True, capture_output=True, text=True)
    return path, bytes.fromhex(text.stdout.strip().split("=")[1])


def sign(path, text):
    done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", path], input=text.encode(), check=True, capture_output=True)
    return b64(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        first, modulus = key(pathlib.Path(folder), "first")
        other, _ = key(pathlib.Path(folder), "other")
        claims = {"sub": "ann", "scope": "read write", "iat": NOW - 60, "exp": NOW + 600}

        def token(head=None, changes=None, path=first, drop=()):
            head = {"alg": "RS256", "typ": "JWT", "kid": "k1", **(head or {})}
            body = {k: v for k, v in {**claims, **(changes or {})}.items() if k not in drop}
            head = {k: v for k, v in head.items() if v is not None}
            text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(body).encode())}"
            return text, f"{text}.{sign(path, text)}"

        public = subprocess.run(["openssl", "rsa", "-in", first, "-pubout"], check=True, capture_output=True).stdout
        confused = token({"alg": "HS256"})[0]
        good = token()[1]
        parts = good.split(".")
        tokens = {
            "good": good,
            "expired": token(changes={"exp": NOW - 10})[1],
            "not_yet": token(changes={"nbf": NOW + 600})[1],
            "without_iat": token(drop=("iat",))[1],
            "old": token(changes={"iat": NOW - 90_000})[1],
            "other_key": token(path=other)[1],
            "without_kid": token({"kid": None})[1],
            "unknown_kid": token({"kid": "k9"})[1],
            "hs256_by_public_key": f"{confused}.{b64(hmac.new(public, confused.encode(), hashlib.sha256).digest())}",
            "none": token({"alg": "none"})[0] + ".",
            "tampered": f"{parts[0]}.{b64(json.dumps({**claims, 'sub': 'eve'}).encode())}.{parts[2]}",
        }
        keys = {"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": b64(modulus), "e": "AQAB"}]}
        (HERE / "tokens.json").write_text(json.dumps(tokens, indent=1) + "\n")
        (HERE / "keys.json").write_text(json.dumps(keys, indent=1) + "\n")


if __name__ == "__main__":
    main()
