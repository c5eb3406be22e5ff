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

# Hadoop's cluster for tests, out of Maven Central, into target/hadoop; fetched again when the list of it changes.
hadoop() {
    list=tests/servers/hadoop/pom.xml
    if cmp -s "$list" target/hadoop/pom.xml; then
        return
    fi
    if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then
        echo "Java or Maven is missing: the tests of HDFS will be skipped (Debian: apt-get install maven default-jdk-headless)" >&2
        return
    fi
    echo "Fetching Hadoop's cluster for tests (95 MB), which the tests of hdfs:// talk to"
    rm -rf target/hadoop
    mkdir -p target/hadoop
    if ! mvn -B -q -f "$list" dependency:copy-dependencies -DoutputDirectory="$PWD/target/hadoop" >target/hadoop.log 2>&1; then
        rm -rf target/hadoop
        echo "Hadoop could not be fetched: the tests of HDFS will be skipped (target/hadoop.log says why)" >&2
        return
    fi
    cp "$list" target/hadoop/pom.xml
}

# Apache Arrow's example server of Flight SQL (SQLite in memory), into target/flightsql; built again when the version changes.
flight_sql() {
    version=v18.8.0
    if [ -x target/flightsql/sqlite_flightsql_server ] && [ "$(cat target/flightsql/version 2>/dev/null)" = "$version" ]; then
        return
    fi
    if ! command -v go >/dev/null; then
        echo "Go is missing: the tests of Flight SQL will be skipped (Debian: apt-get install golang-go)" >&2
        return
    fi
    echo "Building Apache Arrow's example server of Flight SQL (about two minutes), which the tests of read_sql talk to"
    mkdir -p target/flightsql
    package=github.com/apache/arrow-go/v18/arrow/flight/flightsql/example/cmd/sqlite_flightsql_server
    if ! GOBIN="$PWD/target/flightsql" go install "$package@$version" >target/flightsql.log 2>&1; then
        rm -rf target/flightsql
        echo "Flight SQL's server could not be built: its tests will be skipped (target/flightsql.log says why)" >&2
        return
    fi
    echo "$version" > target/flightsql/version
}

# fake-gcs-server, which speaks the protocols of Google Cloud Storage, into target/gcs. What Flight SQL's build compiled is used again.
gcs() {
    version=v1.56.1
    if [ -x target/gcs/fake-gcs-server ] && [ "$(cat target/gcs/version 2>/dev/null)" = "$version" ]; then
        return
    fi
    if ! command -v go >/dev/null; then
        echo "Go is missing: the tests of gs:// will be skipped (Debian: apt-get install golang-go)" >&2
        return
    fi
    echo "Building a server of Google Cloud Storage (about a minute), which the tests of gs:// talk to"
    mkdir -p target/gcs
    if ! bounded 600 env GOBIN="$PWD/target/gcs" go install -ldflags "-s -w" \
        "github.com/fsouza/fake-gcs-server@$version" >target/gcs.log 2>&1; then
        rm -rf target/gcs
        echo "The server of Google Cloud Storage could not be built: its tests will be skipped (target/gcs.log says why)" >&2
        return
    fi
    echo "$version" > target/gcs/version
}

# Azurite, Microsoft's server of Azure's protocols, into target/azurite.
azurite() {
    version=3.35.0
    if [ "$(cat target/azurite/version 2>/dev/null)" = "$version" ]; then
        return
    fi
    if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
        echo "Node.js or npm is missing: the tests of az:// will be skipped (Debian: apt-get install npm)" >&2
        return
    fi
    echo "Installing Azurite (190 MB), which the tests of az:// talk to"
    rm -rf target/azurite
    mkdir -p target/azurite
    if ! bounded 300 npm install --prefix target/azurite --no-audit --no-fund --ignore-scripts "azurite@$version" >target/azurite.log 2>&1; then
        rm -rf target/azurite
        echo "Azurite could not be installed: its tests will be skipped (target/azurite.log says why)" >&2
        return
    fi
    echo "$version" > target/azurite/version
}

# Some wait for the network while others compile.
mkdir -p target
postgresql & first=$!
hadoop & second=$!
azurite & third=$!
flight_sql
gcs
wait "$first"
wait "$second"
wait "$third"
