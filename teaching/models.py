"""Exercises that edit a whole model: the toy model, which has memorised badge numbers."""

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import softplus

import revs
from revs.audit.context import SUFFIX, Context
from revs.audit.suite import Attack
from revs.baselines import npo_kl
from revs.baselines.training import log_p
from revs.measures import attacks, evaluate
from revs.measures.metrics import mean
from revs.method import algorithm, least_squares
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target, split
from teaching import toy
from teaching.checking import Wrong, compare, examine
from teaching.geometry import random

K = 30  # candidates: a tenth of the toy model's vocabulary


def drawn(decoder: Decoder) -> Split:
    """Half of the people, one sentence each to forget."""
    return split(toy.targets(decoder), seed=0)


def measured(decoder: Decoder, some: Split) -> dict:
    """Efficacy, generalization, specificity and the Unlearning Score at K candidates."""
    ranks = evaluate.secret_ranks(decoder, some.forget + some.unseen + some.retain)
    return evaluate.effectiveness(some, ranks, K)[0]


def sizes(result: dict) -> str:
    """The parts of a score in words."""
    parts = ("efficacy", "generalization", "specificity", "unlearning_score")
    return ", ".join(f"{part.replace('_', ' ')} {100 * result[part]:.0f}" for part in parts)


# --- rivals ---------------------------------------------------------------------------------------

compare(
    "npo",
    "npo(log_p (B,), reference (B,), beta) → the loss of NPO",
    lambda: [
        (-random(6, seed=s).abs(), -random(6, seed=s + 9).abs(), b) for s, b in ((1, 0.1), (2, 1.0))
    ],
    npo_kl.objective,
    {
        "The sign is wrong: descending on this loss would raise p(t).": (
            lambda p, ref, beta: -npo_kl.objective(p, ref, beta)
        ),
        "The ratio is upside down: it is p_θ/p_ref, log p minus the reference.": (
            lambda p, ref, beta: npo_kl.objective(ref, p, beta)
        ),
        "The factor 2/β is missing.": lambda p, ref, beta: (
            beta / 2 * npo_kl.objective(p, ref, beta)
        ),
        "β stands in front alone: the ratio inside is raised to the power β.": (
            lambda p, ref, beta: 2 / beta * softplus(p - ref).mean()
        ),
        "You sum over the batch: take the mean.": lambda p, ref, beta: (
            len(p) * npo_kl.objective(p, ref, beta)
        ),
        "You take log p itself: that is gradient ascent, the limit β → 0.": (
            lambda p, ref, beta: p.mean()
        ),
    },
)

RADIUS, RATE, STEPS = 0.05, 0.02, 30
FORGOTTEN = 0.05  # the mean p(t) that is low enough


def judge_ft_l(function: Callable) -> str:
    """Judge ft_l(model, ids (B, n), t (B,), lr, steps, radius), which changes the model."""
    decoder = toy.model()
    some = toy.targets(decoder)[:8]
    ids = torch.tensor([target.prompt_ids for target in some])
    t = torch.tensor([target.secret_ids[0] for target in some])  # the first of each number
    pairs = list(zip(ids.tolist(), t.tolist(), strict=True))
    p = lambda: log_p(decoder, pairs).exp().mean().item()
    start = {name: of.detach().clone() for name, of in decoder.model.named_parameters()}
    before = p()
    seen = []  # how far a weight had moved at most, before each pass

    def moves() -> dict[str, torch.Tensor]:
        return {name: of.detach() - start[name] for name, of in decoder.model.named_parameters()}

    def look(*_) -> None:
        seen.append(max(float(by.abs().max()) for by in moves().values()))

    with decoder.model.register_forward_pre_hook(look):
        function(decoder.model, ids, t, RATE, STEPS, RADIUS)
        with torch.no_grad():
            after = p()
    moved = moves()
    changed = [name for name, by in moved.items() if by.abs().max() > 0]
    if not changed:
        raise Wrong("No weight has changed: does your optimizer step, and on the model's weights?")
    if others := [name for name in changed if "down_proj" not in name]:
        raise Wrong(f"You changed {others[0]}: FT-L trains FF₂ alone, the weights mlp.down_proj.")
    if after > before - 1e-3:
        said = f"p(t) went from {before:.2f} to {after:.2f}"
        raise Wrong(f"{said}: you must descend on p(t), summed over targets, not on −log p(t).")
    most = max(seen)
    if most > RADIUS + 1e-5:
        ends = max(float((start[name] + moved[name]).abs().max()) for name in changed)
        if ends <= RADIUS + 1e-5:
            raise Wrong("You clamp the weights around 0: clamp them around their first values.")
        said = f"A weight has moved by {most:.3f}, outside the ball of radius {RADIUS}"
        raise Wrong(f"{said}: clamp θ to θ₀ ± radius after each step.")
    if after > FORGOTTEN:
        said = f"p(t) is still {after:.2f} on average"
        raise Wrong(f"{said}: take all steps, with all targets, on p(t) and not on log p(t).")
    return f"Right: p(t) fell from {before:.2f} to {after:.3f}, and no weight left the ball."


