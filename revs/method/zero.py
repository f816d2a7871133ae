"""Zeroing instead of rank editing (Appendix "Alternative Neuron Editing Strategies").

After DEPN, Wu et al. 2023. Of the neurons that REVS locates in a layer, the n in which t ranks
highest are set to zero; one that is zero already is passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from revs.method import algorithm
from revs.method.edit import Edit
from revs.method.selection import LayerState, select_neurons
from revs.method.settings import require
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters:
    """How many neurons are zeroed in a layer, and REVS's settings that locate them."""

    n: int = 1
    k: int = 100
    r_h: float = 0.015
    eps_r_h: float = 0.005
    layers: Sequence[int] | str = "all"  # that may be edited: "all", "upper" or some by number

    def __post_init__(self):
        require(self)
        if not 1 <= self.n <= self.k:
            said = f"n is {self.n} and k is {self.k}, but 1 ≤ n ≤ k must hold: neurons are zeroed "
            raise ValueError(said + "out of the k most activated.")
        self.located()

    def located(self) -> algorithm.Hyperparameters:
        """REVS's settings that list all k neurons in order."""
        return algorithm.Hyperparameters(self.k, self.k, self.r_h, self.eps_r_h)


def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Zeroes n neurons in every layer that promotes a target token; the Edit undoes it exactly."""
    vocabulary = Vocabulary(decoder)
    located, layers = hp.located().in_tokens(vocabulary.V), decoder.layer_indices(hp.layers)
    with Edit(decoder) as edit:
        for ids, t in progress(pairs(targets)):

            def at_layer(l: int, a: Tensor, h: Tensor, x: Tensor, t=t) -> Tensor | None:
                here = l in layers and algorithm.gate(vocabulary, l, h[-1], x[-1], t, located)
                if not here:
                    return None
                state = LayerState(l, decoder.neurons(l), a[-1], h[-1], x[-1])
                neurons, _ = select_neurons(vocabulary, state, t, located)
                neurons = neurons[state.weight[:, neurons].any(0)][: hp.n]
                before = edit.keep(l, neurons).clone()
                state.weight[:, neurons] = 0
                return -a[:, neurons] @ before.T

            decoder.run_by_layer(ids, at_layer)
    return edit
