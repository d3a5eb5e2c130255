"""The version of the package and of the command, as CMakeLists.txt has it."""

__version__ = "0.1.0"