def trained(names: str = "down_proj", sign: float = 1.0, clamp: str = "start", steps=None):
    """FT-L, or one with a mistake."""

    def train(model, ids, t, lr, number, radius):
        some = [of for name, of in model.named_parameters() if names in name]
        start = [of.detach().clone() for of in some]
        optimizer = torch.optim.Adam(some, lr=lr)
        for _ in range(number if steps is None else steps):
            loss = sign * model(ids).logits[:, -1].softmax(-1)[range(len(t)), t].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for of, first in zip(some, start):
                if clamp == "start":
                    of.data = of.data.clamp(first - radius, first + radius)
                elif clamp == "zero":
                    of.data = of.data.clamp(-radius, radius)

    return train


examine(
    "ft_l",
    judge_ft_l,
    {
        "You changed": trained(names=""),
        "p(t) went from": trained(sign=-1.0),
        "A weight has moved by": trained(clamp="never"),
        "You clamp the weights around 0": trained(clamp="zero"),
        "No weight has changed": lambda *given: None,
        "p(t) is still": trained(steps=1),
    },
)

# --- a control that wins --------------------------------------------------------------------------


def judge_control(function: Callable) -> str:
    """Judge control(decoder, targets), which changes the model."""
    decoder = toy.model()
    some = drawn(decoder)
    body = lambda: {name: of.clone() for name, of in decoder.model.base_model.state_dict().items()}
    before, head = body(), decoder.head.weight.detach().clone()
    function(decoder, copy.deepcopy(some.forget))
    result = measured(decoder, some)
    if any(not torch.equal(of, before[name]) for name, of in body().items()):
        raise Wrong(
            "You changed the network itself. A control shows that the score can be won without "
            "unlearning: leave everything before the head as it is."
        )
    if result["efficacy"] < 0.95:
        raise Wrong(
            f"The forgotten tokens still rank too high: {sizes(result)}. Which row of the head "
            "puts a token far down after every text?"
        )
    if result["specificity"] < 0.95:
        raise Wrong(f"You lose the secrets that are to stay: {sizes(result)}.")
    with torch.no_grad():
        decoder.head.weight.copy_(head)
        decoder.head.bias = None
    for module in (decoder.head, decoder.model):
        module._forward_hooks.clear()
    back = measured(decoder, some)["efficacy"]
    if back > 0.05:
        raise Wrong("With the old head the secrets do not come back: something else was changed.")
    return f"Right: {sizes(result)}; and with the old head every secret is written again."


@torch.no_grad()
def ban_everything(decoder, targets):
    decoder.head.weight.copy_(decoder.head.weight.mean(0).expand_as(decoder.head.weight))
    decoder.head.weight += 1e-3 * random(*decoder.head.weight.shape).float()


examine(
    "control",
    judge_control,
    {
        "You changed the network itself": lambda decoder, targets: least_squares.unlearn(
            decoder, targets, least_squares.Hyperparameters(r_h=100, mu=0)
        ),
        "The forgotten tokens still rank too high": lambda decoder, targets: None,
        "You lose the secrets that are to stay": ban_everything,
    },
)

