"""Where snapshots go while a loader runs: TensorBoard, Prometheus, files of JSON lines, … One file each."""

from penstock.observe.exporters.opening import open_exporter as open_exporter
