"""Certificates for a server on the local network: an authority of this machine's own, and what it says of the server.

An authority is made once for each network that this machine is in, and kept in a folder that only its owner may open. It can
vouch for addresses of that network and the names of this machine alone, so that whoever steals its key can pose as nothing else
to the phones that trust it. It needs the `cryptography` package.
"""

import ipaddress
import os
import plistlib
import re
import socket
import stat
import sys
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from heterobandits.errors import InvalidInput
from heterobandits.web.networks import NetworkAddress, is_named_host, network_around

AUTHORITY_DAYS = 5 * 365
CERTIFICATE_DAYS = 397  # longer ones phones take for wrong
CERTIFICATE_MIN_DAYS = 200  # that are left at a start: a season of 26 weeks goes by
PHONE_CLOCK_TOLERANCE = timedelta(days=1)  # by which the clocks of phones may be behind
CLOCK_MIN_YEAR = 2025  # before which a clock was never set
DATA_FOLDER_VARIABLE = "XDG_DATA_HOME"


class Authority(NamedTuple):
    """An authority of this machine: its certificate, its key, and the folder of both."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey
    folder: Path
    made_now: bool = False

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its certificate, as phones show it."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(" ").upper()

    @property
    def name(self) -> str:
        """What phones call it."""
        return common_name_of(self.certificate)


class ServerCertificate(NamedTuple):
    """The files of a server's certificate and its key, and who vouches for it."""

    certificate: Path
    key: Path
    authority: Authority


def data_folder() -> Path:
    """Where this user's programs keep what is to stay."""
    stated = os.environ.get(DATA_FOLDER_VARIABLE, "")
    if os.path.isabs(stated):
        return Path(stated)
    try:
        home = Path.home()
    except RuntimeError:
        raise InvalidInput(
            f"this user has no home folder for the server's certificate: set {DATA_FOLDER_VARIABLE} to a folder"
        ) from None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return home / ".local" / "share"


def certificate_for(
    address: NetworkAddress, names: tuple[str, ...], base: Path | None = None
) -> ServerCertificate:
    """A certificate for the server at this address, made anew if there is none that holds for long enough."""
    now = datetime.now(UTC)
    if now.year < CLOCK_MIN_YEAR:
        raise InvalidInput(
            f"this machine's clock says {now:%Y-%m-%d %H:%M}: put it right, or no phone believes the certificate"
        )
    root = (data_folder() if base is None else base) / "heterobandits" / "lan"
    folder = root / re.sub(r"[^\w.-]", "-", str(network_around(address)))
    try:
        make_private_folder(root)
        make_private_folder(folder)
        authority = open_authority(folder, address, names, now)
        certificate, key = folder / "server.pem", folder / "server-key.pem"
        if not is_good_enough(certificate, key, authority, address, names, now):
            made, own = issue_certificate(authority, address, names, now)
            write_private(key, key_bytes(own))  # first: a certificate without its key is made again
            write_private(certificate, made.public_bytes(Encoding.PEM))
    except OSError as error:
        raise InvalidInput(
            f"the server's certificate cannot be kept in {folder}: {error.strerror or error}; "
            f"set {DATA_FOLDER_VARIABLE} to a folder that can be written to"
        ) from None
    return ServerCertificate(certificate, key, authority)