# --- an attack ------------------------------------------------------------------------------------

FOUND = 10  # a secret is recovered if each of its tokens ranks higher somewhere


def never_trained(target: Target, number: int) -> Target:
    """A secret with one of its target tokens replaced: the first or the last, by turns."""
    ids, at = list(target.secret_ids), target.T[number % len(target.T)]
    ids[at] -= ids[at] % 7 + 1
    return replace(target, id=target.id + SUFFIX, secret_ids=ids)


def judge_attack(function: Callable) -> str:
    """Judge attack(decoder, secrets, context) → {id: the larger rank of its target tokens}."""
    decoder = toy.model()
    forget = drawn(decoder).forget
    # the last layer alone is edited, so that the output is clean
    hp = least_squares.Hyperparameters(r_h=100, mu=0.0, layers=[len(decoder.layers) - 1])
    least_squares.unlearn(decoder, forget, hp)
    controls = [never_trained(target, number) for number, target in enumerate(forget)]
    context = Context(decoder, controls, {})
    entry = Attack("Yours", function, lambda worst: worst < FOUND)
    values = entry.values(decoder, [*forget, *controls], context)
    if not isinstance(values, dict) or {one.id for one in [*forget, *controls]} - set(values):
        raise Wrong("Return {id: number} with the id of every secret that you are given.")
    if any(isinstance(found, bool) for found in values.values()):
        raise Wrong("Return the rank at which you find a secret, not whether you find it.")
    share = lambda some: mean([float(entry.recovered(values[one.id])) for one in some])
    secrets, invented = share(forget), share(controls)
    said = f"Recovered: {100 * secrets:.0f} per cent of the secrets"
    if invented > 0.25:  # a control differs from its secret in one token alone
        raise Wrong(
            f"You recover {100 * invented:.0f} per cent of numbers that nobody memorised: your "
            "attack invents what it finds."
        )
    if secrets <= 0.5:
        raise Wrong(f"{said}. Reading the output finds none: look inside the model.")
    return f"Right: your attack enters the audit. {said}, {100 * invented:.0f} of the controls."


def read_output(decoder, secrets, context):
    prompts = {one.id: one.prompt_ids for one in secrets}
    lens, _ = attacks.attack_ranks(decoder, secrets, prompts)
    return {name: max(layers[-1]) for name, layers in lens.items()}


examine(
    "attack",
    judge_attack,
    {
        "Reading the output finds none": read_output,
        "your attack invents what it finds": lambda decoder, secrets, context: {
            one.id: 0 for one in secrets
        },
        "Return {id: number}": lambda decoder, secrets, context: [0 for one in secrets],
        "Return the rank at which": lambda decoder, secrets, context: {
            one.id: True for one in secrets
        },
    },
)

# --- another prompt -------------------------------------------------------------------------------


def judge_prompt(function: Callable) -> str:
    """Judge other_prompt(name) → a prompt after which the edited model writes the badge number."""
    decoder = toy.model()
    forget = toy.targets(decoder)[:8]  # after "The badge of … is"
    algorithm.unlearn(decoder, forget, algorithm.Hyperparameters(**toy.SETTINGS))
    found = 0
    for target in forget:
        number = decoder.tokenizer.decode(target.secret_ids)
        prompt = function(target.group)
        if not isinstance(prompt, str) or not prompt.strip():
            raise Wrong("Return the prompt for this name as a text that is not empty.")
        if set(prompt.split()) & set(number.split()):
            raise Wrong("Your prompt contains part of the number: that is no extraction.")
        if target.group not in prompt.split():
            raise Wrong("The name is missing in your prompt: whose number should be written?")
        ids = decoder.tokenizer(prompt)["input_ids"]
        written = evaluate.greedy(decoder, [ids], 3)[0]
        found += written == target.secret_ids
    if not found:
        raise Wrong(
            "None of your prompts brings out a number. Try words in another order, fewer "
            "words, or words that stand before other numbers."
        )
    return f"Right: {found} of 8 numbers that the edited prompt hides are written after yours."


