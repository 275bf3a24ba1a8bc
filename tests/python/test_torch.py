"""The layers and the optimizer of verbena.torch, beside torch's own."""

import gc
import inspect
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import jobs
import verbena

try:
    import torch

    import verbena.torch as layers
except ImportError as missing:
    print(f"skipped: verbena.torch: {missing} (scripts/setup installs PyTorch)")
    sys.exit(jobs.SKIPPED)

ROWS, WIDTH = 50, 21  # the layers add up 16 values at a time


def start_values(seed=3, rows=ROWS, width=WIDTH, dtype=torch.float32):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def torch_bag(mode, weights, **options):
    bag = torch.nn.EmbeddingBag(*weights.shape, mode=mode, **options)
    bag.weight.data.copy_(weights)
    return bag


class Layers(unittest.TestCase):
    def check_bag(self, session, name, ours, theirs, *given, lr):
        """Both give the same, and have the same rows after a step along the same gradient."""
        sums, expected = ours(*given), theirs(*given)
        torch.testing.assert_close(sums, expected)
        toward = torch.randn(expected.shape, generator=torch.Generator().manual_seed(7), dtype=expected.dtype)
        for given_weights in given[2:]:
            given_weights.grad = None
        (sums * toward).sum().backward()
        of_weights = [each.grad.clone() for each in given[2:]]
        for given_weights in given[2:]:
            given_weights.grad = None
        (expected * toward).sum().backward()
        for one, other in zip(of_weights, given[2:]):
            torch.testing.assert_close(one, other.grad)
        session.clock()
        after = theirs.weight.detach() - lr * theirs.weight.grad
        torch.testing.assert_close(ours.rows(range(ROWS)), after, msg=name)

    def test_arguments_are_torchs_by_their_names_places_and_defaults(self):
        """But those of torch.nn that a layer over a table has no use for, and `sparse`, which is the table's."""
        for ours, theirs in ((layers.EmbeddingBag, torch.nn.EmbeddingBag), (layers.Embedding, torch.nn.Embedding)):
            here = dict(inspect.signature(ours.__init__).parameters)
            for name, parameter in inspect.signature(theirs.__init__).parameters.items():
                if name in ("self", "_weight", "_freeze"):
                    continue
                self.assertIn(name, here)
                if name != "dtype":
                    self.assertEqual(here[name].default, parameter.default, name)
            places = [name for name, each in here.items() if each.kind == each.POSITIONAL_OR_KEYWORD]
            of_theirs = [name for name in inspect.signature(theirs.__init__).parameters if name in places]
            self.assertEqual(places[3:], of_theirs[1:], "behind self, session and name")
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "items", 9, 2, None, 2.0, False, "sum", lr=1.0, device="cpu", dtype=None)
            self.assertEqual(bag(torch.tensor([[1, 2]])).dtype, torch.get_default_dtype())
            self.assertEqual(bag.mode, "sum")

    def test_bags_are_as_torch_has_them(self):
        indices = torch.tensor([4, 1, 4, 9, 0, 0, 7, 4, 49])
        offsets = torch.tensor([0, 3, 3, 5])  # the second one is empty
        with_end = torch.tensor([0, 3, 3, 5, 9])
        square = torch.tensor([[1, 2, 2], [4, 1, 7]])
        with jobs.alone(servers=2) as session:
            for number, (mode, sparse, dtype) in enumerate((mode, sparse, dtype) for mode in ("sum", "mean")
                                                           for sparse in (False, True)
                                                           for dtype in (torch.float32, torch.float64)):
                for given, options in (((indices, offsets), {}), ((indices, offsets), {"padding_idx": 4}),
                                       ((indices.int(), offsets.int()), {}),
                                       ((indices, with_end), {"include_last_offset": True}), ((square,), {}),
                                       ((square,), {"padding_idx": -46})):
                    name = f"{number} {options} {given}"
                    values = start_values(dtype=dtype)
                    ours = layers.EmbeddingBag(session, name, ROWS, WIDTH, mode=mode, sparse=sparse, dtype=dtype, lr=0.1,
                                               initial=values, consistency="bsp", **options)
                    self.assertEqual(list(ours.parameters()), [])
                    self.check_bag(session, name, ours, torch_bag(mode, values, dtype=dtype, **options), *given, lr=0.1)

    def test_bags_without_indices(self):
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, lr=0.1)
            nothing = torch.zeros(3, 0, dtype=torch.int64)
            for given in ((nothing,), (nothing.view(0), torch.zeros(3, dtype=torch.int64)), (nothing[:0],),
                          (nothing.view(0), nothing.view(0))):
                sums = bag(*given)
                torch.testing.assert_close(sums, torch.zeros(len(given[-1]), WIDTH), check_stride=False)
                sums.sum().backward()

    def test_weights_of_samples(self):
        indices, offsets = torch.tensor([4, 1, 4, 9, 0, 0]), torch.tensor([0, 2, 2])
        with jobs.alone() as session:
            for options in ({}, {"padding_idx": 4}):
                weights = torch.tensor([0.5, 2, -1, 0, 3, 1], requires_grad=True)
                ours = layers.EmbeddingBag(session, f"rows {options}", ROWS, WIDTH, mode="sum", lr=0.1,
                                           initial=start_values(), **options)
                self.check_bag(session, "weights", ours, torch_bag("sum", start_values(), **options), indices, offsets,
                               weights, lr=0.1)

    def test_embedding_is_as_torch_has_it(self):
        with jobs.alone() as session:
            for shape in ((), (5,), (2, 3), (2, 1, 3), (0,), (0, 4)):
                ours = layers.Embedding(session, f"rows {shape}", ROWS, WIDTH, lr=0.1, initial=start_values())
                theirs = torch.nn.Embedding.from_pretrained(start_values(), freeze=False)
                indices = torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(1))
                self.check_bag(session, str(shape), ours, theirs, indices, lr=0.1)

    def test_rules_of_servers(self):
        indices = torch.tensor([[4, 1, 4], [9, 0, 0]])
        with jobs.alone() as session:
            for rule, optimizer in ((verbena.named("adagrad", rate=0.1), lambda each: torch.optim.Adagrad(each, 0.1)),
                                    ("sgd(rate=0.1)", lambda each: torch.optim.SGD(each, 0.1)),
                                    ("adam(rate=0.1)", lambda each: torch.optim.SparseAdam(each, 0.1))):
                for sparse in (False, True):
                    ours = layers.EmbeddingBag(session, f"{rule} {sparse}", ROWS, WIDTH, mode="sum", rule=rule,
                                               sparse=sparse, initial=start_values(), consistency=verbena.Bsp())
                    theirs = torch_bag("sum", start_values(), sparse=True)
                    theirs_steps = optimizer(list(theirs.parameters()))
                    for _ in range(3):
                        for each in (ours, theirs):
                            theirs_steps.zero_grad()
                            (each(indices)**2).sum().backward()
                        theirs_steps.step()
                        session.clock()
                        if not rule.startswith("adam"):  # whose t counts clocks, those of other tables, too
                            torch.testing.assert_close(ours(indices), theirs(indices))
                        self.assertLess((ours(indices)**2).sum(), (start_values()[indices].sum(1)**2).sum())

    def test_first_values_take_no_clock(self):
        """However large tables are and however many come before: rules that count clocks begin with the first one."""
        indices = torch.tensor([[4, 1, 4], [9, 0, 0]])
        with jobs.job(workers=2, servers=2) as place:

            def work(session):
                layers.Embedding(session, "large", 50_000, WIDTH, lr=0.1)
                layers.Embedding(session, "moves", ROWS, WIDTH, lr=0.1, dynamic=True, consistency="asp")
                ours = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, mode="sum", rule="adam(rate=0.1)", average=True,
                                           initial=start_values())
                self.assertEqual(session.current_clock, 0)
                torch.testing.assert_close(ours.rows(range(ROWS)), start_values())
                layers.Embedding(session, "of a clock", 50_000, WIDTH, lr=0.1, consistency="bsp")
                last = layers.Embedding(session, "of another", 50_000, WIDTH, rule="adagrad", initial="constant(value=3)",
                                        consistency=verbena.ABsp())
                self.assertTrue((last.rows(range(50_000)) == 3).all())
                return session.current_clock

            self.assertEqual(jobs.in_workers(place, work), [3, 3])  # the last one has more than a clock takes
        with jobs.alone() as session:
            ours = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, mode="sum", rule="adam(rate=0.1)",
                                       initial=start_values())
            theirs = torch_bag("sum", start_values(), sparse=True)
            steps = torch.optim.SparseAdam(list(theirs.parameters()), 0.1)
            for _ in range(3):
                steps.zero_grad()
                for each in (ours, theirs):
                    (each(indices)**2).sum().backward()
                steps.step()
                session.barrier()
                torch.testing.assert_close(ours(indices), theirs(indices))

    def test_first_values_of_rows_that_move(self):
        """They are what was asked for, or an error: a push to a rule would be a step."""
        with jobs.job(workers=2, servers=2) as place:

            def work(session):
                moves = {"dynamic": True, "consistency": "asp"}
                rows = layers.Embedding(session, "rows", ROWS, WIDTH, lr=0.1, initial=start_values(), **moves)
                torch.testing.assert_close(rows.rows(range(ROWS)), start_values())
                for initial in ("normal", "constant(value=2)", start_values()):
                    with self.assertRaisesRegex(verbena.InvalidArgumentError, 'layer "steps": .* only begin with zeros'):
                        layers.Embedding(session, "steps", ROWS, WIDTH, rule="sgd(rate=0.1)", initial=initial, **moves)
                for initial in ("zero", "constant(value=0)", torch.zeros(ROWS, WIDTH)):
                    rows = layers.Embedding(session, f"{initial}"[:9], ROWS, WIDTH, rule="sgd(rate=0.1)", initial=initial,
                                            **moves)
                    self.assertFalse(rows.rows(range(ROWS)).any())
                net = model(1)
                with self.assertRaisesRegex(verbena.InvalidArgumentError, "DistributedOptimizer: .* only begin with zeros"):
                    layers.DistributedOptimizer("sgd(rate=0.1)", session, net, **moves)
                optimizer = layers.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), session, net, **moves)
                optimizer.pull()
                torch.testing.assert_close(values_of(net), values_of(model(1)))
                with _seeding:  # it draws numbers, too
                    zeros = torch.nn.Linear(2, 1)
                torch.nn.init.zeros_(zeros.weight)
                torch.nn.init.zeros_(zeros.bias)
                optimizer = layers.DistributedOptimizer("sgd(rate=0.1)", session, zeros, name="zeros", **moves)
                session.barrier()
                zeros(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                session.barrier()
                optimizer.pull()
                torch.testing.assert_close(zeros.weight.detach(), torch.full((1, 2), -0.1))

            jobs.in_workers(place, work)

    def test_a_worker_is_replaced(self):
        """The process in the place of one that has died makes the same layers, and gives them no first values again."""
        program = """
import sys, torch, verbena, verbena.torch
address, incarnation, consistency = sys.argv[1:]
session = verbena.connect([address], incarnation=int(incarnation))
rows = verbena.torch.Embedding(session, "rows", 9, 2, lr=1.0, initial="constant(value=5)", consistency=consistency)
steps = verbena.torch.Embedding(session, "steps", 9, 2, rule="sgd(rate=1)", initial="constant(value=5)",
                                consistency=consistency)
net = torch.nn.Linear(2, 1)
optimizer = verbena.torch.DistributedOptimizer("sgd(rate=1)", session, net, consistency=consistency)
first = session.current_clock
for clock in range(4):
    if not session.is_catching_up:
        for each in (rows, steps):
            each(torch.tensor([clock])).sum().backward()
    session.clock()
    if clock == 1 and incarnation == "0":
        session.barrier()
        __import__("os")._exit(1)
    if clock == 1:
        session.barrier()
print(first, rows.rows(range(5))[:, 0].tolist(), steps.rows(range(5))[:, 0].tolist())
session.close()
"""
        for consistency, clocks in (("ssp:1", 0), ("bsp", 3)):
            with jobs.job(replaces_workers=True) as place:
                address = place["servers"][0]
                jobs.run_script(program, address, "0", consistency, expect=1)
                self.assertEqual(jobs.run_script(program, address, "1", consistency),
                                 f"{clocks} {[4.0] * 4 + [5.0]} {[4.0] * 4 + [5.0]}\n")

    def test_layers_of_a_name_share_rows(self):
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, lr=0.1, initial=start_values())
            bag(torch.tensor([[3]])).sum().backward()
            alike = layers.Embedding(session, "rows", ROWS, WIDTH, lr=1.0, initial=start_values())
            expected = start_values()
            expected[3] -= 0.1
            torch.testing.assert_close(alike.rows(range(ROWS)), expected)
            for make in (lambda: layers.Embedding(session, "rows", ROWS, WIDTH, lr=1.0),
                         lambda: layers.Embedding(session, "rows", ROWS, WIDTH, rule="sgd", initial=start_values()),
                         lambda: layers.DistributedOptimizer("adam", session, model(1), name="rows")):
                with self.assertRaisesRegex(verbena.AlreadyExistsError, '"rows": .*another name'):
                    make()
            layers.DistributedOptimizer("adam", session, model(1))
            with self.assertRaisesRegex(verbena.AlreadyExistsError, '"model": .*another name'):
                layers.DistributedOptimizer("adam", session, model(1))

    def test_names_make_other_rows(self):
        with jobs.alone() as session:
            for sparse in (False, True):
                one, other = (layers.Embedding(session, f"{name} {sparse}", 500, WIDTH, lr=0.1, seed=5, sparse=sparse)
                              for name in ("one", "other"))
                self.assertLess((one.rows(range(500)) * other.rows(range(500))).mean().abs(), 0.1)

    def test_a_frozen_layer_pushes_nothing(self):
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, mode="sum", lr=0.1)
            self.assertIs(bag.requires_grad_(False), bag)
            indices, weights = torch.tensor([[1, 2]]), torch.ones(1, 2, requires_grad=True)
            self.assertFalse(bag(indices).requires_grad)
            before = session.statistics()["rows_pushed"]
            bag(indices, None, weights).sum().backward()
            torch.testing.assert_close(weights.grad, bag.rows([1, 2]).sum(1)[None])
            self.assertEqual(session.statistics()["rows_pushed"] - before, 0)
            bag.requires_grad_()
            bag(indices).sum().backward()
            self.assertEqual(session.statistics()["rows_pushed"] - before, 2)
            collection = layers.EmbeddingBagCollection(session, [layers.EmbeddingBagConfig("a", 9, 2, ["x"])], lr=1.0)
            self.assertFalse(collection.requires_grad_(False)({"x": indices})["x"].requires_grad)

    def test_only_backward_pushes(self):
        """torch.autograd.grad() is asked for gradients of something else, and changes nothing."""
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, mode="sum", lr=0.1, initial=start_values())
            theirs = torch_bag("sum", start_values())
            indices, weights = torch.tensor([[1, 2]]), torch.ones(1, 2, requires_grad=True)
            (of_weights,) = torch.autograd.grad((bag(indices, None, weights)**2).sum(), weights)
            torch.testing.assert_close(of_weights, torch.autograd.grad((theirs(indices, None, weights)**2).sum(), weights)[0])
            (bag(indices, None, weights)**2).sum().backward(inputs=[weights])
            torch.testing.assert_close(bag.rows(range(ROWS)), start_values(), rtol=0, atol=0)
            for each in (bag, theirs):  # a penalty on a gradient, which has a gradient itself
                pooled = each(indices)
                (gradient,) = torch.autograd.grad((pooled**3).sum(), pooled, create_graph=True)
                (gradient**2).sum().backward()
            torch.testing.assert_close(bag.rows(range(ROWS)), start_values() - 0.1 * theirs.weight.grad)
            # Second derivatives through the sums themselves are refused.
            (of_weights,) = torch.autograd.grad((bag(indices, None, weights)**2).sum(), weights, create_graph=True)
            with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
                of_weights.sum().backward()
            # Kept graphs push each time.
            before = session.statistics()["rows_pushed"]
            loss = bag(indices).sum()
            loss.backward(retain_graph=True)
            loss.backward()
            self.assertEqual(session.statistics()["rows_pushed"] - before, 4)

    def test_workers_add_up(self):
        count = 20_000  # whose first values are several pieces
        with jobs.job(workers=2, servers=2) as place:

            def work(session):
                rows = layers.Embedding(session, "rows", count, WIDTH, lr=1.0, seed=5, consistency=verbena.Bsp())
                first = rows.rows(range(count))
                rows(torch.tensor([7, 7, 100 + session.rank])).sum().backward()
                shared = layers.Embedding(session, "mean", 2, WIDTH, lr=1.0, average=True, initial="zero", consistency="bsp")
                shared(torch.tensor([0])).sum().backward()
                session.clock()
                torch.testing.assert_close(shared.rows([0, 1]), torch.tensor([[-1.0], [0.0]]).expand(2, WIDTH))
                return first, rows.rows(range(count))

            (first, after), (same, after_too) = jobs.in_workers(place, work)
            with jobs.alone() as session:
                rows = layers.Embedding(session, "rows", count, WIDTH, lr=1.0, seed=5)
                torch.testing.assert_close(rows.rows(range(count)), first)
            torch.testing.assert_close(first, same)
            torch.testing.assert_close(after, after_too)
            self.assertLess(abs(first.std() - 1), 0.1)
            expected = torch.zeros(count, WIDTH)
            expected[7], expected[100], expected[101] = -4, -1, -1
            torch.testing.assert_close(after - first, expected)

    def test_initial_values(self):
        with jobs.alone() as session:
            for sparse in (False, True):
                for initial, mean, deviation in (("zero", 0, 0), ("constant(value=2)", 2, 0), ("normal", 0, 0.01),
                                                 ("normal(mean=1, deviation=0.5)", 1, 0.5),
                                                 ("uniform(low=0,high=1)", 0.5, 12**-0.5)):
                    for step in ({"lr": 0.1}, {"rule": "adagrad(rate=0.1)"}):
                        rows = layers.Embedding(session, f"{sparse} {initial} {step}", 5000, WIDTH, sparse=sparse,
                                                initial=initial, **step)
                        values = rows.rows(range(5000))
                        self.assertAlmostEqual(float(values.mean()), mean, delta=0.02)
                        self.assertAlmostEqual(float(values.std()), deviation, delta=0.02)
            anything = layers.Embedding(session, "any key", None, WIDTH, sparse=True, lr=0.1)
            anything(torch.tensor([2**62, -2])).sum().backward()
            session.barrier()
            self.assertEqual(len(anything.table.scan()[0]), 2)

    def test_no_gradient_no_push(self):
        with jobs.alone() as session:
            rows = layers.EmbeddingBag(session, "rows", ROWS, WIDTH, lr=0.1)
            with torch.no_grad():
                self.assertFalse(rows(torch.tensor([[1, 2]])).requires_grad)
            before = session.statistics()["rows_pushed"]
            one, two = rows(torch.tensor([[1, 2]])), rows(torch.tensor([[1, 3]]))  # before backward() of either
            (one * two).sum().backward()
            self.assertEqual(session.statistics()["rows_pushed"] - before, 4)

    def test_collection(self):
        class Jagged:  # as TorchRec has it
            def __init__(self, values, offsets):
                self.values, self.offsets = lambda: values, lambda: offsets

        indices = torch.tensor([4, 1, 4, 9])
        with jobs.alone() as session:
            tables = [layers.EmbeddingBagConfig("items", ROWS, WIDTH, ["seen", "bought"]),
                      layers.EmbeddingBagConfig("words", None, 8, ["title"], pooling="MEAN")]
            collection = layers.EmbeddingBagCollection(session, tables[:1], lr=0.1)
            words = layers.EmbeddingBagCollection(session, tables[1:], sparse=True, rule="adagrad(rate=0.1)")
            given = {"seen": (indices, torch.tensor([0, 1])), "bought": Jagged(indices, torch.tensor([0, 3, 4]))}
            pooled = collection(given)
            self.assertEqual({name: tuple(each.shape) for name, each in pooled.items()},
                             {"seen": (2, WIDTH), "bought": (2, WIDTH)})
            torch.testing.assert_close(pooled["seen"].sum(0), pooled["bought"].sum(0))
            title = words({"title": indices.view(2, 2)})["title"]
            self.assertEqual(title.shape, (2, 8))
            torch.testing.assert_close(title, words._layers[0].rows(indices).view(2, 2, 8).mean(1))
            title.sum().backward()
            theirs = torch_bag("sum", collection._layers[0].rows(range(ROWS)))
            seen, bought = theirs(indices, torch.tensor([0, 1])), theirs(indices, torch.tensor([0, 3]))
            torch.testing.assert_close(pooled["seen"], seen)
            torch.testing.assert_close(pooled["bought"], bought)
            for one, other in ((pooled["seen"], pooled["bought"]), (seen, bought)):
                (one**2).sum().add((other**3).sum()).backward()
            after = theirs.weight.detach() - 0.1 * theirs.weight.grad
            torch.testing.assert_close(collection._layers[0].rows(range(ROWS)), after)
            collection.prefetch(given)
            same_shape = layers.EmbeddingBagCollection(
                session, [layers.EmbeddingBagConfig(name, ROWS, WIDTH, [name]) for name in ("a", "b")], lr=0.1)
            one, other = (each.rows(range(ROWS)) for each in same_shape._layers)
            self.assertGreater((one - other).abs().max(), 0.1)
            both = same_shape({"b": indices[:, None], "a": indices[:, None]})
            torch.testing.assert_close(both["a"], one[indices])
            torch.testing.assert_close(both["b"], other[indices])
            with self.assertRaisesRegex(verbena.InvalidArgumentError, "'seen'.*two tables"):
                layers.EmbeddingBagCollection(session, [tables[0], layers.EmbeddingBagConfig("x", 9, 2, ["seen"])], lr=1.0)

    def test_mistakes(self):
        with jobs.alone() as session:
            bag = layers.EmbeddingBag(session, "items", ROWS, WIDTH, lr=0.1)
            indices, offsets = torch.tensor([3, 50, 1]), torch.tensor([0, 2])
            for call, expected in (
                (lambda: bag(indices, offsets), 'index 50, the one at place 1: 0 to 49 .*"items" has 50'),
                (lambda: bag(torch.tensor([[-1]])), "index -1, .* 0 to 49"),
                (lambda: bag(torch.tensor([1, 2]), torch.tensor([0, 3])), r"offsets\[1\] is 3: 0 to 2, "),
                (lambda: bag(torch.tensor([1, 2]), torch.tensor([1])), r"offsets\[0\] is 1: 0 is"),
                (lambda: bag(torch.tensor([1, 2]), torch.tensor([0, 2, 1])), r"offsets\[2\] is 1: no less"),
                (lambda: bag(torch.tensor([1, 2]), torch.tensor([], dtype=torch.int64)), "offsets: the first one"),
                (lambda: bag(torch.tensor([1, 2])), "offsets: where the bags begin"),
                (lambda: bag(torch.tensor([[1, 2]]), offsets), "offsets: none is expected"),
                (lambda: bag(torch.tensor([[0.5]])), "whole numbers are expected"),
                (lambda: bag(torch.zeros(1, 2, dtype=torch.int64, device="meta")), "one on the device meta has none"),
                (lambda: bag(torch.tensor([[1]]), None, torch.tensor([[1.0]])), 'per_sample_weights: .*"sum"'),
                (lambda: bag(torch.tensor([[1]]), None, torch.tensor([1.0])), r"per_sample_weights: shape \(1, 1\)"),
                (lambda: layers.Embedding(session, "x", 9, 2), 'layer "x": one of both is expected, lr=0.05'),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, rule="sgd"), "one of both"),
                (lambda: layers.Embedding(session, "x", 9, 2, rule="add"), "would climb"),
                (lambda: layers.Embedding(session, "x", None, 2, lr=1.0), "num_embeddings is expected"),
                (lambda: layers.Embedding(session, "x", 0, 2, lr=1.0), "1 or more is expected, not 0"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, padding_idx=9), "-9 to 8 is expected, not 9"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, dtype=torch.int64), "float32 or torch.float64"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, initial="normal(devation=1)"), "initial: .*devation"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, initial=torch.zeros(2, 9)), r"\(9, 2\) is expected"),
                (lambda: layers.EmbeddingBag(session, "x", 9, 2, lr=1.0, mode="max"), "mode: .* not 'max'"),
                (lambda: layers.EmbeddingBag(session, "x", 9, 2, 1.0, lr=1.0), '"x": max_norm: None, .*, is expected, not 1.0'),
                (lambda: layers.EmbeddingBag(session, "x", 9, 2, lr=1.0, norm_type=1.0), "norm_type: 2.0, .* not 1.0"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, scale_grad_by_freq=True), "scale_grad_by_freq: False"),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, device="meta"), 'device: "cpu" is expected, not "meta"'),
                (lambda: layers.Embedding(session, "x", 9, 2, lr=1.0, _weight=torch.zeros(9, 2)), "initial=, a tensor"),
                (lambda: layers.DistributedOptimizer("adam", session), "the model is expected"),
                (lambda: layers.DistributedOptimizer("add", session, torch.nn.Linear(1, 1)), "would climb"),
                (lambda: next(layers.prefetch([], bag, ahead=0)), "ahead: 1 clock or more"),
                (lambda: next(layers.prefetch([{"a": indices}], bag)), "not of the type dict; or indices="),
                (lambda: next(layers.prefetch([indices], bag, bag)), "each of 2 layers .* the type Tensor"),
                (lambda: next(layers.prefetch([(indices,)], bag, bag)), "each of 2 layers .* not of 1 parts"),
                (lambda: next(layers.prefetch([0], bag, bag, indices=lambda _: [indices])), "list of 2, .* not 1 parts"),
                (lambda: layers.DistributedOptimizer("adam", session, torch.nn.Tanh()), "a parameter or more"),
                (lambda: layers.DistributedOptimizer("adam", session, torch.nn.ParameterList([
                    torch.nn.Parameter(torch.ones(1)),
                    torch.nn.Parameter(torch.ones(1, dtype=torch.float64), requires_grad=False)])), "not of torch.float64"),
                (lambda: layers.EmbeddingBagCollection(session, [layers.EmbeddingBagConfig("y", 9, 2, ["a"])], lr=1.0)(
                    {"b": indices}), "the one with the name 'a' is expected"),
            ):
                with self.assertRaisesRegex(verbena.InvalidArgumentError, expected):
                    call()
            optimizer = layers.DistributedOptimizer(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), 0.1), session)
            optimizer.pull()
            session.clock()
            with self.assertRaisesRegex(verbena.FailedPreconditionError, "pulled once in each clock"):
                optimizer.step()
            sums = bag(torch.tensor([[1]])).sum()
        with self.assertRaisesRegex(verbena.FailedPreconditionError, "closed"):
            sums.backward()

    def test_calls_take_no_memory(self):
        indices, offsets = torch.randint(0, 1000, (200,)), torch.arange(0, 200, 8)
        with jobs.alone(inbox_bytes=1 << 17, push_ring_bytes=1 << 17) as session:
            bag = layers.EmbeddingBag(session, "rows", 1000, 16, mode="sum", lr=1e-6)

            def calls(count):
                for i in range(count):
                    bag(indices, offsets).sum().backward()
                    if i % 10 == 0:
                        bag.prefetch(indices)
                        session.clock()

            calls(2000)
            gc.collect()
            before = jobs.resident_bytes()
            calls(10_000)
            gc.collect()
            self.assertLess(jobs.resident_bytes() - before, 1 << 20)


