# SPDX-License-Identifier: Apache-2.0
"""completion in bash, zsh and fish: commands, flags, values, names of held locks, and the command of run."""
import os
import pty
import select
import shlex
import subprocess

import pytest

from broker import PATIENCE_S


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request, ctl, broker, folder):
    """The words that the shell offers for the end of a line."""
    program = os.path.join(folder, "distlockctl")
    os.symlink(ctl.program, program)
    env = {**ctl.env, "PATH": f"{folder}:{ctl.env['PATH']}", "HOME": folder, "TERM": "dumb"}
    script = os.path.join(folder, "completion")
    with open(script, "w", encoding="utf-8") as f:
        f.write(ctl("completion", request.param).stdout)

    def run(*args):
        return subprocess.run(args, env=env, capture_output=True, text=True, check=True, timeout=PATIENCE_S)

    def bash(text):
        return run("bash", "-c", f'source {script}; COMP_LINE={shlex.quote(text)}; COMP_POINT=${{#COMP_LINE}}; '
                                 'COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _distlockctl; '
                                 'printf "%s\\n" "${COMPREPLY[@]}"').stdout.split("\n")

    def fish(text):
        out = run("fish", "-c", f"source {script}; complete -C {shlex.quote(text)}").stdout
        return [row.split("\t")[0] for row in out.splitlines()]

    def zsh(text):
        return Zsh(env, script).offers(text)

    return {"bash": bash, "zsh": zsh, "fish": fish}[request.param]


class Zsh:
    """Types at a zsh's prompt, because its completion works nowhere else."""

    def __init__(self, env, script):
        with open(os.path.join(env["HOME"], ".zshrc"), "w", encoding="utf-8") as f:
            f.write(f"autoload -Uz compinit; compinit -u -D; source {script}\n"
                    "setopt no_beep auto_list no_list_ambiguous; LISTMAX=1000\n"
                    "show() { compstate[insert]=; compstate[list]=list }; comppostfuncs=(show)\n"
                    "unset zle_bracketed_paste; PS1='ready> '\n")
        self.terminal, its_end = pty.openpty()
        self.process = subprocess.Popen(["zsh", "-d", "-i"], env={**env, "ZDOTDIR": env["HOME"]}, stdin=its_end,
                                        stdout=its_end, stderr=its_end, start_new_session=True)
        os.close(its_end)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, what):
        seen = ""
        while what not in seen:
            assert select.select([self.terminal], [], [], PATIENCE_S)[0], f"{what!r} did not come; seen: {seen!r}"
            seen += os.read(self.terminal, 4096).decode().replace("\r", "")
        return seen

    def offers(self, text):
        try:
            self.read_until("ready> ")
            # The list is out when the next line, which Ctrl-U begins, has been answered.
            self.type(text + "\t")
            self.type("\x15print d''one\n")
            return self.read_until("\ndone").split()
        finally:
            os.close(self.terminal)
            self.process.kill()
            self.process.wait()


def test_commands_and_flags(complete):
    assert {"renew", "release"} <= set(complete("distlockctl re"))
    assert "--on-lost" in complete("distlockctl run k --on-")
    assert {"--all", "--all-namespaces"} <= set(complete("distlockctl ls --al"))


def test_the_names_of_held_locks(complete, broker):
    broker.take(["deploy/web", "deploy/db", "backup"])
    found = complete("distlockctl show dep")
    assert {"deploy/web", "deploy/db"} <= set(found) and "backup" not in found
    assert {"deploy/web", "deploy/db"} <= set(complete("distlockctl run -n -k deploy/"))
    assert "--namespace" in complete("distlockctl show backup --nam")


class TestWords:
    """What the scripts ask for."""

    @pytest.fixture
    def ask(self, ctl, broker):
        def answer(*words):
            kind, *rows = ctl("__complete", *words).stdout.splitlines()
            return kind, [row.split("\t")[0] for row in rows]
        return answer

    def test_values(self, ask):
        assert ask("show", "k", "-o", "j") == ("words", ["json"])
        assert ask("--server", "x", "sta") == ("words", ["status"])
        assert ask("hold", "k", "--policy", "read") == ("words", ["reader-preferring"])
        assert ask("hold", "k", "--policy=read") == ("words", ["--policy=reader-preferring"])
        assert ask("acquire", "k", "--lease-file", "") == ("files", [])
        assert ask("completion", "")[1][:3] == ["bash", "zsh", "fish"]
        assert "check-token" in ask("man", "che")[1]
        assert ask("ls", "--namespace", "") == ("words", [])
        assert ask("nonsense", "") == ("words", [])

    def test_the_command_of_run_is_completed_as_such(self, ask):
        assert ask("run", "k", "-n", "ma") == ("command 4", [])
        assert ask("run", "k", "--", "make", "-") == ("command 4", [])
        assert ask("run", "k", "-w", "5", "make", "te") == ("command 5", [])
        assert ask("run", "k", "--", "ma") == ("command 4", [])
        assert ask("run", "k", "--", "-") == ("command 4", [])
        assert "-n" in ask("run", "k", "-")[1] and "--nonblock" in ask("run", "k", "--")[1]

    def test_keys_of_a_namespace(self, ask, ctl, broker):
        ctl("acquire", "here")
        ctl("acquire", "there", "--namespace", "other")
        assert ask("show", "--namespace", "other", "t") == ("words", ["there"])
        assert ask("show", "--namespace=other", "h") == ("words", [])
        assert ask("check-token", "here", "h") == ("words", [])

    def test_each_flag_says_what_it_means(self, ctl, broker):
        rows = ctl("__complete", "run", "k", "--w").stdout.splitlines()[1:]
        assert len(rows) == 2 and all("\t" in row for row in rows)

    def test_without_a_broker_there_are_no_names(self, ctl, broker):
        done = ctl("__complete", "show", "x", extra_env={"DISTLOCK_SERVER": "unix:///nowhere/there.sock"})
        assert (done.returncode, done.stdout) == (0, "words\n")
