"""The network against what it must be: naive masking, Theorem 2, and nothing that depends on order."""

import numpy as np
import pytest
import torch

from model.layout import Layout, hats
from model.network import MoeNetwork, Shape
from model.paper import PaperNetwork
from model.schema import Schema
from tests.conftest import make_positions, make_schema
from training.bench.naive import naive_logits


def make_network(schema: Schema, shape: Shape, company: np.ndarray | None = None) -> MoeNetwork:
    """A network in which every weight, also those that start at zero, has its say."""
    torch.manual_seed(1)
    network = MoeNetwork(Layout([schema], shape.n_members, company), shape)
    shake(network)
    return network


@torch.no_grad()
def shake(network: torch.nn.Module) -> None:
    for weight in network.parameters():
        weight.add_(torch.randn_like(weight), alpha=0.1)


def test_the_gates_of_additive_members_do_not_look_at_values():
    schema = make_schema(4, 2)
    network = make_network(schema, Shape(n_members=4, n_heads=2, d_head=4, half_additive=True))
    columns = torch.arange(6)
    rows = torch.from_numpy(make_positions(schema, 9, 0.0))
    gates = network(columns, rows.expand(4, -1, -1), columns).gates  # (M, H, Q, S + 1, B)
    spread = gates.std(-1).amax((1, 2, 3))
    assert (spread > 1e-3).tolist() == [True, False, True, False]
    lone = make_network(schema, Shape(n_members=1, n_heads=2, d_head=4, half_additive=True))
    assert lone.looks.item() == 1.0


def test_values_move_the_distributions_of_a_plain_member_but_not_their_shape():
    schema = make_schema(4, 2)
    network = make_network(schema, Shape(n_members=4, n_heads=2, d_head=4, half_additive=True, half_steady=True))
    network.steadied[0] = True
    columns, asked = torch.arange(1, 6), torch.tensor([0])
    rows = torch.from_numpy(make_positions(schema, 9, 0.0))[:, 1:]
    logits = network(columns, rows.expand(4, -1, -1), asked).logits[:, 0]  # (M, K, B)
    logits = logits[:, network.layout.real[0]]
    first = network.layout.scores[0, 0, network.layout.real[0], 0]
    between = logits - logits[..., :1]
    along = (between * first.view(1, -1, 1)).sum(1, keepdim=True) / first.square().sum()
    left = (between - along * first.view(1, -1, 1)).abs().amax((1, 2))
    assert along.abs().amax((1, 2)).min() > 1e-2
    # Additive and steady: the last of the four kinds. Where gates look at values they change how shapes are mixed.
    assert (left > 1e-4).tolist() == [True, True, True, False]
    network.steadied[0] = False
    free = network(columns, rows.expand(4, -1, -1), asked).logits[:, 0, network.layout.real[0]]
    assert (free - logits).abs().amax((1, 2)).gt(1e-3).tolist() == [False, False, True, True]


CASES = [
    (1, 1, 2, 0.0),
    (3, 2, 1, 0.2),
    (7, 0, 4, 0.3),
    (12, 5, 8, 0.5),
    (30, 0, 2, 0.9),
]


@pytest.mark.parametrize(("n_numbers", "n_words", "n_heads", "missing"), CASES)
def test_one_pass_equals_naive_masking_in_logits_and_gradients(n_numbers, n_words, n_heads, missing):
    schema = make_schema(n_numbers, n_words)
    n = len(schema.features)
    company = (np.random.default_rng(0).random((n, n)) < 0.9).astype(np.float32)
    network = make_network(
        schema,
        Shape(n_members=4, n_heads=n_heads, d_head=4, half_additive=n_words > 0, half_steady=n_words > 0),
        company,
    )
    network.voices.uniform_(0.5, 1.5)
    network.steadied[::2] = True
    columns = torch.randperm(n)
    rows = torch.from_numpy(make_positions(schema, 9, missing))[:, columns]
    positions = torch.stack([rows, rows.flip(0), rows, rows.flip(0)])

    one, naive = network(columns, positions, columns).logits, naive_logits(network, columns, positions)

    real = network.layout.real[columns]
    assert (one - naive)[:, real].abs().max() < 1e-5
    gradients = []
    for logits in (one, naive):
        network.zero_grad()
        torch.logsumexp(logits, 2).square().mean().backward()
        gradients.append([torch.zeros_like(w) if w.grad is None else w.grad for w in network.parameters()])
    assert max(float(b.abs().max()) for b in gradients[1]) > 1e-3
    assert max(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True)) < 1e-5


def theorem_2(network: MoeNetwork, columns: list[int], cells: torch.Tensor, m: int, head: int) -> torch.Tensor:
    """sum_j pi_j f_j for one head, with the paper's symbols; one row of cells (S, D), question m."""
    w = network.shape.d_head
    part = slice(head * w, (head + 1) * w)
    wq, wk, wv = (x[0][:, part] for x in (network.query, network.key, network.value))
    wl = network.head_rows(torch.tensor([m]))[0, 0, :-1]  # (K, D)
    c_mask, p = network.mask[0], network.encoding[0]
    g, d_m = wl @ c_mask / network.shape.n_heads, wl @ p[m] / network.shape.n_heads
    wlov, wkq = wl[:, part] @ wv.T, wk @ wq.T
    x = [c_mask + p[m] if j == m else cells[i] for i, j in enumerate(columns)]
    scores = [x_j @ wkq @ (c_mask + p[m]) / w**0.5 for x_j in x]
    # The gates' biases: one for the pair, and one for the company of columns the row has.
    company = sum(network.presence[0, head, m, j] for j in columns if j != m)
    scores = [
        s + (0 if j == m else network.pair[0, head, m, j] + company) for s, j in zip(scores, columns, strict=True)
    ]
    pi = torch.softmax(torch.stack(scores), 0)
    return torch.stack([pi[i] * (wlov @ x_j + g + d_m) for i, x_j in enumerate(x)]).sum(0)


