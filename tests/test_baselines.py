"""The methods that REVS is compared with: their losses against the formulas written plainly, and what every method promises."""

import hashlib
import inspect
from dataclasses import replace
from itertools import product

import oracle
import pytest
import torch

from companion.runs import benign, methods
from revs.baselines import (
    ft_l,
    head_projection,
    max_entropy,
    memit,
    moments,
    npo_kl,
    prompts,
    rmu,
    simnpo,
)
from revs.baselines.training import Training
from revs.method import algorithm as method
from revs.method import zero
from revs.method.edit import Edit
from revs.model.targets import Target, pairs

KINDS = ("llama-tied", "llama-untied", "gptj")
MEMIT_LIKE = (memit, max_entropy, head_projection)
PROMPTS = ([5, 17, 230, 41, 99], [17, 230], [60, 61, 62, 63, 64, 65, 66, 67])


@pytest.fixture(autouse=True)
def nothing_in_the_project(monkeypatch, tmp_path_factory):
    """The moments of tiny models, of little text, are kept in one folder of this test run; contexts are short."""
    monkeypatch.setattr(moments, "BUILD", tmp_path_factory.getbasetemp() / "moments")
    monkeypatch.setattr(moments, "PER_NEURON", 6)
    monkeypatch.setattr(memit, "WRITTEN", 2)


@torch.no_grad()
def next_token(decoder, ids: list[int]) -> int:
    return int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())


def secrets(decoder) -> list[Target]:
    """Sentences of different lengths whose secrets begin and end with what the model is most likely to write there."""
    found = []
    for number, ids in enumerate(PROMPTS):
        t = next_token(decoder, ids)
        found.append(
            Target(
                f"s{number}",
                "ssn",
                f"g{number}",
                ids,
                [t, 50, next_token(decoder, [*ids, t, 50])],
                (0, 2),
            )
        )
    return found


def weights(decoder) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in decoder.model.state_dict().items()}


def same_bits(decoder, before: dict[str, torch.Tensor]) -> bool:
    return all(
        torch.equal(value, before[name]) for name, value in decoder.model.state_dict().items()
    )


def plain_log_p(decoder, ids: list[int]) -> torch.Tensor:
    """log p of every token after ``ids``, by a pass of this text alone."""
    return (
        decoder.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
    )


