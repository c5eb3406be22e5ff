#!/bin/sh
# Tries exporters beside what is too large for .venv, in an environment of its own that sees .venv's packages: Weights & Biases, MLflow, Trackio, XProf.
set -eu
cd "$(dirname "$0")/.."
home=target/exporters list=tests/observe/exporters/requirements.txt python=${1:-.venv/bin/python}

if ! cmp -s "$list" "$home/installed"; then
    echo "Installing trackers and XProf, which exporters are tried with (600 MB)"
    rm -rf "$home"
    "$python" -m venv "$home"
    "$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))" > "$("$home/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
    # What .venv pins is not what these want.
    PIP_CONSTRAINT='' "$home/bin/python" -m pip install --progress-bar off -q -r "$list"
    cp "$list" "$home/installed"
fi
PYTHONPATH="$PWD/python:$PWD/tests" "$home/bin/python" -m pytest -q -m "" -p no:cacheprovider tests/observe/exporters
