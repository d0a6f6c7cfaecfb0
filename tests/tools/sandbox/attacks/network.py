"""Attacks that communicate: with services of this machine, the world, the hypervisor."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

_REACH = """
def reach(family, address, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(0.5)
        one.connect(address)
        one.send(b"attack")
"""

ATTACKS = parse_attacks(
    r"""
=== tcp_to_this_machine rows=32 threats=network with=reach
for family, address in ((socket.AF_INET, ("127.0.0.1", @TCP@)), (socket.AF_INET, ("@ADDRESS@", @TCP@)),
                        (socket.AF_INET, ("0.0.0.0", @TCP@)), (socket.AF_INET6, ("::1", @TCP@)),
                        (socket.AF_INET6, ("::ffff:127.0.0.1", @TCP@))):
    attempt(address[0], reach, family, address)
def fast_open():
    with socket.socket() as one:
        one.sendto(b"attack", 0x20000000, ("127.0.0.1", @TCP@))
attempt("fast open", fast_open)
attempt("multipath", reach, socket.AF_INET, ("127.0.0.1", @TCP@), socket.SOCK_STREAM, 262)

=== udp_and_names rows=32 threats=network with=reach
with suppress(OSError):
    reach(socket.AF_INET, ("127.0.0.1", @UDP@), socket.SOCK_DGRAM)
for address in (("192.0.2.1", 53), ("255.255.255.255", 9)):
    attempt(address[0], reach, socket.AF_INET, address, socket.SOCK_DGRAM)
attempt("a name", socket.create_connection, ("example.invalid", 80), 0.5)
attempt("the world", socket.create_connection, ("192.0.2.1", 80), 0.5)
attempt("cloud metadata", socket.create_connection, ("169.254.169.254", 80), 0.5)
attempt("bash", lambda: os.system("bash -c 'exec 3<>/dev/tcp/127.0.0.1/@TCP@' 2>/dev/null") and 1 / 0)

=== listens_to_this_machine rows=32 threats=network session then=nobody_listens
def serve(server):
    while True:
        one, _ = server.accept()
        one.sendall(b"hello from inside")
for address in ("0.0.0.0", "127.0.0.1"):
    with suppress(OSError):
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, @FREE@))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        break

=== unix_sockets_of_this_machine rows=33 threats=network with=reach
for address in ("@UNIX@", "\0@ABSTRACT@", "/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket",
                "/run/systemd/private", "/proc/@DRIVER@/root@UNIX@"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        attempt(repr(address), reach, socket.AF_UNIX, address, kind)
    def datagram():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.sendto(b"attack", address)
    attempt(repr(address), datagram)
    def pair():
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with one, other:
            other.sendto(b"attack", address)
    attempt("pair to " + repr(address), pair)

=== unusual_socket_families rows=34 threats=network
names = {16: "netlink", 17: "packet", 21: "rds", 29: "can", 30: "tipc", 31: "bluetooth", 38: "alg", 39: "nfc",
         40: "vsock", 41: "kcm", 42: "qipcrtr", 43: "smc", 44: "xdp", 15: "key", 3: "ax25", 24: "pppox"}
for number, name in names.items():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        for protocol in (0, 15, 3):
            attempt(name, socket.socket, number, kind, protocol)
for family in (socket.AF_INET, socket.AF_INET6):
    for protocol in (1, 255):
        attempt("raw", socket.socket, family, socket.SOCK_RAW, protocol)
""",
    reach=_REACH,
)
