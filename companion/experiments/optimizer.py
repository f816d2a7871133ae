"""One optimiser for every choice of settings: Optuna's TPE, seeded, over ranges that widen.

A range is a mapping, as params/search.yml has it:

    {low: 0.001, high: 0.1}     log-uniform; ``scale: linear``: uniform; whole if both ends are
    {values: [0.0, 0.0625]}     one of these
    {share_of: k, low: 0.05}    a share of another setting, between low and 1, as a whole number
    {in_a_row: 8}               layers: up to so many in a row, anywhere in the model; "all" if that
                                is every layer; with ``scale: linear`` each number is equally likely
    {last_of: layers}           the last layer of the setting ``layers``
    {to_the_last: true}         layers from a drawn one to the last

If the best trial so far lies at the low or high end of a range, the range grows there, as far as
``least`` and ``most`` allow: no value should win only because better ones were out of range. Ranges
grow only after ten trials that count: the best of trials that hardly do anything says nothing about
where good settings lie, and a range that follows it becomes too wide to search.
"""

import math

import optuna

EDGE = 0.05  # of a range's width: a value this near an end lies at it
WIDER = 0.5  # of a range's first width: how much it grows at a time
FIRST = 10  # random draws before the optimiser chooses; trials that count before a range grows

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Search:
    """``settings = search.ask()``, then ``search.tell(score)``, again and again.

    The same scores lead to the same settings. ``layers``: how many the model has; ``fixed``:
    settings that are not searched.
    """

    def __init__(
        self, spaces: dict[str, dict], layers: int, seed: int = 0, fixed: dict | None = None
    ):
        self.first, self.fixed = spaces, fixed or {}
        self.spaces = {name: dict(spaces[name]) for name in spaces if name not in self.fixed}
        self.layers, self.widened, self.counted = layers, set(), 0
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=FIRST)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.trial: optuna.Trial | None = None

    def ask(self, given: dict | None = None) -> dict:
        """Return the next settings to try, as near to the ``given`` numbers as the ranges allow."""
        if given:
            self.study.enqueue_trial(given)
        self.trial, settings = self.study.ask(), dict(self.fixed)
        for name, space in self.spaces.items():
            settings[name] = self.drawn(name, space, settings)
        return settings

    def start(self, settings: dict) -> dict:
        """Return settings known to be worth a trial; report their score with ``tell``.

        Ranges grow to include them.
        """
        given = {}
        for name, space in self.spaces.items():
            value = settings.get(name)
            if "share_of" in space:
                given[name] = min(1.0, max(value / settings[space["share_of"]], space["low"]))
            elif "in_a_row" in space:
                some = list(range(self.layers)) if value == "all" else value
                number = min(len(some), space["in_a_row"])
                given[f"{name}: how many"] = number
                given[f"{name}: how deep"] = some[0] / max(1, self.layers - number)
            elif "to_the_last" in space:
                given[f"{name}: first"] = 0 if value == "all" else value[0]
            elif "low" in space:
                given[name] = value
                space["low"] = min(space["low"], value)
                space["high"] = max(space["high"], value)
            elif "values" in space and value in space["values"]:
                given[name] = value
        return self.ask(given)

    def drawn(self, name: str, space: dict, settings: dict):
        """Draw the value of one setting; the settings that it depends on are drawn before."""
        draw = self.trial
        if "values" in space:
            return draw.suggest_categorical(name, space["values"])
        if "share_of" in space:
            share = draw.suggest_float(name, space["low"], 1.0, log=True)
            return max(1, round(share * settings[space["share_of"]]))
        if "in_a_row" in space:
            most = min(space["in_a_row"], self.layers)
            log = space.get("scale") != "linear"
            number = draw.suggest_int(f"{name}: how many", 1, most, log=log)
            first = draw.suggest_float(f"{name}: how deep", 0.0, 1.0)
            first = round(first * (self.layers - number))
            return "all" if number == self.layers else list(range(first, first + number))
        if "to_the_last" in space:
            first = draw.suggest_int(f"{name}: first", 0, self.layers - 1)
            return list(range(first, self.layers)) if first else "all"
        if "last_of" in space:
            found = settings[space["last_of"]]
            return self.layers - 1 if found == "all" else found[-1]
        low, high, log = space["low"], space["high"], space.get("scale") != "linear"
        if whole(space):
            return draw.suggest_int(name, low, high, log=log)
        return float(f"{draw.suggest_float(name, low, high, log=log):.4g}")

    def tell(self, score: float, counts: bool = True) -> None:
        """Record the score of the last settings asked for and whether the trial ``counts``; ranges
        may then grow."""
        self.study.tell(self.trial, score)
        self.counted += counts
        best = self.study.best_trial
        if self.counted < FIRST or not best.value:
            return
        for name, end in self.at_edges(best.params):
            space, (a, b), first = self.spaces[name], ends(self.spaces[name]), self.first[name]
            step = WIDER * (ends(first)[1] - ends(first)[0])
            further = a - step if end == "low" else b + step
            further = further if space.get("scale") == "linear" else math.exp(further)
            bound = {"low": max, "high": min}[end](further, limit(space, end))
            space[end] = round(bound) if whole(space) else bound
            self.widened.add(name)

    def at_edges(self, values: dict) -> list[tuple[str, str]]:
        """Return the settings at an end of their range that can grow, and which end it is."""
        return [
            (name, end)
            for name, space in self.spaces.items()
            if "high" in space and name in values
            for end in ends_near(space, values[name])
            if space[end] != limit(space, end)
        ]


def whole(space: dict) -> bool:
    """Are a range's values whole numbers?"""
    return isinstance(space["low"], int) and isinstance(space["high"], int)


def ends(space: dict) -> tuple[float, float]:
    """Return a range's ends on the scale on which values are drawn."""
    linear = space.get("scale") == "linear"
    return tuple(float(space[end]) if linear else math.log(space[end]) for end in ("low", "high"))


def ends_near(space: dict, value: float) -> list[str]:
    """Return the ends of its range at or beyond which a value lies."""
    low, high = ends(space)
    place = (value if space.get("scale") == "linear" else math.log(value)) - low
    near = {"low": place <= EDGE * (high - low), "high": place >= (1 - EDGE) * (high - low)}
    return [end for end in near if near[end]]


def limit(space: dict, end: str) -> float:
    """How far a range may grow at an end."""
    if end == "high":
        return space.get("most", math.inf)
    return space.get("least", 1 if whole(space) else -math.inf)
