"""Pictures: drawings that show nobody, encoders that saw only drawings, and wavelets. All of it is public."""
