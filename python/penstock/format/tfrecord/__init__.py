"""TFRecord files of `tf.train.Example` and `SequenceExample`."""