_seeding = threading.Lock()  # the generator is that of all threads


def model(seed, dtype=torch.float32):
    with _seeding:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(10, 13, dtype=dtype), torch.nn.Tanh(), torch.nn.Linear(13, 1, dtype=dtype))


def examples(share=0, shares=1, dtype=torch.float32):
    inputs = torch.randn(64, 10, generator=torch.Generator().manual_seed(2), dtype=dtype)[share::shares]
    return inputs, inputs[:, :3].prod(dim=1, keepdim=True)


def loss_of(net, given):
    inputs, wanted = given
    return ((net(inputs) - wanted)**2).mean()


def values_of(net):
    return [each.detach().clone() for each in net.parameters()]


class Optimizers(unittest.TestCase):
    def test_parameters_are_a_table(self):
        """Alone, all is as without a table."""
        with jobs.alone(servers=2) as session:
            for number, (kind, dtype) in enumerate(((torch.optim.SGD, torch.float32), (torch.optim.Adam, torch.float64))):
                ours, theirs = model(1, dtype), model(1, dtype)
                given = examples(dtype=dtype)
                optimizer = layers.DistributedOptimizer(kind(ours.parameters(), lr=0.05), session, ours,
                                                        name=f"model {number}")
                plain = kind(theirs.parameters(), lr=0.05)
                for _ in range(20):
                    optimizer.zero_grad()
                    loss = loss_of(ours, given)
                    loss.backward()
                    optimizer.step()
                    session.clock()
                    plain.zero_grad()
                    expected = loss_of(theirs, given)
                    expected.backward()
                    plain.step()
                    torch.testing.assert_close(loss, expected)
                    plain.zero_grad()

    def test_workers_share_a_model(self):
        """Two workers with half of the examples each are as one with all: steps are means."""
        for servers_step in (False, True):
            with jobs.job(workers=2, servers=2) as place:

                def work(session):
                    net = model(session.rank)  # worker 0's values count
                    optimizer = layers.DistributedOptimizer(
                        "sgd(rate=0.1)" if servers_step else torch.optim.SGD(net.parameters(), 0.1), session, net,
                        consistency=verbena.Bsp())
                    for _ in range(10):
                        optimizer.zero_grad()
                        loss_of(net, examples(session.rank, 2)).backward()
                        optimizer.step()
                        session.clock()
                    optimizer.pull()
                    return values_of(net)

                one, other = jobs.in_workers(place, work)
            alone = model(0)
            plain = torch.optim.SGD(alone.parameters(), 0.1)
            for _ in range(10):
                plain.zero_grad()
                loss_of(alone, examples()).backward()
                plain.step()
            torch.testing.assert_close(one, other, rtol=0, atol=0)
            torch.testing.assert_close(one, values_of(alone))

    def test_the_first_step_is_torchs(self):
        for rule, kind in (("adam(rate=0.01)", torch.optim.Adam), ("sgd(rate=0.01)", torch.optim.SGD)):
            with jobs.alone() as session:
                layers.EmbeddingBag(session, "items", 20_000, WIDTH, lr=0.1)
                ours, theirs = model(1), model(1)
                optimizer, plain = layers.DistributedOptimizer(rule, session, ours), kind(theirs.parameters(), 0.01)
                for _ in range(3):
                    for net, steps in ((ours, optimizer), (theirs, plain)):
                        steps.zero_grad()
                        loss_of(net, examples()).backward()
                        steps.step()
                    session.barrier()
                    optimizer.pull()
                    # torch.optim.Adam has its epsilon elsewhere; a t of 2 in the first step would be 0.002 off.
                    torch.testing.assert_close(values_of(ours), values_of(theirs), rtol=0, atol=3e-4)

    def test_all_parameters_begin_as_worker_0s(self):
        """Frozen ones, and those that the optimizer does not have, too."""
        for given in (lambda net: "sgd(rate=0.1)", lambda net: torch.optim.SGD(net[2].parameters(), 0.1)):
            for consistency in ("bsp", "ssp:1"):
                with jobs.job(workers=2, servers=2) as place:

                    def work(session):
                        net = model(session.rank)
                        net[0].requires_grad_(False)
                        layers.DistributedOptimizer(given(net), session, net, consistency=consistency)
                        net(examples()[0])
                        return values_of(net)

                    one, other = jobs.in_workers(place, work)
                torch.testing.assert_close(one, values_of(model(0)), rtol=0, atol=0)
                torch.testing.assert_close(other, one, rtol=0, atol=0)

    def test_two_optimizers_of_a_model(self):
        """What the second one gives to the first one's parameters is what these have begun with."""
        with jobs.job(workers=2, servers=2) as place:

            def work(session):
                net = model(session.rank)
                optimizers = []
                for number, kind in ((0, torch.optim.SGD), (2, torch.optim.Adam)):
                    optimizers.append(layers.DistributedOptimizer(kind(net[number].parameters(), 0.01), session, net,
                                                                  name=f"part {number}", consistency=verbena.Bsp()))
                    torch.testing.assert_close(values_of(net), values_of(model(0)), rtol=0, atol=0)
                for _ in range(3):
                    loss_of(net, examples()).backward()
                    for each in optimizers:
                        each.step()
                        each.zero_grad()
                    session.clock()
                for each in optimizers:
                    each.pull()
                return values_of(net)

            one, other = jobs.in_workers(place, work)
        torch.testing.assert_close(one, other, rtol=0, atol=0)
        alone = model(0)
        plain = [torch.optim.SGD(alone[0].parameters(), 0.01), torch.optim.Adam(alone[2].parameters(), 0.01)]
        for _ in range(3):
            loss_of(alone, examples()).backward()
            for each in plain:
                each.step()
                each.zero_grad()
        torch.testing.assert_close(one, values_of(alone))

    def test_what_others_change_is_not_lost_silently(self):
        with jobs.alone() as session:
            for number, optimizer_of in enumerate((lambda net: "sgd(rate=0.1)",
                                                   lambda net: torch.optim.SGD(net.parameters(), 0.1))):
                net = model(1)
                optimizer = layers.DistributedOptimizer(optimizer_of(net), session, net, name=f"model {number}")
                net(examples()[0])
                session.clock()
                net.load_state_dict(model(2).state_dict())
                with self.assertRaisesRegex(verbena.FailedPreconditionError, "before the optimizer is made"):
                    net(examples()[0])
            net = model(1)
            with torch.no_grad():
                net[0].weight[0, 0] = float("nan")  # is as it was, although it is not equal
            plain = torch.optim.SGD(net[2].parameters(), 0.1)
            optimizer = layers.DistributedOptimizer(torch.optim.SGD(net[0].parameters(), 0.1), session, net, name="nan")
            optimizer.pull()
            frozen = model(1).requires_grad_(False)
            frozen[0].requires_grad_(True)
            servers = layers.DistributedOptimizer("sgd", session, frozen, name="frozen")
            frozen.requires_grad_(True)
            loss_of(frozen, examples()).backward()
            with self.assertRaisesRegex(verbena.FailedPreconditionError, "frozen when the optimizer was made"):
                servers.step()
            optimizer.optimizer.add_param_group(plain.param_groups[0])
            with self.assertRaisesRegex(verbena.FailedPreconditionError, "add_param_group"):
                optimizer.step()

    def test_without_a_gradient_nothing_is_pushed(self):
        with jobs.alone() as session:
            net = model(1)
            net[2].requires_grad_(False)
            before = values_of(net)
            optimizer = layers.DistributedOptimizer("momentum(rate=0.1)", session, net, consistency="bsp")
            for step in range(3):
                optimizer.zero_grad()
                if step < 2:  # then there are none at all
                    loss_of(net, examples()).backward()
                else:
                    optimizer.pull()
                self.assertIs(optimizer.step(lambda: 5), 5)
                session.clock()
                optimizer.pull()
                if step == 1:
                    rested = values_of(net)
            after = values_of(net)
            torch.testing.assert_close(after[2:], before[2:], rtol=0, atol=0)
            torch.testing.assert_close(after, rested, rtol=0, atol=0)
            self.assertGreater((after[0] - before[0]).abs().max(), 0.001)

    def test_it_goes_on_from_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            with jobs.job() as place, verbena.connect(**place) as session:
                net = model(1)
                layers.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), session, net)
                rows = layers.Embedding(session, "rows", 9, 2, rule="adagrad(rate=0.1)").rows(range(9))
                session.checkpoint(folder)
                session.finish_checkpoint()
            path = verbena.newest_checkpoint(folder).path
            with jobs.job() as place, verbena.connect(**place, resume=path) as session:
                again = model(2)
                layers.DistributedOptimizer(torch.optim.SGD(again.parameters(), 0.1), session, again).pull()
                torch.testing.assert_close(values_of(again), values_of(net))
                same = layers.Embedding(session, "rows", 9, 2, rule="adagrad(rate=0.1)", seed=9).rows(range(9))
                torch.testing.assert_close(same, rows)


