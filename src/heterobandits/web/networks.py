"""Under which address others on the local network reach this machine. No packet leaves it to find out."""

import ipaddress
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NetworkAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# addresses for documentation, which nobody has: the system says from where it would send to them
ELSEWHERE = ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1"))
# interfaces of machines within this one, and of tunnels: no phone in the office is there
VIRTUAL_INTERFACES = re.compile(r"(docker|veth|br-|virbr|vmnet|vbox|tun|tap|utun|wg|tailscale|zt)")
NETWORK_BITS = {4: 24, 6: 64}  # of an address that its network has in common, at the most
HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
INTERFACE_ADDRESS_REQUEST = 0x8915  # SIOCGIFADDR of Linux


class LocalAddress(NamedTuple):
    """An address of this machine, on which interface, and whether it is the one for everywhere else."""

    address: NetworkAddress
    interface: str = ""
    outward: bool = False


def network_around(address: NetworkAddress) -> Network:
    """The network that an address is in, as small as offices have them."""
    return ipaddress.ip_network((address, NETWORK_BITS[address.version]), strict=False)


def lan_address() -> NetworkAddress | None:
    """The address at which others on the local network reach this machine, most likely; None without a network."""
    found = sorted(local_addresses(), key=unlikeliness_of)
    return found[0].address if found else None


def unlikeliness_of(one: LocalAddress) -> tuple[bool, bool, bool, int]:
    """Those of real interfaces first, then the one for everywhere else, then private ones, then those of version 4."""
    virtual = VIRTUAL_INTERFACES.match(one.interface) is not None
    return virtual, not one.outward, not one.address.is_private, one.address.version


def local_addresses() -> list[LocalAddress]:
    """The addresses of this machine that others could reach."""
    interfaces = dict(interface_addresses())
    outward = outward_addresses()
    found = {**interfaces, **{address: interfaces.get(address, "") for address in outward}}
    if not found:
        found = dict.fromkeys(named_addresses(), "")
    return [
        LocalAddress(address, interface, address in outward)
        for address, interface in found.items()
        if is_reachable(address)
    ]


def is_reachable(address: NetworkAddress) -> bool:
    """Whether another machine could reach an address that is not valid on one line alone."""
    return not (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
    )


def outward_addresses() -> list[NetworkAddress]:
    """From where this machine would send elsewhere; connecting such a socket sends nothing."""
    found = []
    for family, place in ELSEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as line:
            line.connect((place, 9))
            found.append(parse_address(line.getsockname()[0]))
    return found


def interface_addresses() -> list[tuple[NetworkAddress, str]]:
    """The addresses of each interface, where the system is Linux: also those that lead nowhere else."""
    found: list[tuple[NetworkAddress, str]] = []
    with suppress(ImportError, OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        import fcntl

        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                asked = struct.pack("256s", name.encode()[:15])
                told = fcntl.ioctl(line.fileno(), INTERFACE_ADDRESS_REQUEST, asked)
                found.append((ipaddress.IPv4Address(told[20:24]), name))
    with suppress(OSError):
        for row in Path("/proc/net/if_inet6").read_text("ascii").splitlines():
            digits, *_, name = row.split()
            found.append((ipaddress.IPv6Address(bytes.fromhex(digits)), name))
    return found


def named_addresses() -> list[NetworkAddress]:
    """The addresses that this machine's own name has."""
    found = []
    with suppress(OSError, UnicodeError):
        for *_, place in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            found.append(parse_address(str(place[0])))
    return found


def parse_address(text: str) -> NetworkAddress:
    """An address without the interface that may stand behind it."""
    return ipaddress.ip_address(text.partition("%")[0])


def is_named_host(name: str) -> bool:
    """Whether others could use a name for this machine: localhost is everybody's own.

    >>> is_named_host("desk-3"), is_named_host("localhost"), is_named_host("it's mine")
    (True, False, False)
    """
    return HOST_NAME.fullmatch(name) is not None and name != "localhost"
