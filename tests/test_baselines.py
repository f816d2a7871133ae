"""The baselines against their formulas written plainly, and what every method promises."""

import copy

import pytest
import torch
from conftest import build, log_p, next_tokens, secrets, weights

from companion.experiments import methods
from revs.baselines import ft_l, memit, npo_kl, rmu, training
from revs.baselines.training import Training
from revs.method import controls, moments, reference
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.targets import pairs
from revs.model.text import training_windows


@pytest.fixture(autouse=True)
def little_text(monkeypatch):
    """The moments of tiny models are of little text; contexts are short."""
    monkeypatch.setattr(memit, "PER_NEURON", 6)
    monkeypatch.setattr(memit, "WRITTEN", 2)


def changed(decoder, before: dict[str, torch.Tensor]) -> set[str]:
    now = decoder.model.state_dict()
    return {name for name in now if not torch.equal(now[name], before[name])}


def look(decoder, texts: list[list[int]], at: dict, delta=None, layer: int | None = None):
    """Final hidden states and log p after texts of one length, δ added at a layer's last token.
    ``at`` is filled in: layer → its stream."""

    def hook(l):
        def at_layer(_module, _inputs, output):
            x = output if isinstance(output, torch.Tensor) else output[0]
            if l == layer and delta is not None:
                x = torch.cat([x[:, :-1], x[:, -1:] + delta], 1)
            at[l] = x
            return x if isinstance(output, torch.Tensor) else (x, *output[1:])

        return at_layer

    handles = [part.register_forward_hook(hook(l)) for l, part in enumerate(decoder.layers)]
    output = decoder.model.base_model(input_ids=torch.tensor(texts), use_cache=False)
    for handle in handles:
        handle.remove()
    hidden = output.last_hidden_state[:, -1]
    return hidden, decoder.head(hidden).log_softmax(-1)


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """KL(p ‖ q) of log-probabilities over the last dimension."""
    return (p.exp() * (p - q)).sum(-1)


# --- gradient methods ----------------------------------------------------------------------------


@pytest.fixture
def steps_follow(monkeypatch):
    """steps_follow(loss): every step's gradients must be those of loss(); returns its values."""
    step = Training.step

    def watch(loss):
        seen = []

        def checked(training):
            with torch.enable_grad():
                value = loss()
                wanted = torch.autograd.grad(value, training.weights, materialize_grads=True)
            close = {"rtol": 1e-4, "atol": 1e-6 * max(1.0, value.item())}
            for weight, gradient in zip(training.weights, wanted):
                found = torch.zeros_like(weight) if weight.grad is None else weight.grad
                torch.testing.assert_close(found, gradient, **close)
            seen.append(value.item())
            step(training)

        monkeypatch.setattr(Training, "step", checked)
        return seen

    return watch


def test_ft_l_follows_the_mean_probability_of_a_batch(decoder, steps_follow, monkeypatch):
    """1/N Σ p(tᵢ), few targets at a time; batches are of neighbours by length."""
    monkeypatch.setattr(ft_l, "TOGETHER", 3)
    todo = sorted(pairs(secrets(decoder)), key=lambda pair: len(pair[0]))
    parts, turn = [todo[:4], todo[4:]], iter(range(10))

    def loss():
        part = parts[next(turn) % 2]
        return sum(log_p(decoder, ids)[-1, t].exp() for ids, t in part) / len(part)

    seen = steps_follow(loss)
    hp = ft_l.Hyperparameters(lr=1e-4, norm_constraint=1e-1, steps=2, batch=4, loss_break=1e-9)
    ft_l.unlearn(decoder, secrets(decoder), hp)
    assert len(seen) == 4 and seen[2] < seen[0] and seen[3] < seen[1]


def test_ft_l_stops_where_p_is_low(decoder):
    before, steps = weights(decoder), []
    hp = ft_l.Hyperparameters(steps=5, loss_break=0.99)
    ft_l.unlearn(decoder, secrets(decoder), hp, progress=counted(steps))
    assert not changed(decoder, before) and steps == [0]


