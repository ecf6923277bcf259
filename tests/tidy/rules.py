# SPDX-License-Identifier: Apache-2.0
"""The house rules, each a function from a Tree to the lines that break it: "path:line: what, and what to do"."""
import fnmatch
import os
import re
import subprocess

from reading_rules import comment_starts, function_size

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "Dockerfile", "README.md",
             "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
             "proto", "server", "client", "lua", "deploy", "tests", "helm", ".ci", ".github"}
CODE = (".cc", ".h", ".lua", ".py", ".sh", ".proto", ".cmake", ".go", ".java", ".js", ".mjs", ".mts", ".ts")
LINES_MAX = 400
COLUMNS_MAX = 120
MANUAL = "server/ops/README.md"  # has the table of metrics
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*.pb.go", "*_pb.js", "*_pb.d.ts", "*_pb.ts")
NOT_OURS = (".git", "build", "dist", "node_modules", "__pycache__", ".pytest_cache", ".cache")
OTHERS = "proto/third_party/"  # files of other projects stay as those wrote them

# Each room's permitted includes of the project, and the outside worlds that it must not include: heads of names, or
# ends where they begin with *. A folder or a file of a room that has a row of its own is a room of its own: "store" is
# only what lies in server/store itself.
SERVER_ROOMS = ("core", "access", "contract", "acceptor", "http", "store", "shard", "rpc", "web", "ops", "main", "lua",
                "peer", "text")
