"""The dialects of change files: what their rows say, one module for each.

debezium, debezium_flat   messages of Debezium, and its flattened rows (debezium_messages, connect_types)
maxwell, canal, ogg, dms  messages of Maxwell, Canal, GoldenGate and AWS DMS (image_messages)
flat_rows                 flat rows of other programs, a table of which is in flat_dialects
messages                  what all messages share

``rules.envelopes`` names them; ``rules.envelope`` is the contract.
"""