@pytest.mark.parametrize("coefficient", [3.0, 0.0])
def test_npo_follows_its_loss(decoder, steps_follow, coefficient):
    """2/β · log(1 + (p/p_ref)^β), and KL(p_ref ‖ p_θ). p_ref is the unedited model's; KL is over
    all positions of one general window a target."""
    targets, before = secrets(decoder), copy.deepcopy(decoder)
    todo = [(ids[-4:], t) for ids, t in pairs(targets)]  # n_max_len: a character is a token here
    texts = torch.tensor(training_windows(decoder.tokenizer, len(todo), 32))
    with torch.no_grad():
        reference = [log_p(before, ids)[-1, t].exp() for ids, t in todo]
        general = before.model(input_ids=texts).logits.log_softmax(-1)

    def loss():
        p = [log_p(decoder, ids)[-1, t].exp() for ids, t in todo]
        forget = sum(2 / 0.3 * (1 + (a / b) ** 0.3).log() for a, b in zip(p, reference)) / len(todo)
        present = decoder.model(input_ids=texts).logits.log_softmax(-1)
        return forget + coefficient * kl(general, present).mean()

    seen = steps_follow(loss)
    hp = {"lr": 1e-3, "epochs": 2, "beta": 0.3, "n_max_len": 4, "batch": 6}
    hp = npo_kl.Hyperparameters(**hp, kl_coefficient=coefficient)
    npo_kl.unlearn(decoder, targets, hp)
    assert len(seen) == 2 and seen[1] < seen[0]


def test_rmu_steers_the_last_token_and_holds_general_text(decoder, steps_follow):
    """Mean of ‖x − c·u‖²/d over targets plus α · that of ‖x − x₀‖²/d over general positions."""
    before, todo, d = copy.deepcopy(decoder), [ids for ids, _ in pairs(secrets(decoder))], 16
    texts = training_windows(decoder.tokenizer, len(todo), 32)
    u = torch.rand(d, generator=torch.Generator().manual_seed(3)).double()
    wanted = 5 * u / u.norm()

    def stream(model, *texts):
        at = {}
        look(model, texts, at)
        return at[1]

    with torch.no_grad():
        frozen = stream(before, *texts)

    def loss():
        steered = [((stream(decoder, ids)[0, -1] - wanted) ** 2).sum() / d for ids in todo]
        held = ((stream(decoder, *texts) - frozen) ** 2).sum() / d / 32 / len(texts)
        return sum(steered) / len(todo) + 7 * held

    seen = steps_follow(loss)
    hp = {"lr": 1e-3, "epochs": 3, "alpha": 7.0, "steering_coefficient": 5.0, "layer_id": 1}
    hp = rmu.Hyperparameters(**hp, layers=[0, 1], batch=6)
    rmu.unlearn(decoder, secrets(decoder), hp, seed=3)
    assert len(seen) == 3 and seen[-1] < seen[0]


