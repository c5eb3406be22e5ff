"""Where snapshots go while a loader runs: TensorBoard, Prometheus, files of JSON lines, … One file each."""
