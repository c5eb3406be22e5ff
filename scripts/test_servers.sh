#!/bin/sh
# Installs the servers that tests talk to, where that needs no question: as root, on Debian and its kin. Elsewhere those tests are skipped.
set -eu

if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "PostgreSQL's server is not installed: its tests will be skipped (Debian: apt-get install postgresql)" >&2
    exit 0
fi
echo "Installing PostgreSQL's server, which the tests of read_sql talk to"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/penstock.conf
apt-get install -y -qq --no-install-recommends postgresql >/dev/null