def test_every_target_has_its_turn_once_an_epoch_in_the_seed_s_order():
    found = training.epochs(2, 6, 4, seed=1)
    assert [len(batch) for batch in found] == [4, 2, 4, 2]
    first, second = found[0] + found[1], found[2] + found[3]
    assert sorted(first) == sorted(second) == list(range(6)) and first != second
    assert found == training.epochs(2, 6, 4, seed=1) != training.epochs(2, 6, 4, seed=2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_small_steps_add_up_in_low_precision(dtype):
    """Each of 300 steps is far below the weights' rounding; together they move every weight."""
    decoder = build("llama-untied", dtype=dtype)
    weight = decoder.ff2[0].weight
    before = weight.detach().float().clone()
    with Training(decoder, decoder.ff2_names([0]), 1e-5, "Test") as steps:
        for _ in range(300):
            steps.clear()
            steps.backward(weight.float().sum())
            steps.step()
    moved = weight.detach().float() - before
    big = before.abs() > 0.1
    assert (torch.finfo(dtype).eps * before[big].abs() > 2e-5).all() or dtype == torch.float32
    assert moved.mean() == pytest.approx(-3e-3, rel=0.2) and weight.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_ft_l_stays_within_its_ball(dtype):
    """‖θ − θ₀‖_∞ ≤ norm_constraint, up to the weights' rounding, and the border is reached."""
    decoder = build("gptj", dtype=dtype)
    before = weights(decoder)
    hp = ft_l.Hyperparameters(lr=1e-2, norm_constraint=2e-2, steps=6, loss_break=1e-9)
    ft_l.unlearn(decoder, secrets(decoder), hp)
    now, names = decoder.model.state_dict(), decoder.ff2_names(range(3))
    moved = torch.stack([now[name].double() - before[name].double() for name in names]).abs()
    assert moved.max() <= 2e-2 + (1e-7 if dtype == torch.float32 else 4e-3)
    assert (moved > 1.9e-2).float().mean() > 0.1


# --- MEMIT ---------------------------------------------------------------------------------------

ASKED = ([5, 17, 230, 41, 99], [41], [17, 230, 60])
CONTEXTS = ([], [60, 61, 13], [9, 80])


def plain_loss(decoder, hp, ids, t, delta, first):
    """One request's loss as a function of δ, a pass a context, and log p of the prompt alone."""
    at = {}
    alone = look(decoder, [ids], at, delta, 1)[1][0]
    h = at[1][0, -1].detach() - delta.detach()
    after = [look(decoder, [context + ids], {}, delta, 1)[1][0] for context in CONTEXTS[1:]]
    p = sum(log_p[t].exp() for log_p in (alone, *after)) / len(CONTEXTS)
    loss = hp.prob_coefficient * p + hp.weight_decay * delta.norm() / (h @ h)
    loss = loss + hp.kl_factor * kl(alone.detach() if first is None else first, alone)
    for l in (0, 1, 2) if hp.objective != "probability" else ():
        lens = decoder.head(decoder.norm(at[l][0, -1])).softmax(-1)
        if hp.objective == "entropy":
            loss = loss + (torch.tensor(300.0).log() + (lens * lens.log()).sum()) / 3
        else:
            loss = loss + (lens[t] - lens.sort(descending=True).values[hp.k - 1]).clamp_min(0) / 3
    return loss, alone.detach()


SEARCH = {"layers": [1], "steps": 4, "lr": 0.1, "prob_coefficient": 3.0, "kl_factor": 0.5}
SEARCH |= {"weight_decay": 2.0, "clamp_norm_factor": 0.05, "loss_break": 1e-9}


@pytest.mark.parametrize("objective", memit.OBJECTIVES)
def test_z_is_found_by_adam_on_the_objective(decoder, objective):
    """Each request by itself: Adam's steps written plainly, steps − 1 of them as in the source."""
    decoder.model.requires_grad_(False)
    hp = memit.Hyperparameters(**SEARCH, objective=objective, k=40)
    t = [next_tokens(decoder, ids)[0] for ids in ASKED[:2]]
    requests = memit.Requests(ASKED[:2], t, CONTEXTS)
    lens = () if objective == "probability" else (0, 1, 2)  # δ does not reach the first
    model = memit.LastToken(decoder, requests.in_contexts(), 1, lens)
    found = memit.compute_z(model, requests, hp)
    clamped = 0
    for ids, t, z in zip(ASKED, requests.t, found):
        h, first, m, v = reference.observe(decoder, ids, 1)[2], None, 0.0, 0.0
        delta = torch.zeros(16, dtype=torch.float64)
        for step in range(1, hp.steps):
            delta.requires_grad_()
            loss, alone = plain_loss(decoder, hp, ids, t, delta, first)
            first = alone if first is None else first
            gradient = torch.autograd.grad(loss, delta)[0]
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            adam = (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
            delta, radius = delta.detach() - hp.lr * adam, float(hp.clamp_norm_factor * h.norm())
            clamped += bool(delta.norm() > radius)
            delta = delta * min(1.0, radius / float(delta.norm()))
        torch.testing.assert_close(z.double(), h + delta, rtol=1e-3, atol=1e-4)
    assert clamped


@pytest.mark.parametrize("layers", [[1], [0, 1, 2]])
@torch.no_grad()
def test_what_is_inserted_solves_the_normal_equations(decoder, layers):
    """Δ·(λC + K·Kᵀ) = R·Kᵀ in each layer in turn, from what the model says by then. Half of a key
    is that of the prompt alone, half the mean over its contexts; R is shared out."""
    last, plain, draw = layers[-1], copy.deepcopy(decoder), torch.Generator().manual_seed(0)
    C = {l: (lambda A: A @ A.T / 100)(torch.randn(64, 100, generator=draw)) for l in layers}
    z = torch.randn(len(ASKED), 16, generator=draw)
    hp = memit.Hyperparameters(layers=layers, mom2_update_weight=0.3)
    memit.insert(decoder, memit.Requests(ASKED, [3, 7, 33], CONTEXTS), z, C, hp)
    for number, l in enumerate(layers):
        key = lambda ids, l=l: reference.observe(plain, ids, l)[0]
        others = [sum(key(context + ids) for context in CONTEXTS[1:]) / 2 for ids in ASKED]
        K = torch.stack([(key(ids) + other) / 2 for ids, other in zip(ASKED, others)], 1)
        present = torch.stack([reference.observe(plain, ids, last)[2] for ids in ASKED], 1)
        R = (z.T - present) / (len(layers) - number)
        delta = decoder.ff2[l].weight - plain.ff2[l].weight
        close = {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(delta @ (0.3 * C[l] + K @ K.T), R @ K.T, **close)
        assert delta.norm() > 1e-2
        plain.ff2[l].weight.copy_(decoder.ff2[l].weight)


@torch.no_grad()
def test_moments_are_means_over_general_tokens(decoder):
    """E[a·aᵀ] by a pass for each window; as many as hold the tokens asked for, as long as fit."""
    total = torch.zeros(64, 64, dtype=torch.float64)

    def add(_module, args):
        total.add_(args[0][0].T @ args[0][0])

    handle = decoder.ff2[1].register_forward_pre_hook(add)
    for ids in training_windows(decoder.tokenizer, 4, 96):  # 6 tokens · 64 neurons / 96
        decoder.model(input_ids=torch.tensor([ids]))
    handle.remove()
    found = moments.general_moments(decoder, [1, 0], 6 * 64)  # one pass for both, ends at the last
    assert list(found) == [1, 0] and found[1].dtype == torch.float32
    torch.testing.assert_close(found[1].double(), total / (4 * 96), rtol=1e-4, atol=1e-5)


def test_moments_are_kept_until_a_weight_changes(monkeypatch, tmp_path):
    decoder, compute = build("llama-tied", dtype=torch.float32), moments.second_moments
    read = lambda cache=None: moments.general_moments(decoder, [0, 1], 96, cache)
    plain, asked, kept = read(), [], tmp_path / "cache"
    monkeypatch.setattr(moments, "second_moments", lambda *of: asked.append(of[2]) or compute(*of))
    first, again = read(kept), read(kept)
    assert asked == [[0, 1]]
    assert all(torch.equal(plain[l], first[l]) and torch.equal(first[l], again[l]) for l in plain)
    with torch.no_grad():
        decoder.layers[0].self_attn.q_proj.weight[0, 0] += 0.5
    assert not torch.equal(read(kept)[1], first[1])
    assert len(asked) == 2 == len(list(kept.iterdir()))  # nothing half-written


def test_a_prompt_is_cut_to_its_last_characters(decoder):
    """n_max_len: as few tokens as cover them; a special first token stays, but once."""
    eos, ids = 256, decoder.tokenizer("The number is ")["input_ids"]
    for first in ([], [eos]):
        assert training.tail(decoder, first + ids, 4) == first + ids[-4:]
        assert training.tail(decoder, first + ids, 100) == first + ids
    requests = memit.Requests([[eos, *ids], ids], [1, 2], [[], [eos, 1]], frozenset([eos]))
    texts = [[eos, *ids], ids, [eos, 1, *ids], [eos, 1, *ids]]
    assert requests.in_contexts() == texts


# --- what every method promises ------------------------------------------------------------------

NAMES = [name for name, entry in methods.registry().items() if "module" in entry]
NAMES.remove("unedited")
CONTROLS = {"random", "other_tokens"}  # edits of REVS's size
REWRITING = {"lr": 1.0, "mom2_update_weight": 0.1, "steps": 4, "prob_coefficient": 10.0}
REWRITING |= {"loss_break": 1e-9}
SETTINGS = {
    "ft_l": {"lr": 1e-2, "norm_constraint": 1e-1, "steps": 3, "loss_break": 1e-9},
    "memit": REWRITING | {"layers": [1]},
    "max_entropy": REWRITING | {"objective": "entropy", "layers": [0, 1], "patil_layers": [1, 2]},
    "head_projection": REWRITING | {"objective": "margin", "layers": [0, 1], "k": 40},
    "rmu": {"layer_id": 2, "layers": [1, 2], "lr": 5e-2, "epochs": 3, "batch": 6}
    | {"alpha": 1.0, "steering_coefficient": 30.0},
    "npo_kl": {"lr": 1e-2, "batch": 6},
    "zero": {"n": 6, "k": 40, "r_h": 0.4},
}


def unlearned(decoder, name: str, seed: int = 1, progress=iter, **settings) -> Edit:
    module = methods.method(name)
    own = methods.registry()[name].get("settings", {}) if name in CONTROLS else {}
    hp = module.Hyperparameters(**own | SETTINGS.get(name, {}) | settings)
    return module.unlearn(decoder, secrets(decoder), hp, seed, progress)


def counted(steps: list):
    """A progress that notes every step."""

    def progress(sequence):
        for step in sequence:
            steps.append(step)
            yield step

    return progress


CASES = [("gptj", torch.float32), ("llama-tied", torch.bfloat16)]  # test_golden.py: untied


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind, dtype", CASES, ids=str)
def test_a_method_unlearns_repeatably_and_is_undone_exactly(name, kind, dtype):
    """Targets become less likely; bits and flags are as promised; a seed says everything."""
    decoder = build(kind, dtype=dtype)
    todo, parameters = pairs(secrets(decoder)), list(decoder.model.parameters())
    for number, parameter in enumerate(parameters):
        parameter.requires_grad_(number % 3 > 0)
    flags = [parameter.requires_grad for parameter in parameters]
    before, runs = weights(decoder), []
    log_p_of_all = torch.no_grad()(training.log_p)
    was = log_p_of_all(decoder, todo).mean()
    for _ in range(2):
        steps = []
        edit = unlearned(decoder, name, progress=counted(steps))
        found, norms = log_p_of_all(decoder, todo).mean(), edit.norms()
        runs.append((weights(decoder), edit.summary()))
        assert len(steps) > 1 and all(parameter.grad is None for parameter in parameters)
        assert [parameter.requires_grad for parameter in parameters] == flags
        for l in edit.layers[:1]:  # a newer edit of the same weights
            with Edit(decoder) as newer:
                newer.add(l, *(torch.ones(1, size) for size in decoder.neurons(l).shape))
            with pytest.raises(ValueError, match="undo what is newer first"):
                edit.undo()
            newer.undo()
        edit.undo()
        assert not changed(decoder, before) and edit.whole == {} and edit.originals == {}
    (first, summary), (again, same) = runs
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert summary == same and summary["norm"] > 0
    if name in CONTROLS:  # a control: as many neurons of the same layers, moved as far
        revs = unlearned(decoder, "revs").norms()
        near = {"rel": 1e-5 if dtype == torch.float32 else 3e-2, "abs": 1e-2}
        assert list(norms) == list(revs)
        for l, kept in revs.items():
            assert sorted(norms[l].values()) == pytest.approx(sorted(kept.values()), **near)
    else:
        assert found < was - 0.2


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CONTROLS])
def test_an_interruption_puts_the_model_back(name):
    """Ctrl-C in the middle of it is an exception like any other."""
    decoder = build("llama-tied", dtype=torch.float32)
    before = weights(decoder)

    def interrupted(steps):
        yield from list(steps)[:-1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unlearned(decoder, name, progress=interrupted)
    assert not changed(decoder, before)
    assert all(parameter.requires_grad for parameter in decoder.model.parameters())


@pytest.mark.parametrize("given, layers", [([0, 2], [0, 2]), ("upper", [1, 2])])
def test_only_the_layers_that_are_named_are_changed(given, layers):
    decoder = build("llama-untied")
    before, edit = weights(decoder), unlearned(decoder, "ft_l", layers=given)
    assert changed(decoder, before) == set(decoder.ff2_names(layers))
    assert edit.layers == layers == edit.summary()["layers"]


def test_the_size_of_an_edit_of_whole_weights(decoder):
    """Columns of FF₂, single weights and the norm, counted by hand."""
    edit, weight = Edit(decoder), decoder.ff2[1].weight
    edit.keep_whole(decoder.ff2_names([1]))
    with torch.no_grad():
        weight[3, 5] += 3
        weight[4, 5] -= 4
        weight[0, 7] += 12
    edit.keep_whole(decoder.ff2_names([1]))  # the first original stays
    found = edit.summary()
    assert (found["layers"], found["columns"], found["weights"]) == ([1], 2, 3)
    assert found["norm"] == pytest.approx(13)
    edit.undo()
    assert edit.summary()["norm"] == 0 and edit.layers == []


@pytest.mark.parametrize(
    "name, settings",
    [
        ("ft_l", {"lr": float("inf"), "norm_constraint": float("inf")}),
        ("rmu", {"lr": 1e30, "epochs": 3}),
        ("npo_kl", {"lr": 1e30}),
        ("memit", {"lr": float("inf")}),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_divergence_says_so_and_leaves_the_model_as_it_was(name, settings, dtype, refused):
    """One sentence with the learning rate; every bit and every flag as before."""
    decoder = build("llama-untied", dtype=dtype)
    decoder.ff2[0].weight.requires_grad_(False)
    before = weights(decoder)
    said = r"diverged \(.*no longer a number\): lower the learning rate of (1e\+30|inf)"
    with refused(said, FloatingPointError):
        unlearned(decoder, name, **settings)
    assert not changed(decoder, before)
    frozen = [name for name, p in decoder.model.named_parameters() if not p.requires_grad]
    assert frozen == decoder.ff2_names([0])
    assert all(parameter.grad is None for parameter in decoder.model.parameters())


@pytest.mark.parametrize(
    "name, wrong, said",
    [
        ("ft_l", {"norm_constraint": 0}, "norm_constraint is 0, but must be positive"),
        ("memit", {"lr": float("nan")}, "lr is nan, but must be positive"),
        ("memit", {"objective": "lens"}, "objective is 'lens', but must be one of probability, "),
        ("npo_kl", {"batch": 0}, "batch is 0, but must be at least 1"),
        ("rmu", {"layer_id": 2, "layers": [3]}, "some up to layer_id, which is 2"),
        ("revs", {"neurons": "best"}, "neurons is 'best', but must be one of hybrid, "),
        ("revs", {"n_max": 30, "k": 20}, "n_max is 30 and k is 20"),
        ("revs", {"r_h": -1}, "r_h is -1, but must be at least 0"),
        ("revs", {"r_n": float("inf")}, "r_n is inf, but must be finite"),
        ("random", {"control": "rows"}, "control is 'rows', but must be one of noise, tokens"),
        ("least_squares", {"r_h": -1}, "r_h is -1"),
        ("least_squares", {"lam": float("inf")}, "lam is inf, but must be finite"),
        ("least_squares", {"lam": 0.0, "mu": 0.0}, "both 0"),
        ("least_squares", {"tokens": 3}, "C needs general text"),
        # these do not fit the model, or the texts
        ("least_squares", {"r_h": 300}, "a rank from 1 to"),
        ("least_squares", {"nu": 0.1}, "no text to protect"),
        ("ft_l", {"layers": [1, 3]}, r"layers are \[1, 3\], but .* has the layers 0 to 2"),
        ("ft_l", {"layers": "uper"}, "layers are 'uper', but"),
        ("memit", {"layers": [-1]}, r"layers are \[-1\], but"),
        ("head_projection", {"patil_layers": [1, 9]}, r"layers are \[1, 9\], but"),
        ("rmu", {"layer_id": 3, "layers": [1]}, r"layers are \[3\], but"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name, wrong, said, refused):
    """One sentence names the setting and its value; nothing is changed."""
    decoder = build("gptj")
    before = weights(decoder)
    with refused(said):
        unlearned(decoder, name, **wrong)
    assert not changed(decoder, before)
    assert all(parameter.requires_grad for parameter in decoder.model.parameters())


@pytest.mark.parametrize("name", ["memit", "max_entropy", "head_projection", "rmu", "npo_kl"])
def test_text_to_protect_changes_what_a_method_writes(name):
    """And is refused where there is too little of it to fill a window."""
    decoder = build("llama-tied", dtype=torch.float32)
    module, targets = methods.method(name), secrets(decoder)
    hp = module.Hyperparameters(**SETTINGS[name])
    spare = [(list(range(5, 45)), 0)] * 4
    found = []
    for protect in ((), spare):
        edit = module.unlearn(decoder, targets, hp, seed=1, protect=protect)
        found.append([weight.clone() for weight in decoder.model.parameters()])
        edit.undo()
    assert any(not torch.equal(a, b) for a, b in zip(*found))
    if name in ("rmu", "npo_kl"):
        with pytest.raises(ValueError, match="have 3 tokens: give 32 or more"):
            module.unlearn(decoder, targets, hp, protect=[([1, 2, 3], 0)])


def test_the_control_moves_as_far_along_tokens_that_have_a_direction():
    """Rows of zeros, which pad U, have none; a neuron moved twice for t moves by the sum."""
    decoder = build("llama-untied")
    decoder.head.weight.data[150:] = 0
    vocabulary, before = Vocabulary(decoder), decoder.neurons(1).clone()
    moves = [(1, 0, 40, -2.0), (1, 4, 40, -2.0), (1, 0, 40, -3.0)]
    for seed in range(6):
        with Edit(decoder) as edit:
            draw = torch.Generator().manual_seed(seed)
            controls.along_other_tokens(edit, vocabulary, moves, draw)
        lengths = (decoder.neurons(1) - before).norm(dim=0)
        wanted = vocabulary.step(1, 40).norm() * torch.tensor([5.0, 2.0])
        assert torch.allclose(lengths[[0, 4]].double(), wanted.double(), rtol=1e-4)
        assert (lengths > 0).sum() == 2
        edit.undo()