def make_private_folder(folder: Path) -> None:
    """Make a folder that nobody else may open; one that others may, or that is another's, is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise InvalidInput(f"{folder} belongs to somebody else, who could pose as this server")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def open_authority(
    folder: Path, address: NetworkAddress, names: tuple[str, ...], now: datetime
) -> Authority:
    """The authority in this folder, made if there is none; one that is damaged or not ours is refused, not replaced."""
    certificate, key = folder / "authority.pem", folder / "authority-key.pem"
    if not certificate.exists():
        made, own = issue_authority(address, names, now)
        write_private(key, key_bytes(own))
        write_private(certificate, made.public_bytes(Encoding.PEM))
        return Authority(made, own, folder, made_now=True)
    again = f"delete the folder {folder}, start again, and let every phone trust the new one"
    try:
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        own = load_pem_private_key(key.read_bytes(), None)  # type: ignore[assignment]
        check_authority(known, own, address)
    except (ValueError, TypeError, FileNotFoundError, x509.ExtensionNotFound) as error:
        raise InvalidInput(
            f"the certificate authority in {folder} is damaged, or not what --lan makes ({error}): {again}"
        ) from None
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        key.chmod(0o600)
    if now < known.not_valid_before_utc:
        raise InvalidInput(
            f"this machine's clock says {now:%Y-%m-%d}, and its certificate authority was made on "
            f"{known.not_valid_before_utc + PHONE_CLOCK_TOLERANCE:%Y-%m-%d}: put the clock right"
        )
    if now > known.not_valid_after_utc - PHONE_CLOCK_TOLERANCE:
        raise InvalidInput(
            f"the certificate authority in {folder} ended on {known.not_valid_after_utc:%Y-%m-%d}, and this machine's clock says "
            f"{now:%Y-%m-%d}: if that is right, {again}"
        )
    return Authority(known, own, folder)


def check_authority(known: x509.Certificate, own: object, address: NetworkAddress) -> None:
    """Refuse what is no authority for this network and no other."""
    if not isinstance(own, EllipticCurvePrivateKey):
        raise ValueError("its key is of another kind")
    if own.public_key() != known.public_key():
        raise ValueError("its key is not the one of its certificate")
    if not known.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("its certificate is of no authority")
    constraints = known.extensions.get_extension_for_class(x509.NameConstraints).value
    networks = [
        one.value for one in constraints.permitted_subtrees or () if isinstance(one, x509.IPAddress)
    ]
    if networks != [network_around(address)]:
        raise ValueError("it is for other addresses")


def issue_authority(
    address: NetworkAddress, names: tuple[str, ...], now: datetime
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """An authority for this address's network and these names, and nothing else."""
    key = generate_private_key(SECP256R1())
    title = f"heterobandits on {names[0] if names else address}"[:50] + f", {now:%Y-%m-%d}"
    allowed: list[x509.GeneralName] = [
        *map(x509.DNSName, names),
        x509.IPAddress(network_around(address)),
    ]
    # in IPv6 none where IPv4 is allowed, and the other way round: what is not named is not bound
    other = ipaddress.ip_network("::/0" if address.version == 4 else "0.0.0.0/0")
    excluded: list[x509.GeneralName] = [x509.IPAddress(other)]
    if not names:
        excluded.append(x509.DNSName(""))
    made = (
        blank_certificate(title, title, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage_of(sign_certificates=True), critical=True)
        # of mail and of programs it says nothing, whatever name is in a certificate
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.NameConstraints(allowed, excluded), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made, key


def issue_certificate(
    authority: Authority, address: NetworkAddress, names: tuple[str, ...], now: datetime
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """A certificate for the server at this address, with those of these names that the authority may vouch for."""
    key = generate_private_key(SECP256R1())
    said: list[x509.GeneralName] = [
        x509.IPAddress(address),
        *map(x509.DNSName, allowed_names(authority, names)),
    ]
    own = authority.certificate
    days = min(CERTIFICATE_DAYS, (own.not_valid_after_utc - now).days)
    made = (
        blank_certificate("heterobandits", authority.name, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage_of(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(said), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )
    return made, key


def blank_certificate(
    subject: str, issuer: str, key: EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    """A certificate from yesterday on for so many days."""
    begins = (now - PHONE_CLOCK_TOLERANCE).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
    )


def usage_of(*, sign_certificates: bool) -> x509.KeyUsage:
    """What a key is for: to vouch for others, or to sign a handshake."""
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def allowed_names(authority: Authority, names: tuple[str, ...]) -> list[str]:
    """Those of these names that an authority may vouch for."""
    constraints = authority.certificate.extensions.get_extension_for_class(x509.NameConstraints)
    allowed = {
        one.value
        for one in constraints.value.permitted_subtrees or ()
        if isinstance(one, x509.DNSName)
    }
    return [name for name in names if name in allowed]


def is_good_enough(
    certificate: Path,
    key: Path,
    authority: Authority,
    address: NetworkAddress,
    names: tuple[str, ...],
    now: datetime,
) -> bool:
    """Whether a server's certificate is by this authority, for this address and these names, and holds for long enough."""
    with suppress(
        OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound
    ):  # a damaged one is made again
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        known.verify_directly_issued_by(authority.certificate)
        own = load_pem_private_key(key.read_bytes(), None)
        said = known.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        left = min(authority.certificate.not_valid_after_utc, known.not_valid_after_utc) - now
        ends_with_authority = (
            authority.certificate.not_valid_after_utc - known.not_valid_after_utc
        ) < timedelta(days=3)
        return (
            own.public_key() == known.public_key()
            and not stat.S_IMODE(key.stat().st_mode) & 0o077
            and said.get_values_for_type(x509.IPAddress) == [address]
            and said.get_values_for_type(x509.DNSName) == allowed_names(authority, names)
            and known.not_valid_before_utc <= now
            and (left > timedelta(days=CERTIFICATE_MIN_DAYS) or ends_with_authority)
        )
    return False


def key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    """A key as a file has it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read, whole or not at all."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def common_name_of(certificate: x509.Certificate) -> str:
    """The name of whom a certificate is for."""
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def machine_names() -> tuple[str, ...]:
    """The name by which phones may know this machine. Never the bare one: whoever may vouch for `dev` may for all that ends in it."""
    name = socket.gethostname().lower().partition(".")[0]
    return (f"{name}.local",) if is_named_host(name) else ()


def render_profile(authority: Authority) -> bytes:
    """An authority's certificate as iPhones install it."""
    fingerprint = authority.certificate.fingerprint(hashes.SHA256())
    identity = [str(uuid.UUID(bytes=fingerprint[start : start + 16])) for start in (0, 16)]
    payload = {
        "PayloadType": "com.apple.security.root",
        "PayloadVersion": 1,
        "PayloadIdentifier": f"heterobandits.lan.{identity[0]}",
        "PayloadUUID": identity[0],
        "PayloadDisplayName": authority.name,
        "PayloadContent": authority.certificate.public_bytes(Encoding.DER),
    }
    return plistlib.dumps(
        {
            "PayloadType": "Configuration",
            "PayloadVersion": 1,
            "PayloadIdentifier": f"heterobandits.lan.{identity[1]}",
            "PayloadUUID": identity[1],
            "PayloadDisplayName": authority.name,
            "PayloadDescription": "Lets this phone trust the server of campaigns in your office, and nothing else.",
            "PayloadContent": [payload],
        }
    )
