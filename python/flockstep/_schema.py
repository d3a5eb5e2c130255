"""The version of what JSON files and outputs say, as src/base/schema.h has it."""

SCHEMA = 1