def look(
    decoder,
    texts: list[list[int]],
    at: dict,
    delta: torch.Tensor | None = None,
    layer: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Final hidden states and log p after texts of one length, δ added at the last token of a layer; ``at``: layer → its stream, filled in."""

    def hook(l):
        def at_layer(_module, _inputs, output):
            x = output if isinstance(output, torch.Tensor) else output[0]
            if l == layer and delta is not None:
                x = torch.cat([x[:, :-1], x[:, -1:] + delta], 1)
            at[l] = x
            return x if isinstance(output, torch.Tensor) else (x, *output[1:])

        return at_layer

    handles = [part.register_forward_hook(hook(l)) for l, part in enumerate(decoder.layers)]
    try:
        hidden = decoder.model.base_model(
            input_ids=torch.tensor(texts), use_cache=False
        ).last_hidden_state[:, -1]
    finally:
        for handle in handles:
            handle.remove()
    return hidden, decoder.head(hidden).log_softmax(-1)


# Losses against their formulas -----------------------------------------------------------------------------------


@pytest.fixture
def steps_follow(monkeypatch):
    """steps_follow(loss): from now on, every step's gradients must be those of loss(); returns the list of the losses."""
    step = Training.step

    def watch(loss):
        seen = []

        def checked(training):
            with torch.enable_grad():
                value = loss()
                wanted = torch.autograd.grad(value, training.weights, allow_unused=True)
            for weight, gradient in zip(training.weights, wanted):
                found = torch.zeros_like(weight) if weight.grad is None else weight.grad
                gradient = torch.zeros_like(weight) if gradient is None else gradient
                torch.testing.assert_close(
                    found, gradient, rtol=1e-4, atol=1e-6 * max(1.0, value.item())
                )
            seen.append(value.item())
            step(training)

        monkeypatch.setattr(Training, "step", checked)
        return seen

    return watch


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q) of log-probabilities over the last dimension."""
    return (p.exp() * (p - q)).sum(-1)


def test_ft_l_follows_the_mean_probability(decoder, steps_follow, monkeypatch):
    """1/N Σ p(tᵢ), whether the targets go through the model together or few at a time."""
    monkeypatch.setattr(ft_l, "TOGETHER", 4)
    todo = pairs(secrets(decoder))
    seen = steps_follow(
        lambda: sum(plain_log_p(decoder, ids)[t].exp() for ids, t in todo) / len(todo)
    )
    ft_l.unlearn(
        decoder,
        secrets(decoder),
        ft_l.Hyperparameters(lr=1e-3, norm_constraint=1e-1, steps=3, loss_break=1e-9),
    )
    assert len(seen) == 3 and seen[2] < seen[1] < seen[0]


def test_ft_l_takes_one_step_a_batch_and_stops_where_p_is_low(decoder, steps_follow, monkeypatch):
    """Batches are of neighbours by length; one whose mean p is below loss_break is left, and the end comes when all are."""
    todo = sorted(pairs(secrets(decoder)), key=lambda pair: len(pair[0]))
    parts, turn = [todo[:4], todo[4:]], iter(range(10))

    def loss():
        part = parts[next(turn) % 2]
        return sum(plain_log_p(decoder, ids)[t].exp() for ids, t in part) / len(part)

    seen = steps_follow(loss)
    ft_l.unlearn(
        decoder, secrets(decoder), ft_l.Hyperparameters(lr=1e-4, steps=2, batch=4, loss_break=1e-9)
    )
    assert len(seen) == 4
    before, steps = weights(decoder), []
    ft_l.unlearn(
        decoder,
        secrets(decoder),
        ft_l.Hyperparameters(steps=5, loss_break=0.99),
        progress=lambda *step: steps.append(step),
    )
    assert same_bits(decoder, before) and steps == [(0, 5), (5, 5)]


def test_an_adamw_step_goes_against_the_gradient_with_no_decay(decoder):
    """The first step of Adam is −lr·g/(|g| + ε): nothing else pulls at the weights."""
    todo, before = pairs(secrets(decoder)), [ff2.weight.detach().clone() for ff2 in decoder.ff2]
    loss = sum(plain_log_p(decoder, ids)[t].exp() for ids, t in todo) / len(todo)
    gradients = torch.autograd.grad(loss, [ff2.weight for ff2 in decoder.ff2])
    ft_l.unlearn(
        decoder,
        secrets(decoder),
        ft_l.Hyperparameters(lr=1e-3, norm_constraint=1.0, steps=1, loss_break=1e-9),
    )
    for ff2, old, gradient in zip(decoder.ff2, before, gradients):
        clear = gradient.abs() > 1e-5
        assert clear.float().mean() > 0.5
        torch.testing.assert_close(
            (ff2.weight - old)[clear],
            (-1e-3 * gradient / (gradient.abs() + 1e-8))[clear],
            rtol=0,
            atol=2e-6,
        )


@pytest.mark.parametrize("beta", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    "loss, plain",
    [
        (
            lambda log_p, ref, beta: npo_kl.objective(log_p, ref, beta),
            lambda p, ref, beta: 2 / beta * (1 + (p / ref) ** beta).log().mean(),
        ),
        (
            lambda log_p, ref, beta: simnpo.objective(log_p, beta, 0.7),
            lambda p, ref, beta: 2 / beta * (1 + (p * torch.e**0.7) ** beta).log().mean(),
        ),
    ],
    ids=["npo", "simnpo"],
)
def test_preference_losses_are_their_formulas(loss, plain, beta):
    """NPO: 2/β · log(1 + (p/p_ref)^β), SimNPO: 2/β · log(1 + (p·e^γ)^β), values and gradients."""
    log_p = (
        -torch.rand(7, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    ).requires_grad_()
    reference = -torch.rand(7, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 3
    found, wanted = loss(log_p, reference, beta), plain(log_p.exp(), reference.exp(), beta)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        *(torch.autograd.grad(value, log_p)[0] for value in (found, wanted)), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("module", [npo_kl, simnpo])
def test_npo_and_simnpo_follow_their_losses_and_kl_on_benign_text(
    decoder, twin, steps_follow, module
):
    """p_ref is the unedited model's, at every step; KL(p_ref ‖ p_θ) is over all positions of one benign window a target."""
    targets, before = secrets(decoder), twin(decoder)
    todo = [
        (ids[-4:], t) for ids, t in pairs(targets)
    ]  # n_max_len: four characters are four tokens here
    texts = benign.windows(decoder.tokenizer, len(todo), 32)
    with torch.no_grad():
        reference = [plain_log_p(before, ids)[t].exp() for ids, t in todo]
        benign_before = before.model(input_ids=torch.tensor(texts)).logits.log_softmax(-1)

    def loss():
        p = [plain_log_p(decoder, ids)[t].exp() for ids, t in todo]
        ratio = (
            [a / b for a, b in zip(p, reference)]
            if module is npo_kl
            else [a * torch.e**0.5 for a in p]
        )
        forget = sum(2 / 0.3 * (1 + r**0.3).log() for r in ratio) / len(todo)
        return (
            forget
            + 3
            * kl(
                benign_before, decoder.model(input_ids=torch.tensor(texts)).logits.log_softmax(-1)
            ).mean()
        )

    seen = steps_follow(loss)
    more = {} if module is npo_kl else {"gamma": 0.5}
    module.unlearn(
        decoder,
        targets,
        module.Hyperparameters(
            lr=1e-3, epochs=3, beta=0.3, kl_coefficient=3.0, n_max_len=4, batch=6, **more
        ),
    )
    assert len(seen) == 3 and seen[-1] < seen[0]
    if module is npo_kl:
        assert seen[0] == pytest.approx(
            2 / 0.3 * torch.tensor(2.0).log().item(), rel=1e-5
        )  # p = p_ref, KL = 0


def test_without_a_kl_coefficient_benign_text_plays_no_part(decoder, steps_follow):
    todo = pairs(secrets(decoder))
    reference = [plain_log_p(decoder, ids)[t].exp().detach() for ids, t in todo]
    seen = steps_follow(
        lambda: (
            sum(
                2 * (1 + plain_log_p(decoder, ids)[t].exp() / ref).log()
                for (ids, t), ref in zip(todo, reference)
            )
            / len(todo)
        )
    )
    npo_kl.unlearn(
        decoder,
        secrets(decoder),
        npo_kl.Hyperparameters(lr=1e-3, epochs=2, beta=1.0, kl_coefficient=0.0, batch=6),
    )
    assert len(seen) == 2


def test_rmu_steers_the_last_token_and_holds_benign_text(decoder, twin, steps_follow):
    """Mean over targets of ‖x − c·u‖²/d plus α · the mean of ‖x − x₀‖²/d over benign positions, at one layer."""
    before, todo, d = twin(decoder), [ids for ids, _ in pairs(secrets(decoder))], 16
    texts = benign.windows(decoder.tokenizer, len(todo), 32)
    u = torch.rand(d, generator=torch.Generator().manual_seed(3)).double()
    wanted = 5 * u / u.norm()

    def stream(model, *texts):
        at = {}
        look(model, texts, at)
        return at[1]

    with torch.no_grad():
        frozen = stream(before, *texts)

    def loss():
        steered = sum(
            ((stream(decoder, ids)[0, -1] - wanted) ** 2).sum() / d for ids in todo
        ) / len(todo)
        return steered + 7 * ((stream(decoder, *texts) - frozen) ** 2).sum() / d / 32 / len(texts)

    seen = steps_follow(loss)
    rmu.unlearn(
        decoder,
        secrets(decoder),
        rmu.Hyperparameters(
            lr=1e-3,
            epochs=3,
            alpha=7.0,
            steering_coefficient=5.0,
            layer_id=1,
            layers=[0, 1],
            batch=6,
        ),
        seed=3,
    )
    assert len(seen) == 3 and seen[-1] < seen[0]