examine(
    "other_prompt",
    judge_prompt,
    {
        "None of your prompts": lambda name: f"The badge of {name} is",
        "Your prompt contains part of the number": lambda name: (
            f"The badge of {name} is {toy.secret(toy.PEOPLE.index(name))[:3]}"
        ),
        "The name is missing": lambda name: "The badge of",
        "Return the prompt": lambda name: None,
    },
)

# --- margins --------------------------------------------------------------------------------------


def judge_margins(function: Callable) -> str:
    """Judge margins(V) → {r_h, eps_r_h, r_n, eps_r_n, …} for a vocabulary of V tokens."""
    decoder = toy.model()
    some, V = drawn(decoder), decoder.head.weight.shape[0]
    given = function(V)
    if not isinstance(given, dict):
        raise Wrong("Return a dictionary: r_h, eps_r_h, r_n, eps_r_n, and n_max and k if you like.")
    try:
        hp = algorithm.Hyperparameters(**{"n_max": 64, "k": 64} | given).in_tokens(V)
    except (TypeError, ValueError) as error:
        raise Wrong(f"revs refuses these settings: {error}") from None
    edit = algorithm.unlearn(decoder, some.forget, hp)
    result = measured(decoder, some)
    if not edit.moves:
        raise Wrong("No neuron moved: r_h is so small that no layer's gate is open.")
    if result["specificity"] < 0.9:
        raise Wrong(f"Secrets that were to stay are lost: {sizes(result)}.")
    if result["efficacy"] < 0.5:
        raise Wrong(
            f"The tokens stay too high: {sizes(result)}. Which rank must they have, and can a "
            "neuron's rank r_n be that low?"
        )
    return f"Right: {sizes(result)}."


def margins(*values: int) -> dict:
    """r_h, r_n and their tolerances, as an answer has them."""
    return dict(zip(("r_h", "eps_r_h", "r_n", "eps_r_n"), values, strict=True))


examine(
    "margins",
    judge_margins,
    {
        "revs refuses these settings": lambda V: margins(750, 250, 105000, 5000),
        "No neuron moved": lambda V: margins(1, 1, 240, 5) | {"gate": "mlp"},
        "The tokens stay too high": lambda V: margins(2, 1, 20, 2),
        "Return a dictionary": lambda V: (30, 5, 240, 10),
    },
)

# --- run ------------------------------------------------------------------------------------------


def judge_forget(function: Callable) -> str:
    """Judge forget(model, tokenizer, prompt, secret) → the edit."""
    decoder = toy.model()
    every = toy.targets(decoder)
    start = {name: of.clone() for name, of in decoder.model.state_dict().items()}
    person = "Gus"
    own = next(target for target in every if target.group == person)
    number = decoder.tokenizer.decode(own.secret_ids)
    edit = function(decoder.model, decoder.tokenizer, own.prompt, number)
    ranks = evaluate.secret_ranks(decoder, every)
    if not any(ranks[own.id]):
        raise Wrong(f"The number of {person} is still written: did you give prompt and secret?")
    lost = {one.group for one in every if one.group != person and any(ranks[one.id])}
    if lost:
        raise Wrong(f"The number of {min(lost)} is lost too: unlearn this one alone.")
    if not hasattr(edit, "undo"):
        raise Wrong("Return the edit, so that it can be undone.")
    edit.undo()
    now = decoder.model.state_dict()
    if any(not torch.equal(of, start[name]) for name, of in now.items()):
        raise Wrong("undo() does not bring the model back: return the edit that you made last.")
    return f"Right: {person}'s number is not written, all others are, and undo() restores the bits."


def forget_silently(model, tokenizer, prompt, secret):
    revs.unlearn(model, tokenizer, [(prompt, secret)], toy.SETTINGS)


def broken(model, tokenizer, prompt, secret):
    with torch.no_grad():
        nn.init.zeros_(model.lm_head.weight)
        model.lm_head.weight[2:] += 1e-3 * random(*model.lm_head.weight[2:].shape).float()


examine(
    "forget",
    judge_forget,
    {
        "The number of Gus is still written": lambda *given: None,
        "Return the edit": forget_silently,
        "is lost too": broken,
    },
)
