# SPDX-License-Identifier: Apache-2.0
"""The files that say who may do what: static tokens and JSON web tokens with their keys, made by openssl."""
import base64
import hashlib
import json
import pathlib
import subprocess
import time

ISSUER, AUDIENCE = "https://issuer.example", "distlock"


def static_token(name):
    """(the token, its line of a token file)."""
    token = "dlt_" + base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode()
    return token, f"{name}:{hashlib.sha256(token.encode()).hexdigest()}\n"


def _b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs JSON web tokens with a key of its own."""

    def __init__(self, folder, kid="k1"):
        self.kid, self.key = kid, pathlib.Path(folder) / f"{kid}.pem"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        shown = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True,
                               capture_output=True, text=True).stdout
        self.modulus = bytes.fromhex(shown.strip().split("=")[1])

    def jwks(self):
        return json.dumps({"keys": [{"kty": "RSA", "kid": self.kid, "use": "sig", "n": _b64(self.modulus),
                                     "e": "AQAB"}]})

    def bearer(self, subject, **claims):
        return f"Bearer {self.token(subject, **claims)}"

    def token(self, subject, **claims):
        header = {"alg": "RS256", "kid": self.kid}
        body = {"iss": ISSUER, "aud": [AUDIENCE], "exp": int(time.time()) + 600, "sub": subject, **claims}
        signed = ".".join(_b64(json.dumps(part).encode()) for part in (header, body))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed.encode(),
                                   check=True, capture_output=True).stdout
        return f"{signed}.{_b64(signature)}"


def service_account(namespace, name):
    return f"system:serviceaccount:{namespace}:{name}"


def jwt_options(folder):
    """Options of a broker that takes JSON web tokens of one key."""
    keys = folder / "jwks.json"
    keys.write_text(Issuer(folder).jwks(), encoding="utf-8")
    return ["--jwt-keys", keys, "--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE]


def wrongly_signed(folder):
    """A JSON web token that names that key, and is signed by another."""
    stranger = Issuer(folder, "stranger")
    stranger.kid = "k1"
    return stranger.token(service_account("shop", "worker"))
