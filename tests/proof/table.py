# SPDX-License-Identifier: Apache-2.0
"""The list of what must hold before a release, a stage each."""
import statistics

from kinds import Amount, Rows, Seeds

# The product: shipped C++ and Lua, and how it is built. The packages for other languages count for the suite.
PRODUCT = ("server", "lua", "proto", "client/CMakeLists.txt", "client/cpp", "client/cli", "deploy/cmake",
           "CMakeLists.txt", "CMakePresets.json")
# The part of it that the simulation is linked from: it has brokers' fronts and clients of its own.
SIMULATED = ("server/CMakeLists.txt", "server/contract", "server/core", "server/rpc/messages", "server/store",
             "server/text", "lua", "proto", "client/CMakeLists.txt", "client/cpp", "deploy/cmake", "CMakeLists.txt",
             "CMakePresets.json")
SIMULATIONS = (*SIMULATED, "tests/sim/CMakeLists.txt", "tests/sim/run.sh", "tests/sim/history", "tests/sim/redis",
          "tests/sim/simulation")
BALLOT = (*SIMULATED, "tests/sim/redis", "tests/sim/quorum")
MODEL_CHECK = (*SIMULATED, "tests/sim/redis")
MUTATIONS = (*PRODUCT, "tests/sim", "tests/core", "tests/store")
DAEMON = (*PRODUCT, "deploy/grpc", "tests/e2e", "tests/sim/history")  # with real processes
EVERYTHING = (".",)

SIM = ("tests/sim/run.sh", "--quiet")
PYTHON = ("/usr/bin/python3", "-B")
PYTEST = (*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider")
MEDIAN_MAX = 1000


def built(*targets):
    return ("tests/proof/build.sh", *targets)


class Mutations(Rows):
    """Bugs, of which each must be caught; half of them by few simulations."""

    def faults(self, rows):
        needed = [int(row["said"].split()[2]) for row in self.pieces(rows) if row["said"].startswith("caught")]
        median = statistics.median_low(needed) if needed else 0
        return [f"the median of the seeds needed is {median}"] if median > MEDIAN_MAX else []


def simulations(topology, wanted, chunk):
    name = "simulations" if topology == "any" else f"simulations-{topology}"
    of = () if topology == "any" else ("--topology", topology)
    return Seeds(name, SIMULATIONS, wanted, chunk, (*SIM, *of, "--seed", "{first}", "--seeds", "{count}"),
                 prepare=built("distlock_sim"), quick=(*SIM, *of, "--seeds", "20"))


def soak(topology, wanted, least_rate=100):
    name = "soak" if topology == "single" else f"soak-{topology}"
    how = ("tests/soak.sh", *(() if topology == "single" else (f"--{topology}",)), "--min-rate", str(least_rate))
    return Amount(name, DAEMON, wanted, 20, "minutes", (*how, "--minutes", "{amount}", "--seed", "{seed}"),
                  seconds=60, alone=120, least=2, grace=240, ran=r"(\d+(?:\.\d+)?) minutes of faults",
                  quick=(*how, "--minutes", "1"))


def stalls(topology):
    how = (*PYTHON, "tests/e2e/stalls.py", "--topology", topology)
    return Amount(f"stalls-{topology}", DAEMON, 40, 10, "rounds",
                  (*how, "--rounds", "{amount}", "--seed", "{seed}"), seconds=10, alone=60,
                  prepare=built("distlockd", "distlockctl"), quick=(*how, "--rounds", "1"))


def once(name, code, command, quick):
    return Amount(name, code, 1, 1, "runs", command, quick=quick, may_repeat=True)


SUITE = once("suite", EVERYTHING, ("tests/run.sh", "--long"), ("tests/run.sh", "--filter", "^core"))
STAGES = [
    SUITE,
    simulations("any", 2_000_000, 5000),
    simulations("sentinel", 200_000, 2000),
    simulations("cluster", 200_000, 2000),
    simulations("quorum", 200_000, 1000),
    Seeds("ballot", BALLOT, 200_000, 5000,
          ("build/release/bin/sim_quorum_test", "--gtest_filter=QuorumSimulations.*"), ran=r"^(\d+) simulations, ",
          env={"DISTLOCK_QUORUM_SEEDS": "{first}:{count}"}, prepare=built("sim_quorum_test"),
          quick=("build/release/bin/sim_quorum_test", "--gtest_filter=QuorumSimulations.*")),
    Amount("model-check", MODEL_CHECK, 20_000, 2000, "sequences", ("build/release/bin/sim_redis_model_check_test",),
           least=100, env={"DISTLOCK_MODEL_CHECK_SEQUENCES": "{amount}", "RC_PARAMS": "seed={seed}"},
           prepare=built("sim_redis_model_check_test"), quick=("build/release/bin/sim_redis_model_check_test",)),
    Mutations("mutations", MUTATIONS, 8, (*PYTHON, "tests/sim/mutations/mutate.py", "list"),
              ("tests/sim/mutations.sh",),
           r"(?P<said>(?:(?P<bad>MISSED  in|CAUGHT after)|caught  after|not caught in) [^(]*?)\s{2,}(?P<row>\d\S*)",
           prepare=built("distlock_sim", "sim_quorum_test", "core_test", "store_pure_test"),
           quick=("tests/sim/mutations.sh", "--check")),
    Rows("security-mutations", (*PRODUCT, "tests"), 10, ("tests/security/mutations/mutations.py", "--list"),
         ("tests/security/mutations/mutations.py",), r"(?:ok   |(?P<bad>WRONG)) (?P<row>\S+): \S+ \S+: (?P<said>.*)",
         quick=("tests/security/mutations/mutations.py", "--check")),
    Rows("attacks", DAEMON, 4, (*PYTHON, "tests/e2e/attacks.py", "--list"),
         (*PYTHON, "tests/e2e/attacks.py"),
         r"(?P<row>\S+)\s+(?P<said>(?:hardened|system)\s+lost\s.*?: (?:HOLDS|(?P<bad>NOT): .*?))   \[",
         prepare=built("distlockd"),
         quick=(*PYTEST, "tests/e2e/test_attacks.py")),
    *(stalls(topology) for topology in ("single", "sentinel", "cluster", "quorum")),
    Amount("mixed", DAEMON, 100, 10, "rounds", (*PYTEST, "tests/e2e/test_mixed.py"), least=3, alone=60,
           env={"DISTLOCK_MIXED_ROUNDS": "{amount}"},
           prepare=built("distlockd", "distlockctl", "distlock_soak_load", "distlock_check_history"),
           quick=(*PYTEST, "tests/e2e/test_mixed.py")),
    soak("single", 480),
    soak("sentinel", 60),
    soak("cluster", 60),
    soak("quorum", 60),
    soak("attacked", 20),
    once("bench", (*PRODUCT, "deploy/grpc", "tests/bench", "tests/e2e/harness.py", "tests/e2e/measures.py"),
         ("tests/bench/run.sh", "--peers", "--rounds", "5", "--json", "build/release-list/bench.json"),
         ("tests/bench/run.sh", "--quick", "--json", "build/release-list/bench.json")),
]
