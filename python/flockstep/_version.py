"""The version of the library, the command and the package. CMake and the wheel read it here."""

__version__ = "0.1.0"
