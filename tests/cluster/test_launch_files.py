"""The launch files of examples/cluster: by the schemas of what reads them, since no cluster of Kubernetes is here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

CLUSTER = Path(__file__).parent.parent.parent / "examples" / "cluster"
VERSION = "1.37"
#: Go's modules that hold the definitions of what is no part of Kubernetes, and where.
DEFINED = {
    "JobSet": ("sigs.k8s.io/jobset@v0.8.0", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    "RayJob": ("github.com/ray-project/kuberay/ray-operator@v1.5.0", "config/crd/bases/ray.io_rayjobs.yaml"),
}


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((CLUSTER / name).read_text()))


def pods_in(value: Any) -> list[Any]:
    """Every pod's template that is in a document."""
    if isinstance(value, list):
        return [pod for one in value for pod in pods_in(one)]
    if not isinstance(value, dict):
        return []
    if "containers" in value.get("spec", {}):
        return [value]
    return [pod for one in value.values() for pod in pods_in(one)]


@pytest.mark.parametrize("name", ["slurm.sbatch", "torchrun.sh"])
def test_scripts_are_bash(name: str) -> None:
    subprocess.run(["bash", "-n", CLUSTER / name], check=True)


def test_all_are_checked() -> None:
    files = {"slurm.sbatch", "torchrun.sh", "train.py", "job.yaml", "jobset.yaml", "rayjob.yaml"}
    assert {path.name for path in CLUSTER.iterdir() if path.is_file()} == files
    assert len((CLUSTER / "train.py").read_text().splitlines()) < 60


def test_what_kubernetes_reads_is_by_its_schemas() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed").validate
    for document in documents("job.yaml"):
        validate(document, VERSION, strict=True)
    for name in ("job.yaml", "jobset.yaml", "rayjob.yaml"):
        pods = pods_in(documents(name))
        assert pods
        for pod in pods:
            validate(
                {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "one"}, "template": pod},
                VERSION,
                strict=True,
            )
    [jobset] = documents("jobset.yaml")
    for job in jobset["spec"]["replicatedJobs"]:
        validate(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, **job["template"]},
            VERSION,
            strict=True,
        )


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind"), [("jobset.yaml", "JobSet"), ("rayjob.yaml", "RayJob")])
def test_what_is_no_part_of_kubernetes_is_by_its_own_definition(name: str, kind: str) -> None:
    """Read from Go's modules. What their rules in CEL say is not checked."""
    validation = pytest.importorskip("jsonschema")
    module, place = DEFINED[kind]
    if shutil.which("go") is None:
        pytest.skip("go, by which the definitions are fetched, is not installed")
    fetched = subprocess.run(
        ["go", "mod", "download", "-json", module], capture_output=True, text=True, check=False, cwd="/"
    )
    if fetched.returncode:
        pytest.skip(f"{module} cannot be fetched")
    definition = yaml.safe_load((Path(json.loads(fetched.stdout)["Dir"]) / place).read_text())
    [document] = documents(name)
    group, _, version = document["apiVersion"].partition("/")
    assert (definition["spec"]["group"], definition["spec"]["names"]["kind"]) == (group, kind)
    [schema] = [one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == version]
    validation.Draft7Validator(closed(schema)).validate(document)
    text = json.dumps(document).replace("backoffLimit", "backofLimit").replace("entrypoint", "entryPoint")
    with pytest.raises(validation.ValidationError, match=r"backofLimit|entryPoint"):
        validation.Draft7Validator(closed(schema)).validate(json.loads(text))


def closed(schema: Any, *, is_properties: bool = False) -> Any:
    """The schema as the server prunes by it: what it does not name is no property; and its numbers that may be text."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(one, is_properties=name == "properties") for name, one in schema.items()}
    if is_properties:
        return made
    if made.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if (
        "properties" in made
        and "additionalProperties" not in made
        and made["properties"].keys() != {"metadata"}
        and not made.get("x-kubernetes-preserve-unknown-fields")
    ):
        metadata = made["properties"].get("metadata")
        if metadata == {"type": "object"}:
            metadata["additionalProperties"] = True
        made["additionalProperties"] = False
    return made
