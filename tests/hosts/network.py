"""Hosts on one machine: network namespaces with an address and a host name each, on one cable each to a bridge.

The bridge is in the namespace of the store. Nothing is added to the machine's own network, so no address of it can
clash, and a host's cable is pulled and put back at the bridge, as one would do it in a cupboard.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

SUBNET: Final = "10.0.0."
STORE_ADDRESS: Final = f"{SUBNET}1"


class NoNamespaces(Exception):
    """Namespaces cannot be made here; the text says what is missing."""


@dataclass(frozen=True)
class Host:
    """One host. ``name`` is its host name, ``space`` its namespace, ``port`` its socket at the bridge."""

    number: int
    name: str
    space: str

    @property
    def port(self) -> str:
        return f"port{self.number}"

    @property
    def address(self) -> str:
        return f"{SUBNET}{10 + self.number}"

    def command(self, *words: str) -> list[str]:
        """A command as it is run on this host."""
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]
        return ["ip", "netns", "exec", self.space, *named, *words]


@dataclass(frozen=True)
class Network:
    """Hosts around a store."""

    store_space: str
    hosts: tuple[Host, ...]

    def in_store(self, *words: str) -> list[str]:
        """A command as it is run where the store is."""
        return ["ip", "netns", "exec", self.store_space, *words]

    @property
    def spaces(self) -> list[str]:
        return [self.store_space, *(host.space for host in self.hosts)]


def missing() -> str | None:
    """What is missing for namespaces, or None. A namespace is made to find out."""
    for tool in ("ip", "unshare", "hostname"):
        if shutil.which(tool) is None:
            return f"the command {tool} is not installed (Debian: iproute2, util-linux, hostname)"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    name = f"wf-{secrets.token_hex(3)}"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "probe", "type", "bridge")
            _run("ip", "netns", "exec", name, "unshare", "--uts", "hostname", "probe")
        finally:
            _ip("netns", "delete", name)
    except NoNamespaces as fault:
        return str(fault)
    return None


@contextmanager
def network(count: int) -> Iterator[Network]:
    """So many hosts, and a store. Everything is removed at the end, whatever happened, with what still runs there."""
    tag = secrets.token_hex(3)
    hosts = tuple(Host(number, f"wf-h{number}", f"wf-{tag}-h{number}") for number in range(1, count + 1))
    made = Network(f"wf-{tag}-store", hosts)
    try:
        _lay(made)
        yield made
    finally:
        for space in made.spaces:
            _remove(space)


def _lay(made: Network) -> None:
    store = made.store_space
    _ip("netns", "add", store)
    _ip("-n", store, "link", "set", "lo", "up")
    _ip("-n", store, "link", "add", "bridge", "type", "bridge")
    _ip("-n", store, "address", "add", f"{STORE_ADDRESS}/24", "dev", "bridge")
    _ip("-n", store, "link", "set", "bridge", "up")
    for host in made.hosts:
        _ip("netns", "add", host.space)
        _ip("-n", host.space, "link", "set", "lo", "up")
        _ip("-n", store, "link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", host.space)
        _ip("-n", store, "link", "set", host.port, "master", "bridge")
        _ip("-n", store, "link", "set", host.port, "up")
        _ip("-n", host.space, "address", "add", f"{host.address}/24", "dev", "eth0")
        _ip("-n", host.space, "link", "set", "eth0", "up")


def cut_off(host: Host) -> None:
    """Pulls a host's cable. Called where the store is."""
    _ip("link", "set", host.port, "down")


def heal(host: Host) -> None:
    """Puts it back."""
    _ip("link", "set", host.port, "up")


def _remove(space: str) -> None:
    found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    if space in [line.split()[0] for line in found.stdout.splitlines() if line]:
        left = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
        for pid in left.stdout.split():
            subprocess.run(["kill", "-KILL", pid], capture_output=True, check=False)
        _ip("netns", "delete", space)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoNamespaces(f"'{' '.join(words)}' said: {(done.stderr or done.stdout).strip()}")