GRPC = ("grpc", "google/", "distlock/")
STUBS = ("grpc", "google/", "distlock/v1/")
SOCKETS = ("uv.h", "openssl/", "sys/socket.h", "netdb.h", "time.h")
MAY_INCLUDE = {
    "server/core": ({"core"}, None),
    "server/store": ({"core", "store", "text"}, GRPC + ("hiredis", "openssl")),
    "server/store/check_store": ({"core", "store", "store/check_store", "store/redis/uv_timers"},
                                 GRPC + ("hiredis", "openssl")),
    "server/store/embedded": ({"store", "store/embedded"}, GRPC + ("hiredis", "openssl", "uv.h")),
    "server/store/open_store": ({"core", "store", "store/check_store", "store/open_store", "store/redis/socket_dialer",
                                 "store/redis/tls", "store/redis/uv_timers", "store/cluster", "store/redlock",
                                 "store/sentinel", "store/single", "store/waiting_store"},
                                GRPC + ("hiredis", "openssl")),
    "server/store/redis": ({"core", "store", "store/redis", "store/redis/server_clock", "lua"}, GRPC + SOCKETS),
    "server/store/waiting_store": ({"core", "store", "store/redis", "store/waiting_store"}, GRPC + ("hiredis",)),
    "server/store/redis/server_clock": ({"core", "store/redis/server_clock"}, GRPC + SOCKETS + ("hiredis",)),
    "server/store/redis/socket_dialer": ({"store", "store/redis", "store/redis/socket_dialer", "store/redis/tls",
                                          "store/redis/uv_timers"}, GRPC),
    "server/store/redis/tls": ({"store", "store/redis/tls"}, GRPC),
    "server/store/redis/uv_timers": ({"core", "store/redis"}, GRPC),
    "server/store/redlock": ({"core", "store", "store/redis", "store/redis/server_clock", "store/redlock",
                              "store/redlock/ballot", "lua"}, GRPC + SOCKETS),
    "server/store/redlock/ballot": ({"core", "store", "store/redis/server_clock", "store/redlock/ballot"},
                                    GRPC + SOCKETS + ("hiredis",)),
    "server/store/sentinel": ({"core", "store", "store/redis", "store/sentinel", "store/sentinel/sentinel_view"},
                              GRPC + SOCKETS),
    "server/store/sentinel/sentinel_view": ({"core", "store", "store/sentinel/sentinel_view"},
                                            GRPC + SOCKETS + ("hiredis",)),
    "server/store/cluster": ({"core", "store", "store/redis", "store/cluster", "store/cluster/hash_slot",
                              "store/cluster/lock_lanes", "store/cluster/map_refresh", "store/cluster/redirect",
                              "store/cluster/slot_map"}, GRPC + SOCKETS),
    "server/store/cluster/hash_slot": ({"store/cluster/hash_slot"}, GRPC + SOCKETS + ("hiredis",)),
    "server/store/cluster/lock_lanes": ({"core", "store/cluster/lock_lanes", "store/cluster/slot_map"},
                                        GRPC + SOCKETS + ("hiredis",)),
    "server/store/cluster/map_refresh": ({"core", "store/cluster/map_refresh"}, GRPC + SOCKETS + ("hiredis",)),
    "server/store/cluster/redirect": ({"store", "store/cluster/hash_slot", "store/cluster/redirect"},
                                      GRPC + SOCKETS + ("hiredis",)),
    "server/store/cluster/slot_map": ({"core", "store", "store/cluster/hash_slot", "store/cluster/slot_map"},
                                      GRPC + SOCKETS + ("hiredis",)),
    "server/store/single": ({"core", "store", "store/redis", "store/single"}, GRPC + SOCKETS),
    "server/shard": ({"core", "store", "shard", "ops"}, GRPC),
    "server/access": ({"access", "access/yaml_text", "text"},
                      GRPC + ("hiredis", "uv.h", "fstream", "thread", "mutex", "ctime", "chrono")),
    "server/access/yaml_text": ({"access/yaml_text", "text"}, GRPC + ("hiredis", "uv.h", "fstream", "thread")),
    "server/contract": ({"core", "contract"}, ("grpc", "*.grpc.pb.h", "hiredis", "uv.h")),
    "server/acceptor": ({"acceptor", "peer", "text"}, GRPC + ("hiredis", "uv.h")),
    "server/rpc": ({"access", "core", "contract", "acceptor", "store", "shard", "rpc", "rpc/admission", "rpc/call",
                    "rpc/callers", "rpc/engine", "rpc/frontend", "rpc/authorizer", "rpc/inside", "rpc/listings",
                    "rpc/messages", "rpc/rate_limit", "rpc/stream"}, ("hiredis", "uv.h")),
    "server/rpc/arrival": ({"acceptor", "rpc/arrival", "rpc/callers", "rpc/frontend"},
                           ("*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/admission": ({"core", "contract", "rpc/admission", "rpc/rate_limit"},
                             ("grpc", "*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/callers": ({"access", "acceptor", "rpc/callers"}, ("distlock/", "hiredis", "uv.h")),
    "server/rpc/inside": ({"access", "acceptor", "rpc/callers", "rpc/inside"}, ("distlock/", "hiredis", "uv.h")),
    "server/rpc/authorizer": ({"access", "core", "contract", "rpc/authorizer"},
                              ("grpc", "*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/known_callers": ({"access", "rpc/authorizer", "rpc/known_callers"},
                                 ("grpc", "distlock/", "hiredis", "uv.h")),
    "server/rpc/quota": ({"access", "core", "contract", "rpc/quota"}, ("grpc", "*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/call": ({"access", "core", "contract", "store", "shard", "rpc/arrival", "rpc/call", "rpc/callers",
                         "rpc/engine", "rpc/frontend", "rpc/listings", "rpc/messages", "rpc/quota"},
                        ("*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/engine": ({"acceptor", "shard", "rpc/engine"}, ("distlock/v1/", "hiredis", "uv.h")),
    "server/rpc/frontend": ({"access", "core", "contract", "acceptor", "shard", "rpc/admission", "rpc/authorizer",
                             "rpc/frontend", "rpc/inside", "rpc/known_callers", "rpc/listings"},
                            ("grpc", "*.grpc.pb.h", "hiredis", "uv.h")),
    "server/rpc/listings": ({"rpc/listings"}, ("grpc", "distlock/", "hiredis", "uv.h")),
    "server/rpc/messages": ({"core", "contract", "rpc/messages"}, ("*.grpc.pb.h", "hiredis", "uv.h", "thread")),
    "server/rpc/rate_limit": ({"core", "rpc/rate_limit"}, ("grpc", "distlock/", "hiredis", "uv.h")),
    "server/rpc/stream": ({"access", "core", "contract", "acceptor", "shard", "rpc/arrival", "rpc/callers",
                           "rpc/engine", "rpc/frontend", "rpc/messages", "rpc/quota", "rpc/rate_limit", "rpc/stream"},
                          ("*.grpc.pb.h", "hiredis", "uv.h")),
    "server/http": ({"acceptor", "http", "peer", "text"}, GRPC + ("hiredis", "uv.h")),
    "server/web": ({"contract", "http", "text", "web", "rpc/inside"}, ("*.grpc.pb.h", "microhttpd", "hiredis", "uv.h")),
    "server/ops": ({"access/yaml_text", "acceptor", "http", "ops", "text"}, GRPC + ("microhttpd", "hiredis", "uv.h")),
    "server/peer": ({"peer", "text"}, GRPC + ("absl/", "hiredis", "uv.h")),
    "server/text": ({"text"}, GRPC + ("absl/", "hiredis", "uv.h")),
    "server/main": (set(SERVER_ROOMS) | {"rpc/authorizer", "store/embedded", "store/open_store"}, ("hiredis",)),
    # A program on the client library, with no stubs of its own.
    "client/cli": (set(), STUBS + ("hiredis", "uv.h")),
    # A policy means the same with and without a broker.
    "client/cli/access_commands": ({"access"}, STUBS + ("hiredis", "uv.h")),
    "client": (set(), ("hiredis", "uv.h")),
}
# Needs std and the system alone, so that one function reads what is given by name, wherever that is.
EVERYWHERE = {"distlock/wire/given_file.h", "distlock/wire/nearest.h"}
# The core has no threads, no clock and no IO: these would bring them in.
CORE_STD_BANNED = {"thread", "mutex", "shared_mutex", "condition_variable", "future", "iostream", "fstream",
                   "filesystem", "ctime"}
CORE_ABSL_BANNED = ("absl/log/", "absl/random/", "absl/synchronization/", "absl/time/clock.h")


class Tree:
    """The files of the project: what git tracks or would track; without git, everything but build folders."""

    def __init__(self, root):
        self.root = os.path.abspath(root)
        self.files = sorted(self._from_git() or self._from_disk())
        self._lines = {}

    def _from_git(self):
        if not os.path.exists(os.path.join(self.root, ".git")):
            return None
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root, capture_output=True, text=True, check=True).stdout
        return [f for f in listing.split("\0") if f and os.path.isfile(os.path.join(self.root, f))]

    def _from_disk(self):
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in NOT_OURS]
            found += [os.path.relpath(os.path.join(folder, n), self.root) for n in names]
        return found

    def lines(self, path):
        if path not in self._lines:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
                self._lines[path] = f.read().split("\n")
        return self._lines[path]

    def code(self, *patterns):
        """Written sources, of all kinds or of those that match."""
        for path in self.files:
            name = os.path.basename(path)
            is_code = name.endswith(CODE) or name == "CMakeLists.txt"
            is_ours = not any(fnmatch.fnmatch(name, g) for g in GENERATED) and not path.startswith(OTHERS)
            if is_code and is_ours and (not patterns or any(fnmatch.fnmatch(path, p) for p in patterns)):
                yield path

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))


def top_level(tree):
    for name in sorted({f.split("/")[0] for f in tree.files}):
        is_dotfile = name.startswith(".") and os.path.isfile(os.path.join(tree.root, name))
        if name not in TOP_LEVEL and not is_dotfile:
            yield f"{name}: the top level is fixed; put it into one of {', '.join(sorted(TOP_LEVEL))}"
    for path in tree.files:
        if path.startswith(".ci/") and path != ".ci/run":
            yield f"{path}: .ci holds only run"


def file_size(tree):
    for path in tree.code():
        count = len(tree.lines(path)) - 1
        if count > LINES_MAX:
            yield f"{path}:{LINES_MAX}: {count} lines, at most {LINES_MAX}; split it by purpose"


def line_length(tree):
    """Tables and fenced examples of Markdown may be wider: they cannot be wrapped."""
    for path in [*tree.code(), *(f for f in tree.files if f.endswith(".md"))]:
        fenced = False
        for number, line in enumerate(tree.lines(path), 1):
            if path.endswith(".md"):
                fenced ^= line.lstrip().startswith("```")
                if fenced or line.startswith("|"):
                    continue
            if len(line) > COLUMNS_MAX:
                yield f"{path}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"


def names(tree):
    nobody_placed = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}
    for path in tree.files:
        words = set(re.split(r"[/_.\-]", path.lower()))
        for word in sorted(words & nobody_placed):
            yield f"{path}: '{word}' says nothing; name it for what it does"
    for path in tree.code("*.h", "*.cc"):
        for number, line in enumerate(tree.lines(path), 1):
            found = re.search(r"\b(?:class|struct)\s+(\w*(?:Manager|Utils?|Helpers?))\b", line)
            if found:
                yield f"{path}:{number}: '{found[1]}' says nothing; name it for what it does"


def spdx(tree):
    for path in tree.code():
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in tree.lines(path)[:3]):
            yield f"{path}:1: no SPDX-License-Identifier: Apache-2.0 line on top"


def headers(tree):
    for path in tree.code("*.h"):
        lines = tree.lines(path)
        if "#pragma once" not in lines:
            yield f"{path}:1: no #pragma once"
        before = []
        for line in lines:
            if line.startswith(("#include", "namespace")):
                break
            before.append(line)
        if not any(re.match(r"// (?!SPDX)\S", line) for line in before):
            yield f"{path}:1: no contract before the includes: what it is, which thread, who owns it"


def scripts(tree):
    for path in tree.code("lua/single/*.lua"):
        if not any("KEYS" in line for line in tree.lines(path)[:5]):
            yield f"{path}:1: the first lines must list KEYS, ARGV and the return codes"


def includes(tree):
    for path in tree.code("server/*.h", "server/*.cc", "client/*.h", "client/*.cc"):
        room = room_of(path)
        if room is None:
            yield f"{path}: no such room; the rooms are {', '.join(MAY_INCLUDE)}"
            continue
        for number, line in enumerate(tree.lines(path), 1):
            found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if found:
                why = include_fault(room, found[2])
                if why:
                    yield f"{path}:{number}: {room} includes {found[2]}: {why}"


def room_of(path):
    """The row of MAY_INCLUDE for a file; None: its folder, or one beside it, has rows, and it has none."""
    folder = os.path.dirname(path)
    row = next((r for r in row_names(path) if r in MAY_INCLUDE), None)
    is_new_folder = row in map(os.path.dirname, MAY_INCLUDE) and row != folder and path.startswith("server/")
    return None if is_new_folder else row


def row_names(path):
    """From the file's own, without its extension, to the top folder's."""
    name = os.path.splitext(path)[0]
    while name:
        yield name
        name = os.path.dirname(name)


def include_fault(room, target):
    rooms, banned = MAY_INCLUDE[room]
    first = target.split("/")[0]
    if first in ("tests", "sim"):
        return "tests are not part of the product"
    if "/" in target and first in SERVER_ROOMS:
        there = (room_of(f"server/{target}") or "server/" + first).removeprefix("server/")
        return None if there in rooms else f"it may include only {', '.join(sorted(rooms)) or 'itself'}"
    if room == "server/core":
        if target in CORE_STD_BANNED or target.startswith(CORE_ABSL_BANNED):
            return "the core has no threads, no clock and no IO"
        is_std = "/" not in target and "." not in target
        return None if is_std or first == "absl" else "the core includes only std, absl and core"
    if target in EVERYWHERE:
        return None
    if any(target.endswith(b[1:]) if b.startswith("*") else target.startswith(b) for b in banned or ()):
        return "that world ends before this room"
    return None


def leftovers(tree):
    words = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    machine = re.compile(r"(?<![\w./$}])/(?:work|home/\w+|root|Users/\w+|tmp/build-\w+)/")
    for path in tree.files:
        if not (path.endswith(CODE + (".md", ".txt", ".yaml", ".yml", ".json")) or "." not in os.path.basename(path)):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if words.search(line):
                yield f"{path}:{number}: finish it or leave it out: {line.strip()}"
            if machine.search(line):
                yield f"{path}:{number}: a path of somebody's machine: {line.strip()}"


def room_readmes(tree):
    """Each room has a page, or a row `| `room` | what it is | what it must never include |` in the page above it."""
    rooms = {d for d in ("proto", "lua", "server", "client", "deploy", "tests") if tree.has(d)}
    for path in tree.files:
        parts = path.split("/")
        if parts[0] in ("server", "client") and len(parts) > 2:
            rooms.add("/".join(parts[:2]))
            rooms.update(row for row in row_names(path) if row in MAY_INCLUDE and row == os.path.dirname(path))
    for room in sorted(rooms):
        if not tree.has(f"{room}/README.md") and not has_row(tree, room):
            yield f"{room}/README.md: missing; say what the room is and what it must never include"


def has_row(tree, room):
    above = os.path.dirname(room)
    while above and not tree.has(f"{above}/README.md"):
        above = os.path.dirname(above)
    row = re.compile(rf"\| `{re.escape(os.path.relpath(room, above or '.'))}` \| [^|]+ \| [^|]+ \|")
    return bool(above) and any(row.fullmatch(line) for line in tree.lines(f"{above}/README.md"))


def named_paths(tree):
    """Each path in backticks in a README exists, seen from the root, the README's folder or an include root."""
    roots = ["", "server", "client/cpp/include"]
    for path in (f for f in tree.files if f.endswith(".md")):
        fenced = False
        for number, line in enumerate(tree.lines(path), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            for text in re.findall(r"`([^`]+)`", "" if fenced else line):
                for candidate in braces(text):
                    if looks_like_a_path(tree, candidate) and not exists(
                            tree, candidate, roots + [os.path.dirname(path)]):
                        yield f"{path}:{number}: names {candidate}, which does not exist"


def braces(text):
    found = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", text)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [text]


def looks_like_a_path(tree, text):
    if not re.fullmatch(r"\.?[\w*\-]+([./][\w*\-]+)*/?", text) or text.endswith((".pb.h", "_data.h")):
        return False
    first = text.split("/")[0]
    return text.endswith(CODE) or ("/" in text and first in TOP_LEVEL and tree.has(first))


def exists(tree, text, roots):
    wanted = [os.path.normpath(os.path.join(root, text)) for root in roots]
    return any(tree.has(w) if "*" not in w else fnmatch.filter(tree.files, w) for w in wanted)


def between(tree, marker):
    """The text between `<!-- marker -->` and `<!-- /marker -->` of MANUAL, or None."""
    lines = tree.lines(MANUAL)
    if f"<!-- {marker} -->" not in lines or f"<!-- /{marker} -->" not in lines:
        return None
    return "\n".join(lines[lines.index(f"<!-- {marker} -->"):lines.index(f"<!-- /{marker} -->")])


def same_names(what, documented, actual):
    for name in sorted(actual - documented):
        yield f"{MANUAL}: the {what} table lacks {name}"
    for name in sorted(documented - actual):
        yield f"{MANUAL}: the {what} table has {name}, which does not exist"


def metric_table(tree):
    sources = list(tree.code("server/main/metrics*.cc"))
    if not sources or not tree.has(MANUAL):
        return
    listed = between(tree, "metrics")
    if listed is None:
        yield f"{MANUAL}: no table between <!-- metrics --> and <!-- /metrics -->"
        return
    text = "\n".join("\n".join(tree.lines(s)) for s in sources)
    actual = set(re.findall(r'"(distlock_[a-z_]+)"', text))
    yield from same_names("metric", set(re.findall("`([^`]+)`", listed)), actual)


def named_flags(tree, help_text):
    """Each flag that MANUAL names, or any page behind `distlockd`, is one of --help-all."""
    known = set(re.findall(r"^  (--[a-z][a-z-]*)", help_text, re.MULTILINE))
    for path in (f for f in tree.files if f.endswith(".md")):
        for number, line in enumerate(tree.lines(path), 1):
            commands = re.findall(r"`([^`]+)`", line) if path == MANUAL else re.findall(r"\bdistlockd( [^`#&|]*)", line)
            for flag in re.findall(r"(?<![\w-])--[a-z-]*[a-z]\b(?!-)", " ".join(commands)):
                if flag not in known and "distlockctl" not in line:
                    yield f"{path}:{number}: names {flag}, which distlockd does not have"


RULES = (top_level, file_size, line_length, names, spdx, headers, scripts, includes, leftovers, room_readmes,
         named_paths, metric_table, comment_starts, function_size)