@pytest.mark.parametrize(
    "module, more", [(npo_kl, {}), (simnpo, {}), (rmu, {"layer_id": 1, "layers": [1]})]
)
def test_every_target_has_its_turn_once_an_epoch_in_the_seed_s_order(
    build, module, more, monkeypatch
):
    """Batches partition the targets, with their own windows; another seed gives another order."""
    decoder, orders = build("llama-untied"), []
    for seed in (0, 0, 1):
        seen = []
        original = npo_kl.log_p if module is not rmu else rmu.stream
        patched = (npo_kl, "log_p") if module is not rmu else (rmu, "stream")
        with monkeypatch.context() as patch:
            patch.setattr(
                *patched,
                lambda model, items, *rest: (
                    seen.append([str(i) for i in items]) or original(model, items, *rest)
                ),
            )
            module.unlearn(
                decoder, secrets(decoder), module.Hyperparameters(epochs=2, batch=4, **more), seed
            ).undo()
        texts = [str(i) for i in benign.windows(decoder.tokenizer, 6, 32)]
        turns = [batch for batch in seen if not set(batch) & set(texts)]
        orders.append(turns[-4:])
        assert [len(batch) for batch in orders[-1]] == [4, 2, 4, 2]
        assert (
            sorted(orders[-1][0] + orders[-1][1]) == sorted(orders[-1][2] + orders[-1][3])
            and len(set(orders[-1][0] + orders[-1][1])) == 6
        )
    assert orders[0] == orders[1] != orders[2]


# MEMIT: z --------------------------------------------------------------------------------------------------------