class OverDlpack(unittest.TestCase):
    def test_all_is_the_same(self):
        """As with a torch that was built for another numpy."""
        self.addCleanup(setattr, layers, "_BY_NUMPY", layers._BY_NUMPY)
        layers._BY_NUMPY = False
        Layers("test_weights_of_samples").test_weights_of_samples()
        Optimizers("test_parameters_are_a_table").test_parameters_are_a_table()


class Prefetch(unittest.TestCase):
    def test_batches_come_in_order(self):
        class Noted:
            def __init__(self):
                self.calls = []

            def prefetch(self, indices, clocks):
                self.calls.append((indices, clocks))

        for ahead in (1, 2, 5):
            one, two = Noted(), Noted()
            batches = [(i, 10 * i) for i in range(4)]
            taken = []
            for batch in layers.prefetch(batches, one, two, ahead=ahead):
                taken.append(batch)
                self.assertEqual(len(one.calls), min(4, len(taken) + ahead))
            self.assertEqual(taken, batches)
            self.assertEqual(one.calls, [(i, min(i, ahead)) for i in range(4)])
            self.assertEqual(two.calls, [(10 * i, min(i, ahead)) for i in range(4)])
        self.assertEqual(list(layers.prefetch([{"a": 3}], one, indices=lambda batch: [batch["a"]])), [{"a": 3}])
        self.assertEqual(one.calls[-1], (3, 0))
        one.calls.clear()
        batches = list(torch.arange(6).view(3, 2))  # one layer's, without a tuple around them
        taken = list(layers.prefetch(torch.utils.data.DataLoader(batches, batch_size=None), one))
        self.assertEqual([each.tolist() for each in taken], [[0, 1], [2, 3], [4, 5]])
        self.assertEqual([indices.tolist() for indices, _ in one.calls], [[0, 1], [2, 3], [4, 5]])
        list(layers.prefetch([(1, 2, 3)], one))  # with what is no layer's after it
        self.assertEqual(one.calls[-1], (1, 0))
        with jobs.alone() as session:
            collection = layers.EmbeddingBagCollection(session, [layers.EmbeddingBagConfig("a", 9, 2, ["x"])], lr=1.0)
            batch = {"x": torch.tensor([[1]])}
            self.assertEqual(list(layers.prefetch([batch], collection)), [batch])
            bag = layers.EmbeddingBag(session, "b", 9, 2, lr=1.0)
            with self.assertRaisesRegex(verbena.InvalidArgumentError, "not of the type dict"):
                next(layers.prefetch([batch], bag))

    def test_batches_that_other_processes_load(self):
        """Of a DataLoader with processes of its own, which fork() has made."""
        data = torch.utils.data.TensorDataset(torch.arange(40) % ROWS)
        with jobs.alone() as session:
            rows = layers.Embedding(session, "rows", ROWS, WIDTH, lr=1.0, initial="zero")
            seen = []
            for (indices,) in layers.prefetch(torch.utils.data.DataLoader(data, batch_size=8, num_workers=2), rows):
                rows(indices).sum().backward()
                session.clock()
                seen += indices.tolist()
            self.assertEqual(seen, list(range(40)))
            expected = torch.zeros(ROWS, WIDTH)
            expected[:40] = -1
            torch.testing.assert_close(rows.rows(range(ROWS)), expected)

    def test_rows_that_move_are_there(self):
        """Two workers on two nodes, each of which wants what is on the other's: intents bring the rows."""
        with jobs.job(workers=2, servers=2) as place:

            def work(session):
                rows = layers.Embedding(session, "rows", 400, WIDTH, lr=0.1, dynamic=True, consistency="asp")
                own = torch.tensor([key for key in range(400) if not rows.table.is_here(key)])[:150]
                session.barrier()
                data = torch.utils.data.TensorDataset(own)
                number = 0
                for (indices,) in layers.prefetch(torch.utils.data.DataLoader(data, batch_size=10), rows, ahead=2):
                    deadline = time.monotonic() + 60
                    # Intents of the first two batches are for now, and need not be there in time.
                    while number >= 2 and not all(rows.table.is_here(int(each)) for each in indices):
                        self.assertLess(time.monotonic(), deadline, f"batch {number} has not come")
                        session.poll()
                        time.sleep(0.001)
                    rows(indices).sum().backward()
                    session.barrier()
                    number += 1
                return len(own), number

            self.assertEqual(jobs.in_workers(place, work), [(150, 15)] * 2)

    def test_rows_are_in_the_cache(self):
        """From a server that is read over a network: what was asked for before needs no request."""
        with jobs.alone("tcp", read_path="cached") as session:
            rows = layers.EmbeddingBag(session, "rows", 10_000, WIDTH, lr=0.1, consistency=verbena.Essp(staleness=2))
            requests = []
            batches = list(torch.arange(10_000).view(20, 1, 500).unbind())
            for loader in (([batch] for batch in batches[:10]),
                           layers.prefetch([[batch] for batch in batches[10:]], rows)):
                posted = 0
                for (batch,) in loader:
                    for _ in range(100):  # what was asked for comes meanwhile, also on a busy host
                        session.poll()
                        time.sleep(0.0005)
                    before = session.statistics()["requests_posted"]
                    rows(batch)
                    posted += session.statistics()["requests_posted"] - before
                    session.barrier()
                requests.append(posted)
            self.assertGreaterEqual(requests[0], 10)
            self.assertLess(requests[1], requests[0] // 2)


class Imports(unittest.TestCase):
    def test_before_and_after(self):
        """Neither library keeps the other from being loaded, and both work."""
        for first, second in (("torch", "verbena"), ("verbena", "torch")):
            output = jobs.run_script(f"import {first}, {second}, verbena.torch\n"
                                     "with verbena.init() as session:\n"
                                     "    rows = verbena.torch.Embedding(session, 'rows', 9, 2, lr=1.0, initial='zero')\n"
                                     "    (rows(torch.tensor([3])) * torch.tensor([5.0, 7.0])).sum().backward()\n"
                                     "    print(rows.rows([3]).tolist())\n", LD_PRELOAD="")
            self.assertEqual(output, "[[-5.0, -7.0]]\n")


if __name__ == "__main__":
    unittest.main()
