"""The JSON Schema for editors is made from what the readers of rules ask for."""

from __future__ import annotations


def test_a_key_is_in_the_schema_as_the_reader_reads_it(maker):
    def read(section):
        section.choice("is", ("well", "ill"))
        section.duration("within", None)
        for name in section.names("in", ()):
            if name not in ("north", "south"):
                section.wrong_at("in", "not a direction")
        if section.has("deeper"):
            inner = section.section("deeper")
            inner.number("most", least=1, most=9)
            [inner.compile(item) for item in inner.items("line", ())]
        section.done()

    seen = maker.watch(read)
    assert maker.mapping(read, seen, (), [("east", "west"), ("north", "south")]) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["is"],
        "properties": {
            "is": {"enum": ["well", "ill"]},
            "within": {"$ref": "#/$defs/duration"},
            "in": {
                "anyOf": [
                    {"enum": ["north", "south"]},
                    {"type": "array", "items": {"enum": ["north", "south"]}},
                ]
            },
            "deeper": {
                "type": "object",
                "additionalProperties": False,
                "required": ["most"],
                "properties": {
                    "most": {"type": "integer", "minimum": 1, "maximum": 9},
                    "line": {
                        "anyOf": [
                            {"$ref": "#/$defs/pattern"},
                            {"type": "array", "items": {"$ref": "#/$defs/pattern"}},
                        ]
                    },
                },
            },
        },
    }
