"""Files of images that no native code reads (`by_library`, `dicom`), how files begin (`heads`), and what is asked of any encoded image (`encoded`)."""