REQUESTS = [([5, 17, 230, 41, 99], 3), ([41], 7), ([17, 230, 60], 33)]
CONTEXTS = [[], [60, 61, 13], [9, 80]]


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_one_token_after_a_kept_prefix_is_the_whole_pass(decoder, layer):
    """Hidden states, lens states and the gradient by δ, for prompts of different lengths, one of a single token."""
    decoder.model.requires_grad_(False)
    ids = [ids for ids, _ in REQUESTS]
    model = memit.LastToken(decoder, ids, layer, (0, 2))
    delta = (
        torch.randn(3, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).requires_grad_()
    mix = torch.randn(3, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for _ in range(2):  # a call leaves nothing behind
        final, seen, h = model(delta)
        at = [{} for _ in ids]
        plain = torch.cat(
            [
                look(decoder, [prompt], kept, delta[i], layer)[0]
                for i, (prompt, kept) in enumerate(zip(ids, at))
            ]
        )
        torch.testing.assert_close(final, plain)
        for l, states in zip((0, 2), seen):
            torch.testing.assert_close(states, torch.cat([kept[l][:, -1] for kept in at]))
        torch.testing.assert_close(h + delta, torch.cat([kept[layer][:, -1] for kept in at]))
        torch.testing.assert_close(
            *(
                torch.autograd.grad((states * mix).sum(), delta, retain_graph=True)[0]
                for states in (final, plain)
            )
        )
    torch.testing.assert_close(model.h, h)


def plain_loss(
    decoder,
    module,
    hp,
    layer: int,
    ids: list[int],
    t: int,
    delta: torch.Tensor,
    first: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One request's loss as a function of δ, with a pass for each context, and log p of the prompt alone."""
    at = {}
    alone = look(decoder, [ids], at, delta, layer)[1][0]
    h = at[layer][0, -1].detach() - delta.detach()
    p = (
        alone[t].exp()
        + sum(
            look(decoder, [context + ids], {}, delta, layer)[1][0, t].exp()
            for context in CONTEXTS[1:]
        )
    ) / len(CONTEXTS)
    loss = hp.prob_coefficient * p + hp.weight_decay * delta.norm() / (h @ h)
    loss = loss + hp.kl_factor * kl(alone.detach() if first is None else first, alone)
    for l in (1, 2) if module is not memit else ():
        lens = decoder.head(decoder.norm(at[l][0, -1])).softmax(-1)
        if module is max_entropy:
            loss = loss + (torch.tensor(300.0).log() + (lens * lens.log()).sum()) / 2
        else:
            loss = loss + (lens[t] - lens.sort(descending=True).values[hp.k - 1]).clamp_min(0) / 2
    return loss, alone.detach()


SEARCH = {
    "layers": [1],
    "steps": 4,
    "lr": 0.1,
    "prob_coefficient": 3.0,
    "kl_factor": 0.5,
    "weight_decay": 2.0,
    "clamp_norm_factor": 0.05,
    "loss_break": 1e-9,
}


@pytest.mark.parametrize("module", MEMIT_LIKE)
def test_z_is_found_by_adam_on_the_objective(decoder, module):
    """Every request has its own δ: Adam's steps written plainly, the ball of clamp_norm_factor, steps − 1 of them as in the source."""
    decoder.model.requires_grad_(False)
    hp = module.Hyperparameters(**SEARCH, **({"k": 40} if module is head_projection else {}))
    objective = lambda log_p, lens, t: module.objective(log_p, lens, t, hp)
    requests = [(ids, next_token(decoder, ids)) for ids, _ in REQUESTS[:2]]
    z = memit.compute_z(
        decoder,
        requests,
        CONTEXTS,
        1,
        hp,
        objective,
        () if module is memit else (1, 2),
        lambda step: None,
    )
    clamped = 0
    for (ids, t), found in zip(requests, z):
        h, delta, first, m, v = (
            oracle.look(decoder, ids, 1)[2],
            torch.zeros(16, dtype=torch.float64),
            None,
            0.0,
            0.0,
        )
        for step in range(1, hp.steps):
            delta.requires_grad_()
            loss, alone = plain_loss(decoder, module, hp, 1, ids, t, delta, first)
            first = alone if first is None else first
            gradient = torch.autograd.grad(loss, delta)[0]
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            delta = delta.detach() - hp.lr * (m / (1 - 0.9**step)) / (
                (v / (1 - 0.999**step)).sqrt() + 1e-8
            )
            clamped += bool(delta.norm() > hp.clamp_norm_factor * h.norm())
            delta = delta * min(1.0, float(hp.clamp_norm_factor * h.norm() / delta.norm()))
        torch.testing.assert_close(found.double(), h + delta, rtol=1e-3, atol=1e-4)
    assert clamped


@pytest.mark.parametrize("module", MEMIT_LIKE)
def test_losses_of_z_are_their_formulas(module):
    """coef · mean over contexts of p(t), and for the lens: log V − H, or how far t stands above the k-th token; for single values."""
    draw = torch.Generator().manual_seed(0)
    log_p, lens = (
        torch.randn(3, 4, 30, generator=draw, dtype=torch.float64).log_softmax(-1),
        (4 * torch.randn(2, 4, 30, generator=draw, dtype=torch.float64)).log_softmax(-1),
    )
    t = torch.tensor([int(lens[0, 0].argmax()), 7, int(lens[1, 2].argmax()), 0])
    hp = module.Hyperparameters(
        prob_coefficient=2.5, **({"k": 4} if module is head_projection else {})
    )
    wanted = []
    for i in range(4):
        loss = 2.5 * sum(log_p[c, i, t[i]].exp() for c in range(3)) / 3
        for l in range(2):
            p = lens[l, i].exp()
            if module is max_entropy:
                loss += (
                    torch.tensor(30.0, dtype=torch.float64).log() + sum(x * x.log() for x in p)
                ) / 2
            if module is head_projection:
                loss += max(0.0, p[t[i]] - sorted(p.tolist())[-4]) / 2
        wanted.append(float(loss))
    assert module.objective(log_p, lens, t, hp).tolist() == pytest.approx(wanted, rel=1e-9)
    if module is head_projection:
        assert (
            module.objective(log_p, lens, t, replace(hp, k=1000)).isfinite().all()
        )  # more than there are tokens


def test_a_request_whose_loss_is_low_stays_where_it_is(decoder):
    """loss_break holds for each request by itself: others go on."""
    decoder.model.requires_grad_(False)
    requests = [(ids, next_token(decoder, ids)) for ids, _ in REQUESTS]
    requests[1] = (REQUESTS[1][0], int(plain_log_p(decoder, REQUESTS[1][0]).argmin()))
    hp = memit.Hyperparameters(**SEARCH | {"loss_break": 3e-2, "kl_factor": 0.0})
    z = memit.compute_z(
        decoder,
        requests,
        [[]],
        1,
        hp,
        lambda log_p, lens, t: memit.objective(log_p, lens, t, hp),
        (),
        lambda step: None,
    )
    h = memit.LastToken(decoder, [ids for ids, _ in requests], 1, ()).h.float()
    moved = (z - h).norm(dim=1)
    assert moved[1] == 0 and moved[0] > 0.1 and moved[2] > 0.1


# MEMIT: FF₂ ------------------------------------------------------------------------------------------------------


def plain_key(decoder, ids: list[int], layer: int) -> torch.Tensor:
    return oracle.look(decoder, ids, layer)[0]


@torch.no_grad()
def plain_keys(decoder, layer: int) -> torch.Tensor:
    """Half the prompt alone, half the mean of its contexts: (ff, N)."""
    alone = [plain_key(decoder, ids, layer) for ids, _ in REQUESTS]
    others = [
        sum(plain_key(decoder, context + ids, layer) for context in CONTEXTS[1:]) / 2
        for ids, _ in REQUESTS
    ]
    return torch.stack([(a + b) / 2 for a, b in zip(alone, others)], 1)


@pytest.mark.parametrize("layers", [[1], [0, 1, 2]])
def test_what_is_inserted_solves_the_normal_equations(decoder, twin, layers):
    """Δ·(λC + K·Kᵀ) = R·Kᵀ in each layer in turn, with keys and the residual from what the model says by then, R shared out."""
    ff, last, plain = 64, layers[-1], twin(decoder)
    draw = torch.Generator().manual_seed(0)
    C = {l: (lambda A: A @ A.T / 100)(torch.randn(ff, 100, generator=draw)) for l in layers}
    z = torch.randn(len(REQUESTS), 16, generator=draw)
    hp = memit.Hyperparameters(layers=layers, mom2_update_weight=0.3)
    memit.insert(decoder, REQUESTS, CONTEXTS, layers, z, C, hp)
    for number, l in enumerate(layers):
        with torch.no_grad():
            K = plain_keys(plain, l)
            present = torch.stack([oracle.look(plain, ids, last)[2] for ids, _ in REQUESTS], 1)
            R = (z.T - present) / (len(layers) - number)
            delta = decoder.ff2[l].weight - plain.ff2[l].weight
            torch.testing.assert_close(
                delta @ (0.3 * C[l] + K @ K.T), R @ K.T, rtol=1e-4, atol=1e-4
            )
            assert delta.norm() > 1e-2
            plain.ff2[l].weight.copy_(decoder.ff2[l].weight)


def test_with_a_small_moment_the_stream_arrives_at_z(build):
    """λ → 0 and no contexts but the prompt: what is inserted makes the layer say z."""
    decoder = build("llama-untied")
    z = torch.randn(len(REQUESTS), 16, generator=torch.Generator().manual_seed(0))
    hp = memit.Hyperparameters(layers=[1], mom2_update_weight=1e-9)
    memit.insert(decoder, REQUESTS, [[], []], [1], z, {1: torch.eye(64)}, hp)
    with torch.no_grad():
        arrived = torch.stack([oracle.look(decoder, ids, 1)[2] for ids, _ in REQUESTS])
    torch.testing.assert_close(arrived.float(), z, rtol=1e-3, atol=1e-3)


def test_moments_are_means_over_benign_tokens(decoder):
    """E[a·aᵀ] by a pass for each window; as many tokens as PER_NEURON asks for, in windows that the model can read."""
    windows = benign.windows(
        decoder.tokenizer, 3, 96
    )  # 6 tokens a neuron · 64 neurons / 128 tokens a window; 96 fit
    total = torch.zeros(64, 64, dtype=torch.float64)

    def add(_module, args):
        for a in args[0][0]:
            total.add_(torch.outer(a, a))

    handle = decoder.ff2[1].register_forward_pre_hook(add)
    with torch.no_grad():
        for ids in windows:
            decoder.model(input_ids=torch.tensor([ids]))
    handle.remove()
    found = moments.moments(decoder, [1, 0])  # one pass for both, that ends at the last
    assert list(found) == [1, 0] and found[1].dtype == torch.float32
    torch.testing.assert_close(found[1].double(), total / (3 * 96), rtol=1e-4, atol=1e-5)


def test_a_moment_is_kept_until_a_weight_changes(build, monkeypatch, tmp_path):
    monkeypatch.setattr(moments, "BUILD", tmp_path)
    measure, measured = moments.measure, []
    monkeypatch.setattr(
        moments,
        "measure",
        lambda decoder, layers, windows: (
            measured.append(layers) or measure(decoder, layers, windows)
        ),
    )
    decoder = build("llama-tied", dtype=torch.float32)
    first, again = moments.moments(decoder, [0, 1]), moments.moments(decoder, [1, 0])
    assert (
        measured == [[0, 1]]
        and all(torch.equal(first[l], again[l]) for l in (0, 1))
        and list(again) == [1, 0]
    )
    with torch.no_grad():
        decoder.layers[0].self_attn.q_proj.weight[0, 0] += 0.5
    assert not torch.equal(moments.moments(decoder, [1])[1], first[1]) and measured == [[0, 1], [1]]
    assert len(list((tmp_path / "cache").iterdir())) == 3  # nothing half-written lies beside them


def test_contexts_are_what_the_model_writes(decoder):
    """Greedy tokens after each word, a full stop and a blank."""
    tokenizer = decoder.tokenizer
    for context, word in zip(memit.write_contexts(decoder), memit.CONTEXTS, strict=True):
        ids = tokenizer(word)["input_ids"]
        for _ in range(memit.WRITTEN):
            ids = [*ids, next_token(decoder, ids)]
        assert context == ids + tokenizer(". ")["input_ids"]


def test_a_prompt_is_cut_to_its_last_characters(decoder):
    """n_max_len: as few tokens as cover them; a special first token stays, and goes where a context begins with it."""
    eos, ids = 256, decoder.tokenizer("The number is ")["input_ids"]
    assert prompts.tail(decoder, ids, 4) == ids[-4:] and prompts.tail(decoder, ids, 100) == ids
    assert prompts.tail(decoder, [eos, *ids], 4) == [eos, *ids[-4:]] and prompts.tail(
        decoder, [eos, *ids], 100
    ) == [eos, *ids]
    assert memit.in_context([eos, 1], [eos, *ids], decoder) == [eos, 1, *ids]
    assert memit.in_context([], [eos, *ids], decoder) == [eos, *ids] and memit.in_context(
        [1, 2], ids, decoder
    ) == [1, 2, *ids]


# What every method promises --------------------------------------------------------------------------------------

NAMES = [
    name for name, entry in methods.registry().items() if "module" in entry and name != "unedited"
]
REWRITING = {
    "lr": 1.0,
    "mom2_update_weight": 0.1,
    "steps": 4,
    "prob_coefficient": 10.0,
    "loss_break": 1e-9,
}
SETTINGS = {
    "ft_l": {"lr": 1e-2, "norm_constraint": 1e-1, "steps": 3, "loss_break": 1e-9},
    "memit": REWRITING | {"layers": [1]},
    "max_entropy": REWRITING | {"layers": [0, 1], "patil_layers": [1, 2]},
    "head_projection": REWRITING | {"layers": [0, 1], "patil_layers": "upper", "k": 40},
    "rmu": {
        "layer_id": 2,
        "layers": [1, 2],
        "lr": 5e-2,
        "epochs": 3,
        "batch": 6,
        "alpha": 1.0,
        "steering_coefficient": 30.0,
    },
    "npo_kl": {"lr": 1e-2, "batch": 6},
    "simnpo": {"lr": 1e-2, "batch": 6},
    "zero": {"n": 6, "k": 40, "r_h": 0.4},
}


@pytest.mark.parametrize(
    "name, kind, dtype", list(product(NAMES, KINDS, (torch.float32, torch.bfloat16))), ids=str
)
def test_a_method_unlearns_repeatably_and_is_undone_exactly(build, name, kind, dtype):
    """Targets become less likely and rank lower; bits, flags and the number of steps are as promised; a seed says everything."""
    decoder = build(kind, dtype=dtype)
    targets, module = secrets(decoder), methods.method(name)
    hp, todo = module.Hyperparameters(**SETTINGS.get(name, {})), pairs(targets)
    for number, parameter in enumerate(decoder.model.parameters()):
        parameter.requires_grad_(number % 3 > 0)
    flags, before = (
        [parameter.requires_grad for parameter in decoder.model.parameters()],
        weights(decoder),
    )
    with torch.no_grad():
        was = prompts.log_p(decoder, todo)
    runs = []
    for _ in range(2 if dtype == torch.float32 else 1):
        steps = []
        edit = module.unlearn(decoder, targets, hp, 1, lambda *step: steps.append(step))
        with torch.no_grad():
            log_p = prompts.log_p(decoder, todo)
        runs.append((weights(decoder), edit.summary()))
        assert (
            steps[-1][0] == steps[-1][1]
            and all(done <= total for done, total in steps)
            and len(steps) > 1
        )
        assert [done for done, _ in steps] == sorted(done for done, _ in steps) and len(
            {total for _, total in steps}
        ) == 1
        assert [parameter.requires_grad for parameter in decoder.model.parameters()] == flags
        assert all(parameter.grad is None for parameter in decoder.model.parameters())
        norms = edit.norms()
        edit.undo()
        assert same_bits(decoder, before) and edit.whole == {} and edit.originals == {}
    (first, summary), (again, same) = runs[0], runs[-1]
    assert (
        all(torch.equal(first[key], again[key]) for key in first)
        and summary == same
        and summary["norm"] > 0
    )
    if name == "random":
        revs = method.unlearn(decoder, targets, hp, 1)
        for l, kept in revs.norms().items():
            assert sorted(norms[l].values()) == pytest.approx(
                sorted(kept.values()), rel=1e-5 if dtype == torch.float32 else 3e-2, abs=1e-2
            )
        assert list(norms) == list(revs.norms())
    else:
        assert log_p.mean() < was.mean() - 0.2


def test_no_edit_is_none(decoder):
    before, module = weights(decoder), methods.method("unedited")
    edit = module.unlearn(decoder, secrets(decoder), module.Hyperparameters(), 1)
    assert same_bits(decoder, before) and edit.summary() == {
        "layers": [],
        "columns": 0,
        "weights": 0,
        "moves": 0,
        "unreached": 0,
        "norm": 0.0,
    }


@pytest.mark.parametrize("name", ["revs", "zero"])
def test_what_a_method_has_done_is_undone_if_it_is_interrupted(decoder, name):
    before, module = weights(decoder), methods.method(name)

    def stop(done: int, total: int) -> None:
        if done == total - 1:
            raise KeyboardInterrupt

    hp = module.Hyperparameters(**SETTINGS.get(name, {}))
    edit = module.unlearn(decoder, secrets(decoder), hp)
    assert edit.layers
    edit.undo()
    with pytest.raises(KeyboardInterrupt):
        module.unlearn(decoder, secrets(decoder), hp, 0, stop)
    assert same_bits(decoder, before)


@pytest.mark.parametrize("name", ["rmu", "npo_kl", "simnpo", "random"])
def test_another_seed_is_another_edit(build, name):
    decoder = build("llama-tied", dtype=torch.float32)
    module, found = methods.method(name), []
    for seed in (0, 1):
        edit = module.unlearn(
            decoder, secrets(decoder), module.Hyperparameters(**SETTINGS.get(name, {})), seed
        )
        found.append(
            edit.summary()["norm"] if name != "random" else sorted(edit.norms()[edit.layers[0]])
        )
        edit.undo()
    assert found[0] != found[1]


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_the_same_signature(name):
    """(decoder, targets, hp, seed, progress): what the experiments call."""
    assert list(inspect.signature(methods.method(name).unlearn).parameters) == [
        "decoder",
        "targets",
        "hp",
        "seed",
        "progress",
    ]


def test_only_what_a_method_names_is_changed(build):
    """FT-L, RMU and MEMIT: FF₂ of their layers; NPO: everything."""
    decoder = build("llama-untied")
    ff2 = [f"{name}.weight" for name, part in decoder.model.named_modules() if part in decoder.ff2]
    for name, settings, layers in (
        ("ft_l", {"layers": [0, 2]}, [0, 2]),
        ("ft_l", {"layers": "upper"}, [1, 2]),
        ("ft_l", {"layers": "all"}, [0, 1, 2]),
        ("rmu", {"layers": [2]}, [2]),
        ("memit", {"layers": [1]}, [1]),
        ("max_entropy", {"layers": [1, 0]}, [0, 1]),
        ("head_projection", {"layers": [2]}, [2]),
    ):
        before, module = weights(decoder), methods.method(name)
        edit = module.unlearn(
            decoder, secrets(decoder), module.Hyperparameters(**SETTINGS[name] | settings)
        )
        changed = {
            key
            for key, value in decoder.model.state_dict().items()
            if not torch.equal(value, before[key])
        }
        assert (
            changed == {ff2[l] for l in layers}
            and edit.layers == layers == edit.summary()["layers"]
        )
        edit.undo()
    edit = npo_kl.unlearn(decoder, secrets(decoder), npo_kl.Hyperparameters(lr=1e-3))
    assert set(edit.whole) == {name for name, _ in decoder.model.named_parameters()}


def test_the_size_of_an_edit_of_whole_weights(decoder):
    """Columns of FF₂, single weights and the norm, counted by hand."""
    edit, weight = Edit(decoder), decoder.ff2[1].weight
    edit.keep_whole(prompts.ff2_names(decoder, [1]))
    edit.keep_whole(prompts.ff2_names(decoder, [1]))  # the first original stays
    with torch.no_grad():
        weight[3, 5] += 3
        weight[4, 5] -= 4
        weight[0, 7] += 12
    edit.keep_whole(prompts.ff2_names(decoder, [1]))
    assert edit.summary() == {
        "layers": [1],
        "columns": 2,
        "weights": 3,
        "moves": 0,
        "unreached": 0,
        "norm": pytest.approx(13),
    }
    edit.undo()
    assert edit.summary()["norm"] == 0 and edit.layers == []


# Steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_small_steps_add_up_in_low_precision(build, dtype):
    """Each of 300 steps is far below the weights' rounding; together they move every weight by their sum."""
    decoder = build("llama-untied", dtype=dtype)
    weight = decoder.ff2[0].weight
    before = weight.detach().float().clone()
    with Training(decoder, prompts.ff2_names(decoder, [0]), 1e-5, "Test") as training:
        for _ in range(300):
            training.clear()
            training.backward(weight.float().sum())
            training.step()
    moved = weight.detach().float() - before
    big = before.abs() > 0.1
    assert (torch.finfo(dtype).eps * before[big].abs() > 2e-5).all() or dtype == torch.float32
    assert moved.mean() == pytest.approx(-3e-3, rel=0.2) and weight.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_ft_l_stays_within_its_ball(build, dtype):
    """‖θ − θ₀‖_∞ ≤ norm_constraint, up to the weights' own rounding, and the border is reached."""
    decoder = build("gptj", dtype=dtype)
    before = weights(decoder)
    ft_l.unlearn(
        decoder,
        secrets(decoder),
        ft_l.Hyperparameters(lr=1e-2, norm_constraint=2e-2, steps=6, loss_break=1e-9),
    )
    moved = torch.stack(
        [
            decoder.model.state_dict()[name].double() - before[name].double()
            for name in prompts.ff2_names(decoder, range(3))
        ]
    ).abs()
    assert moved.max() <= 2e-2 + (1e-7 if dtype == torch.float32 else 4e-3)
    assert (moved > 1.9e-2).float().mean() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "name, settings",
    [
        ("ft_l", {"lr": float("inf"), "norm_constraint": float("inf")}),
        ("rmu", {"lr": 1e30, "epochs": 3}),
        ("npo_kl", {"lr": 1e30}),
        ("simnpo", {"lr": 1e30}),
        ("memit", {"lr": float("inf")}),
        ("max_entropy", {"lr": float("inf")}),
        ("head_projection", {"lr": float("inf")}),
    ],
)
def test_divergence_says_so_and_leaves_the_model_as_it_was(
    build, name, settings, dtype, one_sentence
):
    """One sentence with the learning rate; every bit and every flag as before."""
    decoder, module = build("llama-untied", dtype=dtype), methods.method(name)
    decoder.ff2[0].weight.requires_grad_(False)
    before = weights(decoder)
    with pytest.raises(
        FloatingPointError,
        match=r"diverged \(.*no longer a number\): lower the learning rate of (1e\+30|inf)",
    ) as error:
        module.unlearn(
            decoder, secrets(decoder), module.Hyperparameters(**SETTINGS[name] | settings)
        )
    assert one_sentence(error) and same_bits(decoder, before)
    assert [
        name for name, p in decoder.model.named_parameters() if not p.requires_grad
    ] == prompts.ff2_names(decoder, [0])
    assert all(parameter.grad is None for parameter in decoder.model.parameters())


def test_a_loss_or_a_weight_that_is_no_number_ends_training(build, one_sentence):
    """An infinite loss at once; a weight that is none at the end, also if the last step made it so."""
    decoder = build("llama-tied", dtype=torch.float32)
    before, names, weight = weights(decoder), prompts.ff2_names(decoder, [1]), decoder.ff2[1].weight
    for bad in (float("inf"), float("nan")):
        with pytest.raises(
            FloatingPointError, match="Test diverged .*: lower the learning rate of 0.5"
        ) as error:
            with Training(decoder, names, 0.5, "Test") as training:
                training.backward(weight.sum())
                training.step()
                assert not same_bits(decoder, before)
                training.backward(weight.sum() * bad)
        assert one_sentence(error) and same_bits(decoder, before)
    with pytest.raises(FloatingPointError, match="Test diverged"):
        with Training(decoder, names, 0.5, "Test"), torch.no_grad():
            weight[0, 0] = float("nan")
    assert same_bits(decoder, before)


def test_training_that_cannot_begin_leaves_flags_alone(build):
    """An optimiser may refuse its settings, or memory for the float32 copies run out."""
    decoder = build("llama-tied", dtype=torch.float32)
    with (
        pytest.raises(ValueError),
        Training(decoder, ["model.embed_tokens.weight"], float("nan"), "Test"),
    ):
        pass
    assert all(parameter.requires_grad for parameter in decoder.model.parameters())


@pytest.mark.parametrize("module", MEMIT_LIKE)
def test_a_z_that_is_no_number_does_not_reach_the_weights(build, module, monkeypatch, one_sentence):
    """The weights are looked at after the last layer; the model is as before."""
    decoder = build("gptj", dtype=torch.float32)
    before = weights(decoder)
    monkeypatch.setattr(
        memit,
        "compute_z",
        lambda decoder, requests, *_: torch.full((len(requests), 16), float("nan")),
    )
    with pytest.raises(
        FloatingPointError, match="diverged .a weight is no longer a number.: lower"
    ) as error:
        module.unlearn(decoder, secrets(decoder), module.Hyperparameters(layers=[0, 1]))
    assert one_sentence(error) and same_bits(decoder, before)


@pytest.mark.parametrize(
    "name", ["ft_l", "rmu", "npo_kl", "simnpo", "memit", "max_entropy", "head_projection"]
)
def test_an_interruption_puts_the_model_back(build, name):
    """Ctrl-C in the middle of it is an exception like any other."""
    decoder, module = build("llama-tied", dtype=torch.float32), methods.method(name)
    before = weights(decoder)

    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        module.unlearn(
            decoder, secrets(decoder), module.Hyperparameters(**SETTINGS[name]), 0, interrupt
        )
    assert same_bits(decoder, before) and all(
        parameter.requires_grad for parameter in decoder.model.parameters()
    )


# Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, settings, said",
    [
        ("ft_l", {"layers": [1, 3]}, r"layers are \[1, 3\], but .* has the layers 0 to 2"),
        ("ft_l", {"layers": []}, r"layers are \[\], but"),
        ("memit", {"layers": [7]}, r"layers are \[7\], but"),
        ("max_entropy", {"layers": [0, 3]}, r"layers are \[0, 3\], but"),
        ("max_entropy", {"patil_layers": [3]}, r"layers are \[3\], but"),
        ("head_projection", {"patil_layers": [1, 9]}, r"layers are \[1, 9\], but"),
        ("rmu", {"layer_id": 3, "layers": [1]}, r"layers are \[3\], but"),
        ("ft_l", {"layers": [-1]}, r"layers are \[-1\], but"),
        ("memit", {"layers": [-1]}, r"layers are \[-1\], but"),
        ("ft_l", {"layers": "uper"}, "layers are 'uper', but"),
    ],
)
def test_layers_that_the_model_does_not_have_are_refused(
    decoder, name, settings, said, one_sentence
):
    before, module = weights(decoder), methods.method(name)
    with pytest.raises(ValueError, match=said) as error:
        module.unlearn(
            decoder, secrets(decoder), module.Hyperparameters(**SETTINGS[name] | settings)
        )
    assert (
        one_sentence(error)
        and same_bits(decoder, before)
        and all(parameter.requires_grad for parameter in decoder.model.parameters())
    )


@pytest.mark.parametrize(
    "module, wrong, said",
    [
        (ft_l, {"lr": 0}, "lr is 0"),
        (ft_l, {"norm_constraint": -1e-3}, "norm_constraint -0.001"),
        (ft_l, {"steps": 0}, "steps is 0"),
        (ft_l, {"batch": 0}, "batch 0"),
        *(
            (module, wrong, said)
            for module in MEMIT_LIKE
            for wrong, said in (
                ({"steps": 0}, "steps is 0"),
                ({"n_max_len": 0}, "n_max_len 0"),
                ({"lr": -1.0}, "lr is -1.0"),
                ({"clamp_norm_factor": 0}, "clamp_norm_factor 0"),
                ({"mom2_update_weight": 0.0}, "mom2_update_weight 0.0"),
            )
        ),
        *(
            (module, wrong, said)
            for module in (npo_kl, simnpo)
            for wrong, said in (
                ({"lr": 0.0}, "lr is 0.0"),
                ({"beta": 0}, "beta 0"),
                ({"kl_coefficient": -1}, "kl_coefficient -1"),
                ({"epochs": 0}, "epochs is 0"),
                ({"batch": 0}, "batch 0"),
                ({"n_max_len": 0}, "n_max_len 0"),
            )
        ),
        (rmu, {"lr": 0}, "lr is 0"),
        (rmu, {"alpha": -1}, "alpha -1"),
        (rmu, {"epochs": 0}, "epochs is 0"),
        (rmu, {"batch": 0}, "batch 0"),
        (rmu, {"layer_id": 6}, "layer_id is 6"),
        (zero, {"n": 0}, "n is 0"),
        (zero, {"n": 9, "k": 8}, "n is 9 and k is 8"),
        (zero, {"r_h": -1}, "r_h is -1"),
        (head_projection, {"k": 0}, "k is 0"),
        (rmu, {"layers": []}, r"layers are \[\]"),
        (
            method,
            {"neurons": "best"},
            "neurons is 'best', but must be one of hybrid, activations, rank, gradient, random",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(module, wrong, said, one_sentence):
    """One sentence names the setting and its value."""
    with pytest.raises(ValueError, match=said) as error:
        module.Hyperparameters(**wrong)
    assert one_sentence(error)


# Benign text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number, length", [(1, 1), (5, 32), (16, 128)])
def test_windows_are_consecutive_pieces_of_the_text(tokenizer, number, length):
    found = benign.windows(tokenizer, number, length)
    assert [len(window) for window in found] == [length] * number and found == benign.windows(
        tokenizer, number, length
    )
    assert (
        sum(found, [])
        == tokenizer(benign.text()[: 40 * number * length])["input_ids"][: number * length]
    )


def test_windows_begin_again_where_the_text_ends(tokenizer, monkeypatch):
    monkeypatch.setattr(benign, "text", lambda: "abcdefghijk")
    letters = tokenizer("abcdefghijk")["input_ids"]
    assert benign.windows(tokenizer, 5, 4) == [
        letters[:4],
        letters[4:8],
        letters[:4],
        letters[4:8],
        letters[:4],
    ]
    assert benign.windows(tokenizer, 2, 11) == [letters, letters]


def test_a_window_longer_than_the_text_is_refused(tokenizer, monkeypatch, one_sentence):
    monkeypatch.setattr(benign, "text", lambda: "abcdefghijk")
    with pytest.raises(
        ValueError, match="The benign text has 11 tokens, but a window of 12 was asked for"
    ) as error:
        benign.windows(tokenizer, 1, 12)
    assert one_sentence(error)


def test_the_benign_text_s_hash_is_an_input_of_the_methods_that_read_it(monkeypatch):
    """Rows go stale with it; methods without benign text do not have it."""
    assert benign.inputs() == {"benign": hashlib.sha256(benign.text().encode()).hexdigest()}
    having = {name for name in NAMES if hasattr(methods.method(name), "inputs")}
    assert having == {"memit", "max_entropy", "head_projection", "rmu", "npo_kl", "simnpo"}
    assert all(methods.method(name).inputs() == benign.inputs() for name in having)
    before = benign.inputs()
    monkeypatch.setattr(benign, "text", lambda: "another")
    assert benign.inputs() != before
