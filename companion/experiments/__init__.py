"""The experiments: each module has ``Settings``, ``run(settings) -> row`` and a command of both."""
