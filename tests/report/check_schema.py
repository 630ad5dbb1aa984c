"""Validates records against docs/report.schema.json.

usage: check_schema.py SCHEMA FILE...   each FILE holds a record, or an array of them
       check_schema.py SCHEMA --refuse FILE...   none is valid
"""

import json
import sys

import jsonschema


def records_of(path):
    with open(path, encoding="utf-8") as file:
        value = json.load(file, parse_constant=lambda name: sys.exit(f"{path}: {name} in JSON"))
    return value if isinstance(value, list) else [value]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    refuse = sys.argv[2] == "--refuse"
    for path in sys.argv[3 if refuse else 2 :]:
        for record in records_of(path):
            error = jsonschema.exceptions.best_match(validator.iter_errors(record))
            if refuse != (error is not None):
                sys.exit(f"{path}: {'valid' if refuse else f'{list(error.absolute_path)}: {error.message[:400]}'}")


main()
