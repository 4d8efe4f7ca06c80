"""The authority of a machine and its server's certificate: what they vouch for, how long, who may read them, and when they are made anew."""

import ipaddress
import plistlib
import shutil
import ssl
import stat
import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from heterobandits.errors import InvalidInput
from heterobandits.web.certificates import (
    certificate_for,
    data_folder,
    issue_authority,
    issue_certificate,
    key_bytes,
    render_profile,
)
from heterobandits.web.networks import (
    LocalAddress,
    lan_address,
    local_addresses,
    network_around,
    parse_address,
    unlikeliness_of,
)

HERE = parse_address("192.168.7.20")
NAMES = ("desk.local",)


@pytest.fixture
def made(tmp_path):
    return certificate_for(HERE, NAMES, tmp_path)


def handshake(certificate, key, authority, name):
    """Whether a client that trusts this authority alone believes that it talks to this name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=authority)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].cipher() is not None


def forged(made, tmp_path, address, *names):
    """Files of a certificate that whoever has stolen the authority's key could make."""
    key = generate_private_key(SECP256R1())
    own = made.authority.certificate
    said = [x509.IPAddress(address)] if address else []
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(own.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([*said, *map(x509.DNSName, names)]), True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()), False
        )  # which Python 3.13 asks for
        .sign(made.authority.key, own.signature_hash_algorithm)
    )
    (tmp_path / "forged.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (tmp_path / "forged-key.pem").write_bytes(key_bytes(key))
    return tmp_path / "forged.pem", tmp_path / "forged-key.pem"


class TestTrust:
    """What somebody believes who trusts the authority."""

    def trusted(self, made):
        return made.authority.folder / "authority.pem"

    @pytest.mark.parametrize("name", [str(HERE), "desk.local"])
    def test_the_server_at_its_address_and_by_its_name(self, made, name):
        assert handshake(made.certificate, made.key, self.trusted(made), name)

    @pytest.mark.parametrize("name", ["192.168.7.21", "other.local", "desk"])
    def test_not_by_any_other(self, made, name):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            handshake(made.certificate, made.key, self.trusted(made), name)

    @pytest.mark.parametrize(
        ("address", "names", "asked"),
        [
            (None, ["bank.example"], "bank.example"),
            (None, ["local"], "local"),
            (None, ["desk"], "desk"),
            (parse_address("8.8.8.8"), [], "8.8.8.8"),
            (parse_address("192.168.8.20"), [], "192.168.8.20"),
            (parse_address("fd00::2"), [], "fd00::2"),
            (HERE, ["bank.example"], str(HERE)),
        ],
    )
    def test_a_stolen_key_can_forge_no_other_site(self, made, tmp_path, address, names, asked):
        files = forged(made, tmp_path, address, *names)
        with pytest.raises(ssl.SSLCertVerificationError, match="subtree violation"):
            handshake(*files, self.trusted(made), asked)

    def test_nor_make_another_authority(self, made):
        known = made.authority.certificate.extensions
        found = known.get_extension_for_class(x509.BasicConstraints)
        assert found.critical
        assert found.value == x509.BasicConstraints(ca=True, path_length=0)

    def test_a_machine_of_ipv6_alone(self, tmp_path):
        here = parse_address("fd12:3456::5")
        made = certificate_for(here, (), tmp_path)
        assert handshake(made.certificate, made.key, self.trusted(made), str(here))
        for address, names, asked in (
            (parse_address("fd12:3456:0:1::5"), (), "fd12:3456:0:1::5"),
            (parse_address("10.0.0.1"), (), "10.0.0.1"),
            (None, ("bank.example",), "bank.example"),
        ):
            files = forged(made, tmp_path, address, *names)
            with pytest.raises(ssl.SSLCertVerificationError, match="subtree violation"):
                handshake(*files, self.trusted(made), asked)

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
    def test_it_is_strictly_what_the_standard_wants(self, made):
        done = subprocess.run(
            ["openssl", "verify", "-x509_strict", "-CAfile", self.trusted(made), made.certificate],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
    def test_it_vouches_for_servers_and_not_for_mail(self, made):
        for purpose, code in (("sslserver", 0), ("smimesign", 2)):
            command = ["openssl", "verify", "-purpose", purpose, "-CAfile", self.trusted(made)]
            done = subprocess.run([*command, made.certificate], capture_output=True, check=False)
            assert done.returncode == code, done.stderr
        authority = x509.load_pem_x509_certificate(self.trusted(made).read_bytes())
        used = authority.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(used) == [ExtendedKeyUsageOID.SERVER_AUTH]

    def test_a_profile_for_iphones_has_the_certificate(self, made):
        profile = plistlib.loads(render_profile(made.authority))
        (payload,) = profile["PayloadContent"]
        assert payload["PayloadType"] == "com.apple.security.root"
        certificate = x509.load_der_x509_certificate(payload["PayloadContent"])
        assert certificate == made.authority.certificate
        assert plistlib.loads(render_profile(made.authority)) == profile


class TestFiles:
    """What is kept, for how long it holds, and what happens when something of it is wrong."""

    def test_nobody_else_can_read_them(self, made, tmp_path):
        for path in (tmp_path / "heterobandits/lan").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        made.key.chmod(0o644)
        made.authority.folder.chmod(0o755)
        (made.authority.folder / "authority-key.pem").chmod(0o640)
        certificate_for(HERE, NAMES, tmp_path)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in made.authority.folder.iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE(made.authority.folder.stat().st_mode) == 0o700

    def test_how_long_they_hold(self, made):
        now = datetime.now(UTC)
        own = x509.load_pem_x509_certificate(made.certificate.read_bytes())
        assert own.not_valid_after_utc - own.not_valid_before_utc <= timedelta(days=397)
        assert own.not_valid_after_utc - now > timedelta(days=390)
        left = made.authority.certificate.not_valid_after_utc - now
        assert timedelta(days=5 * 365 - 2) < left < timedelta(days=5 * 366)

    def test_another_start_changes_nothing(self, made, tmp_path):
        before = made.certificate.read_bytes(), made.key.read_bytes()
        again = certificate_for(HERE, NAMES, tmp_path)
        assert (again.certificate.read_bytes(), again.key.read_bytes()) == before
        assert (made.authority.made_now, again.authority.made_now) == (True, False)

    @pytest.mark.parametrize(
        ("address", "names"),
        [(parse_address("192.168.7.99"), NAMES), (HERE, ()), (HERE, ("renamed.local",))],
    )
    def test_another_address_or_name_has_another_certificate_by_the_same_authority(
        self, made, tmp_path, address, names
    ):
        again = certificate_for(address, names, tmp_path)
        assert again.authority.fingerprint == made.authority.fingerprint
        trusted = again.authority.folder / "authority.pem"
        assert handshake(again.certificate, again.key, trusted, str(address))

    def test_another_network_has_an_authority_of_its_own_and_the_first_is_kept(
        self, made, tmp_path
    ):
        away = certificate_for(parse_address("10.1.2.3"), NAMES, tmp_path)
        assert away.authority.fingerprint != made.authority.fingerprint
        back = certificate_for(HERE, NAMES, tmp_path)
        assert back.authority.fingerprint == made.authority.fingerprint

    def test_one_that_ends_within_the_season_is_made_again(self, made, tmp_path):
        then = datetime.now(UTC) - timedelta(days=397 - 150)
        old, key = issue_certificate(made.authority, HERE, NAMES, then)
        made.certificate.write_bytes(old.public_bytes(Encoding.PEM))
        made.key.write_bytes(key_bytes(key))
        made.key.chmod(0o600)
        again = certificate_for(HERE, NAMES, tmp_path)
        new = x509.load_pem_x509_certificate(again.certificate.read_bytes())
        assert new.not_valid_after_utc > old.not_valid_after_utc

    @pytest.mark.parametrize("what", ["server.pem", "server-key.pem"])
    @pytest.mark.parametrize("content", [b"", b"rubbish", None])
    def test_a_damaged_one_is_made_again(self, made, tmp_path, what, content):
        path = made.authority.folder / what
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        again = certificate_for(HERE, NAMES, tmp_path)
        trusted = again.authority.folder / "authority.pem"
        assert handshake(again.certificate, again.key, trusted, str(HERE))

    @pytest.mark.parametrize("what", ["authority.pem", "authority-key.pem"])
    def test_an_authority_that_is_damaged_is_not_replaced_unasked(self, made, tmp_path, what):
        path = made.authority.folder / what
        path.write_bytes(b"rubbish")
        with pytest.raises(InvalidInput, match=r"is damaged.*delete the folder"):
            certificate_for(HERE, NAMES, tmp_path)
        assert path.read_bytes() == b"rubbish"

    def test_nor_is_another_one_taken_for_ours(self, made, tmp_path):
        folder = made.authority.folder
        other, key = issue_authority(parse_address("10.0.0.1"), NAMES, datetime.now(UTC))
        (folder / "authority.pem").write_bytes(other.public_bytes(Encoding.PEM))
        with pytest.raises(InvalidInput, match="key is not the one"):
            certificate_for(HERE, NAMES, tmp_path)
        (folder / "authority-key.pem").write_bytes(key_bytes(key))
        with pytest.raises(InvalidInput, match="for other addresses"):
            certificate_for(HERE, NAMES, tmp_path)
        shutil.copy(made.certificate, folder / "authority.pem")
        shutil.copy(made.key, folder / "authority-key.pem")
        with pytest.raises(InvalidInput, match="of no authority"):
            certificate_for(HERE, NAMES, tmp_path)

    @pytest.mark.parametrize(
        ("days", "said"),
        [(-6 * 365, "ended on.*if that is right, delete"), (30, "put the clock right")],
    )
    def test_one_that_has_ended_or_has_not_begun(self, made, tmp_path, days, said):
        then = datetime.now(UTC) + timedelta(days=days)
        other, key = issue_authority(HERE, NAMES, then)
        (made.authority.folder / "authority.pem").write_bytes(other.public_bytes(Encoding.PEM))
        (made.authority.folder / "authority-key.pem").write_bytes(key_bytes(key))
        with pytest.raises(InvalidInput, match=said):
            certificate_for(HERE, NAMES, tmp_path)

    def test_nowhere_to_keep_them(self, tmp_path):
        (tmp_path / "heterobandits").write_text("a file where a folder should be")
        with pytest.raises(InvalidInput, match=r"cannot be kept in .*XDG_DATA_HOME"):
            certificate_for(HERE, NAMES, tmp_path)

    def test_where_they_are(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr("sys.platform", "linux")
        for stated in ("", "a/relative/path"):
            monkeypatch.setenv("XDG_DATA_HOME", stated)
            assert data_folder() == tmp_path / ".local/share"
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "x"))
        assert data_folder() == tmp_path / "x"
        monkeypatch.delenv("XDG_DATA_HOME")
        monkeypatch.setattr("sys.platform", "darwin")
        assert data_folder() == tmp_path / "Library/Application Support"


class TestNetworks:
    """Which address is the one that phones reach."""

    def test_networks_are_small(self):
        assert network_around(HERE) == ipaddress.ip_network("192.168.7.0/24")
        assert network_around(parse_address("fd00::1:2:3%eth0")) == ipaddress.ip_network(
            "fd00::/64"
        )

    def test_the_likeliest_comes_first(self):
        def one(address, interface="", outward=False):
            return LocalAddress(parse_address(address), interface, outward)

        row = [
            one("192.168.1.5", "wlan0", True),
            one("fd00::5", "wlan0", True),
            one("10.0.0.4", "eth0"),
            one("203.0.114.9", "eth1"),
            one("10.8.0.2", "tun0", True),
            one("172.17.0.1", "docker0"),
        ]
        for turned in (row, row[::-1], row[3:] + row[:3]):
            assert sorted(turned, key=unlikeliness_of) == row

    def test_this_machine(self):
        found = [one.address for one in local_addresses()]
        assert not any(address.is_loopback or address.is_link_local for address in found)
        assert lan_address() == (
            min(local_addresses(), key=unlikeliness_of).address if found else None
        )
