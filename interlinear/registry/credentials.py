"""Masks passwords, tokens and keys in messages."""

import os
import re
from urllib.parse import unquote, urlsplit

MASK = "***"
# Variables with secret values for access to MLflow, S3 and PostgreSQL.
VARIABLES = (
    "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PGPASSWORD",
)  # fmt: skip
_SHORTEST = 4  # characters; shorter secrets are not masked literally, since they occur in other words

_PATTERNS = (
    (re.compile(r"(?<=://)[^\s/?#'\"<>]*@"), f"{MASK}@"),  # user and password, or a token, of an address
    (
        re.compile(
            r"(?i)\b(password|passwd|pwd|(?:[a-z]+[_-])?token|secret|(?:secret|access|api|account)[_-]?key"
            r"|x-amz-(?:signature|credential|security-token)|signature|sig)=[^\s&;,'\"]+"
        ),
        rf"\1={MASK}",
    ),
    (re.compile(r"(?i)(['\"](?:password|passwd|token|secret|api_key)['\"]\s*:\s*['\"])[^'\"]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:bearer|basic))\s+[^\s'\",]+"), rf"\1 {MASK}"),
    # a key of the service (service/auth/key_store.py)
    (
        re.compile(r"\bil_[0-9a-f]{12}_[A-Za-z0-9_-]{43}"),
        f"il_{MASK}",
    ),
)


def mask_credentials(text: str, address: str = "") -> str:
    """The text with every credential masked: in addresses, parameters and headers, and wherever the secret values of
    the environment or of `address` occur."""
    for secret in _secrets(address):
        text = text.replace(secret, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _secrets(address: str) -> list[str]:
    known = [os.environ.get(name, "") for name in VARIABLES]
    for uri in (address, os.environ.get("MLFLOW_TRACKING_URI", "")):
        if "://" in uri and "@" in uri:
            try:
                password = urlsplit(uri).password or ""
            except ValueError:
                continue
            known += [password, unquote(password)]
    return sorted({secret for secret in known if len(secret) >= _SHORTEST}, key=len, reverse=True)
