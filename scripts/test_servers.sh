#!/bin/sh
# Gets the servers that tests talk to, where that needs no question. Elsewhere those tests are skipped, and say so.
set -eu
cd "$(dirname "$0")/.."

# Runs a command for so many seconds at most.
bounded() {
    if command -v timeout >/dev/null; then
        timeout "$@"
    else
        shift
        "$@"
    fi
}

# lacks TESTS PACKAGES PROGRAM…: whether a program is missing, which is then said.
lacks() {
    tests=$1 packages=$2
    shift 2
    for program; do
        if ! command -v "$program" >/dev/null; then
            echo "$program is missing: the tests of $tests will be skipped (Debian: apt-get install $packages)" >&2
            return 0
        fi
    done
    return 1
}

# is_made NAME VERSION: whether target/NAME is this version.
is_made() {
    [ "$(cat "target/$1/version" 2>/dev/null)" = "$2" ]
}

# make_server NAME VERSION TESTS SECONDS COMMAND…: fills target/NAME by a command, in so many seconds at most (0: as many as it takes).
make_server() {
    name=$1 version=$2 tests=$3 seconds=$4
    shift 4
    rm -rf "target/$name"
    mkdir -p "target/$name"
    if bounded "$seconds" "$@" >"target/$name.log" 2>&1; then
        printf '%s\n' "$version" > "target/$name/version"
    else
        rm -rf "target/$name"
        echo "What the tests of $tests talk to could not be made: they will be skipped (target/$name.log says why)" >&2
    fi
}

postgresql() {
    if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then
        return
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "PostgreSQL's server is not installed: its tests will be skipped (Debian: apt-get install postgresql)" >&2
        return
    fi
    echo "Installing PostgreSQL's server, which the tests of read_sql talk to"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/penstock.conf
    apt-get install -y -qq --no-install-recommends postgresql >/dev/null
}

# Hadoop's cluster for tests, out of Maven Central; fetched again when the list of it changes.
hadoop() {
    list=tests/servers/hadoop/pom.xml
    if is_made hadoop "$(cat "$list")" || lacks HDFS "maven default-jdk-headless" java mvn; then
        return
    fi
    echo "Fetching Hadoop's cluster for tests (95 MB), which the tests of hdfs:// talk to"
    make_server hadoop "$(cat "$list")" HDFS 0 \
        mvn -B -q -f "$list" dependency:copy-dependencies -DoutputDirectory="$PWD/target/hadoop"
}

# fake-gcs-server, which speaks the protocols of Google Cloud Storage.
gcs() {
    version=v1.56.1
    if is_made gcs "$version" || lacks gs:// golang-go go; then
        return
    fi
    echo "Building a server of Google Cloud Storage (about a minute), which the tests of gs:// talk to"
    make_server gcs "$version" gs:// 600 \
        env GOBIN="$PWD/target/gcs" go install -ldflags "-s -w" "github.com/fsouza/fake-gcs-server@$version"
}

# Azurite, Microsoft's server of Azure's protocols.
azurite() {
    version=3.35.0
    if is_made azurite "$version" || lacks az:// npm npm node; then
        return
    fi
    echo "Installing Azurite (190 MB), which the tests of az:// talk to"
    make_server azurite "$version" az:// 300 \
        npm install --prefix target/azurite --no-audit --no-fund --ignore-scripts "azurite@$version"
}

# Some wait for the network while others compile.
mkdir -p target
postgresql & first=$!
hadoop & second=$!
azurite & third=$!
gcs
wait "$first"
wait "$second"
wait "$third"