@pytest.mark.parametrize("n_heads", [1, 2, 5])
def test_moe_equals_theorem_2_and_with_several_heads_the_stacked_mixture(n_heads):
    schema = make_schema(4, 2)
    network = make_network(schema, Shape(n_members=1, n_heads=n_heads, d_head=6))
    columns = torch.arange(len(schema.features))
    positions = torch.from_numpy(make_positions(schema, 3, missing=0.0))
    near = hats(positions.T, schema.n_values)
    cells = torch.einsum("skb,skd->bsd", near, network.cell_table(columns)[0])

    answer = network(columns, positions.unsqueeze(0), columns).logits[0].permute(2, 0, 1)

    for row in range(3):
        for m, feature in enumerate(schema.features):
            by_hand = sum(theorem_2(network, columns.tolist(), cells[row], m, h) for h in range(n_heads))
            # The output's bias is the one with which nothing observed gives the feature's own distribution.
            alone = sum(theorem_2(network, [m], cells[row], m, h) for h in range(n_heads))
            by_hand = by_hand + (network.layout.log_shares[0, m] - alone)
            assert (answer[row, m] - by_hand)[: feature.n_values].abs().max() < 1e-5


@pytest.mark.parametrize("kind", [MoeNetwork, PaperNetwork])
def test_column_order_row_order_and_batch_size_change_nothing(kind):
    schema = make_schema(5, 3)
    torch.manual_seed(0)
    network = kind(Layout([schema], 1), Shape(n_members=1, n_heads=2, d_head=4)).eval()
    positions = torch.from_numpy(make_positions(schema, 11)).unsqueeze(0)
    columns = torch.arange(8)
    whole = network(columns, positions, columns).logits

    order = torch.randperm(8)
    assert (network(order, positions[..., order], columns).logits - whole).abs().max() < 1e-5
    rows = torch.randperm(11)
    assert (network(columns, positions[:, rows], columns).logits - whole[..., rows]).abs().max() < 1e-5
    single = torch.cat([network(columns, positions[:, i : i + 1], columns).logits for i in range(11)], dim=-1)
    assert (single - whole).abs().max() < 1e-5


@pytest.mark.parametrize("kind", [MoeNetwork, PaperNetwork])
def test_an_absent_column_and_a_missing_cell_are_the_same_thing(kind):
    schema = make_schema(4, 2)
    network = kind(Layout([schema], 1), Shape(n_members=1, n_heads=2, d_head=4)).eval()
    positions = torch.from_numpy(make_positions(schema, 6, missing=0.0)).unsqueeze(0)
    positions[..., 2] = torch.nan
    columns, without = torch.arange(6), torch.tensor([0, 1, 3, 4, 5])
    asked = torch.tensor([1, 2, 5])
    absent = network(without, positions[..., without], asked)
    missing = network(columns, positions, asked)
    assert (absent.logits - missing.logits).abs().max() < 1e-5
    assert (absent.point - missing.point).abs().max() < 1e-5


def test_the_asked_features_own_cell_is_never_heard():
    schema = make_schema(4, 1)
    network = make_network(schema, Shape(n_members=1, n_heads=2, d_head=4))
    positions = torch.from_numpy(make_positions(schema, 6, missing=0.0)).unsqueeze(0)
    other = positions.clone()
    other[..., 1] = torch.rand(6) * 3
    asked, columns = torch.tensor([1]), torch.arange(5)
    assert torch.equal(network(columns, positions, asked).logits, network(columns, other, asked).logits)


def test_a_pair_no_training_row_has_seen_together_is_not_heard():
    schema = make_schema(3)
    company = np.ones((3, 3), dtype=np.float32)
    company[0, 2] = 0.0
    network = make_network(schema, Shape(n_members=1, n_heads=2, d_head=4), company)
    gates = network(torch.arange(3), torch.ones(1, 2, 3), torch.arange(3)).gates.detach()
    assert float(gates[:, :, 0, 2].max()) == 0.0
    assert float(gates[:, :, 1, 2].min()) > 0.0


def test_equal_strings_share_their_embedding_and_encodings_tell_the_columns_apart():
    schema = make_schema(0, 2)  # c0 has w0..w2, c1 has w1..w4
    network = MoeNetwork(Layout([schema], 1), Shape(n_members=1))
    table = network.cell_table(torch.tensor([0, 1]))[0]
    encoding = network.encoding[0]
    assert torch.allclose(table[0, 1] - encoding[0], table[1, 0] - encoding[1], atol=1e-6)
    assert not torch.allclose(table[0, 1], table[1, 0], atol=1e-3)


def test_some_members_alone_say_what_they_say_among_the_others():
    schema = make_schema(4, 3)
    network = make_network(schema, Shape(n_members=4, n_heads=2, d_head=4, half_additive=True, half_steady=True))
    network.voices.uniform_(0.5, 1.5)
    network.doubts.uniform_(0.0, 0.2)
    network.hears[1] = 0.0
    every = torch.arange(7)
    rows = torch.from_numpy(make_positions(schema, 5, missing=0.3))
    for members in ([0], [1, 3], [2, 1]):
        among, alone = network(every, rows.expand(4, -1, -1), every), network.pick(members)
        answer = alone(every, rows.expand(len(members), -1, -1), every)
        for part, of_all in zip(answer, among, strict=True):
            torch.testing.assert_close(part, of_all[members], rtol=1e-5, atol=1e-5)  # sums may be split otherwise
        assert np.allclose(alone.mean_lean(), (network.hears * network.lean)[members].mean(0).detach())
