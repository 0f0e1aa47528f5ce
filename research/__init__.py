"""The papers' tables: trains their systems, keeps the results, and compares them with the published figures."""
