#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# distlockd_man.sh PROGRAM: prints the manual page distlockd(8), whose options are those of `PROGRAM --help-all`.
set -euo pipefail
program=$1
version=$("$program" --version)

# A group is a line that ends with a colon, an option a line that begins with two spaces and --, a limit one that begins
# with four spaces, its text what follows with more indent. At the right of an option is its variable.
options() {
  "$program" --help-all | awk '
    function roff(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); return text }
    /^[A-Z][A-Za-z ]*:$/ { sub(/:$/, ""); print ".SS " $0; inside = 1; next }
    !inside { next }
    /^  --/ || /^    [a-z]/ {
      variable = ""
      if (match($0, /DISTLOCK_[A-Z_]+$/)) { variable = substr($0, RSTART); $0 = substr($0, 1, RSTART - 1) }
      sub(/^ +/, ""); sub(/ +$/, "")
      print ".TP\n.B " roff($0) (variable == "" ? "" : "\n.RB ( " variable " )")
      if (variable != "") print ".br"
      next
    }
    /^      / { sub(/^ +/, ""); print roff($0); next }'
}

cat <<PAGE
.\\" SPDX-License-Identifier: Apache-2.0
.TH DISTLOCKD 8 "" "$version" "distlock"
.SH NAME
distlockd \\- lock broker: gRPC in front, Redis or Valkey behind
.SH SYNOPSIS
.B distlockd
.RI [ \\-\\-option\\ value ]...
.SH DESCRIPTION
Serves locks over gRPC and keeps them in Redis or Valkey.
Without
.B \\-\\-redis
it starts a private redis\\-server of its own, for this machine only.
.PP
Every option can be set on the command line, by a variable, or in the YAML file of
.BR \\-\\-config ;
the first of these that sets it counts.
.SH OPTIONS
The variable of an option is in parentheses.
$(options)
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
The broker drains: it grants no new locks, and holders may finish within
.BR \\-\\-drain\\-timeout .
A second signal ends it at once.
.SH EXIT STATUS
.TP
.B 0
clean end
.TP
.B 1
ended by a second signal
.TP
.B 64
wrong command line
.TP
.B 69
the store cannot be reached
.TP
.B 70
the embedded store died
.TP
.B 78
wrong variable, file or combination of options, or a store that is unfit for locks
.SH FILES
.TP
.I /etc/distlock/distlockd.yaml
the options of the service distlockd.service
.TP
.I /run/distlock/distlock.sock
the socket; programs that use it belong to the group distlock
.SH SEE ALSO
.BR distlockctl (1)
PAGE
