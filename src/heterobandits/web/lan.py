"""A server for phones on the local network: where it listens, with which certificate, and what its owner is told."""

import socket
from typing import NamedTuple

from heterobandits.errors import InvalidInput
from heterobandits.web.certificates import ServerCertificate, certificate_for, machine_names
from heterobandits.web.networks import NetworkAddress, lan_address, parse_address
from heterobandits.web.pages.qr import render_terminal_qr

EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for all there are


class LanServer(NamedTuple):
    """The address that others know a server by, the one that it listens at, and its certificate."""

    address: NetworkAddress
    host: str
    certificate: ServerCertificate


def prepare_lan(host: str | None) -> LanServer:
    """Find this machine's address on the local network, unless one is stated, and have a certificate for it."""
    address = lan_address() if host is None or host in EVERYWHERE else address_of_host(host)
    if address is None:
        raise InvalidInput(
            "this machine is in no network that phones could share: join the Wi-Fi, or name an address of this machine with --host"
        )
    return LanServer(address, host or str(address), certificate_for(address, machine_names()))


def address_of_host(host: str) -> NetworkAddress:
    """The address that is meant by what was stated."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return parse_address(str(found[0][4][0]))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"--host is {host!r}, which is no address of this machine: {why}"
        ) from None


def render_trust_notice(lan: LanServer, page: str, *, coloured: bool) -> str:
    """What the owner has to know of a server with a certificate of its own."""
    authority = lan.certificate.authority
    made = "A certificate was made for it. " if authority.made_now else ""
    public = (
        ""
        if lan.address.is_private
        else f"\n{lan.address} is no private address: whoever can reach it from elsewhere may try its links, too."
    )
    return f"""
{made}Each phone has to trust this server once, and this computer's browser too. Open {page} there:

{render_terminal_qr(page, coloured=coloured)}

Compare its fingerprint (SHA-256) with what the phone shows:
  {authority.fingerprint[:47]}
  {authority.fingerprint[48:]}
Nobody else on the Wi-Fi can read along. Whoever gets the folder {authority.folder} can pose as this server, and as
nothing outside its network. Install the certificate on phones of your team alone; the page says how to remove it.{public}
"""
