#!/bin/sh
# The manual page of iblt-audit: what its --help says.
cat <<EOF
.TH IBLT\-AUDIT 1 "" "iblt $(sed -n 's/^EXTVERSION = //p' Makefile)" "PostgreSQL"
.SH NAME
iblt\-audit \- audit copies of PostgreSQL tables from cron
.SH DESCRIPTION
.nf
EOF
sh bin/iblt-audit --help | sed 's/\\/\\e/g; s/-/\\-/g; s/^[.'"'"']/\\\&&/'
cat <<EOF
.fi
.SH SEE ALSO
/usr/share/doc/iblt\-common/doc/program.md, /usr/share/doc/iblt\-common/doc/subscriber.md
EOF
