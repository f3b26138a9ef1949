"""What is somebody's own: taken along, brought in from elsewhere, erased."""
