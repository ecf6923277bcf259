#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ client alone, and programs that use it: consume.py SOURCE configure | installed | fetched

configure: it configures without the broker's libraries. installed: it is built, installed, and used by find_package and
by pkg-config. fetched: a project takes its sources in by FetchContent."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Only the broker, the command line and the tests need these. The broker finds the rest, such as hiredis, by pkg-config,
# which gRPC's own package file needs, too.
NOT_NEEDED = ("CLI11", "prometheus-cpp", "Curses", "GTest", "benchmark", "nlohmann_json",
              "rapidcheck", "Python3")


def run(*args, **options):
    print("+", *args, flush=True)
    return subprocess.run([str(arg) for arg in args], check=True, **options)


def configure(source, build, *more):
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache')}"] if shutil.which("ccache") else []
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", *launcher, *more)


def configure_alone(source, build, *more):
    configure(source, build, "-DDISTLOCK_CLIENT_ONLY=ON", "-DDISTLOCK_UNITY=ON",
              *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in NOT_NEEDED), *more)


def installed(source, folder):
    prefix = folder / "prefix"
    configure_alone(source, folder / "alone", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--build", folder / "alone", "-j2")
    run("cmake", "--install", folder / "alone", stdout=subprocess.DEVNULL)
    assert not any(prefix.glob("bin/*")), "the client has no programs"
    protos = prefix / "share/distlock/proto"
    run("protoc", "-I", protos, "--descriptor_set_out", folder / "set", *sorted(protos.glob("distlock/v1/*.proto")))
    configure(HERE, folder / "by_package", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder / "by_package")
    run(folder / "by_package/consumer")
    config = {**os.environ, "PKG_CONFIG_PATH": ":".join(str(p.parent) for p in prefix.rglob("distlock.pc"))}
    flags = run("pkg-config", "--cflags", "--libs", "distlock", env=config, stdout=subprocess.PIPE, text=True).stdout
    run("c++", "-std=c++20", HERE / "alone.cc", "-o", folder / "alone_program", *flags.split())
    run(folder / "alone_program")


def fetched(source, folder):
    configure(HERE, folder / "by_sources", f"-DDISTLOCK_SOURCE={source}", "-DDISTLOCK_UNITY=ON")
    run("cmake", "--build", folder / "by_sources", "-j2", "--target", "consumer")
    run(folder / "by_sources/consumer")


def main():
    source, what = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="distlock-consumer-") as name:
        folder = pathlib.Path(name)
        if what == "configure":
            configure_alone(source, folder)
            cache = (folder / "CMakeCache.txt").read_text(encoding="utf-8").lower()
            for name in ("hiredis", "libuv", "yamlcpp", "jemalloc", "ncurses"):
                assert f"{name}_found" not in cache, f"{name} is looked for"
        else:
            {"installed": installed, "fetched": fetched}[what](source, folder)


if __name__ == "__main__":
    main()
