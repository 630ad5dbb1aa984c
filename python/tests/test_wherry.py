"""The package against what the reference libraries gave (tests/golden/heads.json), its errors, threads, and what it leaves.

usage: test_wherry.py REPOSITORY, with WHERRY_LIBRARY and PYTHONPATH set, or the wheel installed
The environment variable WHERRY_TEST_MODEL: folder of all-MiniLM-L6-v2, for what needs a real tokenizer.
"""

import _thread
import gc
import json
import os
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy as np
except ModuleNotFoundError:
    print("skipped: no numpy")
    sys.exit(77)

import wherry

REPOSITORY = sys.argv.pop(1)
GOLDEN = os.path.join(REPOSITORY, "tests", "golden")
sys.path.insert(0, GOLDEN)
import heads_models  # noqa: E402
import question_models  # noqa: E402

with open(os.path.join(GOLDEN, "heads.json"), encoding="utf-8") as file:
    golden = json.load(file)
folder = tempfile.TemporaryDirectory()
DEVICE = os.environ.get("WHERRY_TEST_DEVICES", "cpu").split()[0]


def model_of(kind, **more):
    path = os.path.join(folder.name, kind)
    if not os.path.isdir(path):
        heads_models.write_model(kind, path)
    return wherry.Model(path, device=DEVICE, **more)


class Devices(unittest.TestCase):
    def test_list(self):
        found = {device.id: device for device in wherry.devices()}
        self.assertTrue(found["reference"].usable)
        self.assertTrue(all(device.usable != bool(device.reason) for device in found.values()))

    def test_unknown(self):
        with self.assertRaises(wherry.WherryError) as raised:
            wherry.Model(folder.name, device="vulkan:99")
        self.assertEqual(raised.exception.status, "no device")
        with self.assertRaises(ValueError):
            wherry.Model(folder.name, dtype="f64")
        with self.assertRaises(ValueError):
            wherry.Model(folder.name, weights="int4")


class Embeddings(unittest.TestCase):
    kind = "sentence-dense"

    def setUp(self):
        self.model = model_of(self.kind)
        self.wanted = golden["models"][self.kind]
        self.texts = golden["texts"]

    def tearDown(self):
        self.model.close()

    def close_to(self, found, wanted):
        np.testing.assert_allclose(found, np.array(wanted), atol=1e-4)

    def test_golden(self):
        found = self.model.encode(self.texts, prompt="")
        self.assertEqual((found.dtype, found.shape),
                         (np.dtype("float32"), (len(self.texts), self.model.get_sentence_embedding_dimension())))
        self.close_to(found, self.wanted["embeddings"])
        self.close_to(self.model.encode(self.texts[:2], prompt="query"), self.wanted["prompted"])
        self.close_to(self.model.encode(self.texts[:2], prompt="", dim=8, normalize=True), self.wanted["cut"])
        with model_of(self.kind, weights="int8") as rounded:
            np.testing.assert_allclose(rounded.encode(self.texts, prompt=""), found, atol=0.1)
            self.assertGreater(np.abs(rounded.encode(self.texts, prompt="") - found).max(), 1e-6)
        self.assertEqual(set(self.model.prompts), {"query", "document"})

    def test_low_priority(self):
        """What the device has of it is told, and where it was not asked for nothing is."""
        with model_of(self.kind, low_priority=True) as low:
            self.assertTrue(low.device.priority)
            np.testing.assert_array_equal(low.encode(self.texts), self.model.encode(self.texts))
        self.assertEqual(self.model.device.priority, "")

    def test_same_bits(self):
        many = self.model.encode(self.texts * 200, prompt="", batch_tokens=300)
        one = np.stack([self.model.encode(text, prompt="") for text in self.texts])
        self.assertTrue((many == np.tile(one, (200, 1))).all())
        streamed = np.stack(list(self.model.encode_iter((text for text in self.texts * 200), prompt="")))
        self.assertTrue((many == streamed).all())

    def test_empty(self):
        self.assertEqual(self.model.encode([]).shape[0], 0)
        self.assertEqual(list(self.model.encode_iter(iter(()))), [])
        self.assertEqual(self.model.tokenize([]), [])
        self.assertTrue(np.isfinite(self.model.encode("")).all())

    def test_progress(self):
        seen = []
        self.model.encode(self.texts, progress=seen.append)
        self.assertEqual(seen[-1], len(self.texts))

    def test_refusals(self):
        for wrong, text in (([1], "text 0 is no str but int"), (["a", None], "text 1 is no str but NoneType"),
                            ((t for t in "ab"), "encode_iter")):
            with self.assertRaisesRegex(TypeError, text):
                self.model.encode(wrong)
        for options in ({"dim": 0}, {"dim": -1}, {"batch_tokens": 0}, {"pairs": ["a"]}):
            with self.assertRaises(ValueError):
                self.model.encode(["a", "b"], **options)
        for pairs, text in (("ab", "one str"), (["a", 7], "the pair of text 1 is no str but int")):
            with self.assertRaisesRegex(TypeError, text):
                self.model.encode(["a", "b"], pairs=pairs)
        with self.assertRaises(wherry.WherryError):
            self.model.encode(["a"], dim=10**6)
        with self.assertRaisesRegex(wherry.WherryError, "query, document"):
            self.model.encode(["a"], prompt="passage")
        with self.assertRaisesRegex(wherry.WherryError, "text 300 has .* tokens") as raised:
            self.model.encode(["boat"] * 300 + ["boat " * 1000], truncate=False, prompt="")
        self.assertEqual(raised.exception.status, "too long")
        self.assertEqual(self.model.encode(["boat " * 1000]).shape[0], 1)

    def test_generator_raises(self):
        def texts():
            yield from self.texts * 100
            raise KeyError("the caller's own")

        found = []
        with self.assertRaises(KeyError):
            for vector in self.model.encode_iter(texts(), prompt="", batch_tokens=300):
                found.append(vector)
        self.assertTrue(found)
        self.close_to(self.model.encode(self.texts, prompt=""), self.wanted["embeddings"])
        stream = self.model.encode_iter(iter(self.texts * 100), batch_tokens=300)
        next(stream)
        stream.close()
        self.close_to(self.model.encode(self.texts, prompt=""), self.wanted["embeddings"])

    def test_bad_text_in_the_middle(self):
        """Those before it come first, whatever block it is in."""
        for at in (0, 1, 255, 256, 5000):
            texts = ["boat"] * at + [b"bytes"] + ["boat"] * 10
            stream, found = self.model.encode_iter(iter(texts), prompt=""), 0
            with self.assertRaisesRegex(TypeError, f"text {at} is no str but bytes"):
                for _ in stream:
                    found += 1
            self.assertEqual(found, at)

    def test_interrupt(self):
        """Ctrl-C ends a long call within a batch, and the model can be used again."""
        texts, batch = ["the boat on the water"] * 200000, 64
        timer = threading.Timer(0.3, _thread.interrupt_main)
        done = []
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            start = time.monotonic()
            self.model.encode(texts, prompt="", batch_tokens=batch, progress=done.append)
        self.assertLess(done[-1] if done else 0, len(texts))
        self.assertLess(time.monotonic() - start, 30)
        self.close_to(self.model.encode(self.texts, prompt=""), self.wanted["embeddings"])

    def test_open_streams(self):
        """A stream that nobody reads on keeps nobody waiting: not other threads, not close, not the collector."""
        streams = [self.model.encode_iter(iter(self.texts * 200), prompt="", batch_tokens=300) for _ in range(3)]
        first = [next(stream) for stream in streams]
        found = []
        thread = threading.Thread(target=lambda: found.append(self.model.encode(self.texts, prompt="")))
        thread.start()
        thread.join(60)
        self.assertTrue(found and all((found[0][0] == one).all() for one in first))
        del streams[0]
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        self.assertTrue((next(streams[0]) == found[0][1]).all())
        self.model.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            list(streams[0])

    def test_close_while_encoding(self):
        outcomes = []

        def run():
            try:
                outcomes.append(len(self.model.encode(self.texts * 5000, prompt="", batch_tokens=300)))
            except ValueError as closed:
                outcomes.append(str(closed))

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        self.model.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(outcomes), 3)
        self.assertLessEqual(set(outcomes), {len(self.texts) * 5000, "the model is closed"})

    def test_names(self):
        """Those of sentence-transformers."""
        query, document = self.model.encode_query(self.texts), self.model.encode_document(self.texts)
        self.assertTrue((query == self.model.encode(self.texts, prompt="query")).all())
        self.assertTrue((document == self.model.encode(self.texts, prompt="document")).all())
        cosines = self.model.similarity(query, document[:2])
        self.assertEqual(cosines.shape, (len(self.texts), 2))
        a, b = query[1].astype(float), document[0].astype(float)
        self.assertAlmostEqual(float(cosines[1, 0]), a @ b / np.sqrt((a @ a) * (b @ b)), places=5)
        self.assertEqual(self.model.max_seq_length, self.model.max_tokens)

    def test_surrogates(self):
        """Half a pair is the character that stands for what can't be read, as the library has it."""
        found = self.model.tokenize(["a \ud800 b", "a \ufffd\ufffd\ufffd b", "a \ud800 b é" * 300])
        self.assertEqual(list(found[0]), list(found[1]))

    def test_threads(self):
        wanted, failures = self.model.encode(self.texts, prompt=""), []

        def run():
            for _ in range(5):
                if not (self.model.encode(self.texts, prompt="") == wanted).all():
                    failures.append("other bits")

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_verify_and_report(self):
        found = self.model.verify(replays=2)
        self.assertTrue(found.passed and found.groups > 5 and found.replays >= 2, found)
        self.model.encode(self.texts)
        report = self.model.report()
        self.assertEqual(report["device"].id, DEVICE)
        self.assertTrue(report["sessions"][0]["device_bytes"] > report["sessions"][0]["weight_bytes"] > 0)

    def test_closed(self):
        self.model.close()
        self.model.close()
        with self.assertRaises(ValueError):
            self.model.encode(["a"])


class Classes(unittest.TestCase):
    def test_rerank(self):
        wanted = golden["models"]["bert-rerank"]["scores"]
        with model_of("bert-rerank") as model:
            found = model.rerank(golden["query"], golden["texts"])
            self.assertEqual([r.score for r in found], sorted((r.score for r in found), reverse=True))
            for ranked in found:
                self.assertAlmostEqual(ranked.score, wanted[ranked.index], places=4)
                self.assertEqual(ranked.text, golden["texts"][ranked.index])
            self.assertEqual(model.rerank(golden["query"], golden["texts"], top_k=2), found[:2])
            self.assertEqual(model.rerank("a", []), [])

    def test_instruction(self):
        with open(os.path.join(GOLDEN, "questions.json"), encoding="utf-8") as file:
            asked = json.load(file)
        with tempfile.TemporaryDirectory() as path:
            question_models.write_model("ask", path)
            with wherry.Model(path, device="cpu") as model:
                for instruction, name in ((None, "scores"), (asked["instruction"], "told")):
                    for ranked in model.rerank(asked["query"], asked["texts"], instruction=instruction):
                        self.assertAlmostEqual(ranked.score, asked["models"]["ask"][name][ranked.index], places=4)
        with model_of("bert-rerank") as model:
            with self.assertRaisesRegex(wherry.WherryError, "no place for an instruction"):
                model.rerank("a", ["b"], instruction="c")

    def test_classify(self):
        wanted = golden["models"]["bert-classify"]
        with model_of("bert-classify") as model:
            self.assertEqual(model.labels, wanted["names"])
            np.testing.assert_allclose(model.predict(golden["texts"]), wanted["labels"], atol=1e-4)
            pairs = model.predict([golden["query"]] * len(golden["texts"]), golden["texts"])
            np.testing.assert_allclose(pairs, wanted["pairs"], atol=1e-4)
            best = [next(iter(row)) for row in model.classify(golden["texts"])]
            self.assertEqual(best, [wanted["names"][int(np.argmax(row))] for row in wanted["labels"]])
            with self.assertRaisesRegex(wherry.WherryError, "no reranker"):
                model.rerank("a", ["b"])


class Training(unittest.TestCase):
    def test_gradients(self):
        """Against the loss itself: half the mean of the squared outputs, moved along its own gradient."""
        with wherry.Layers("minilm-l6", device=DEVICE, layers=1, hidden=32, heads=4, feed_forward=64, max_tokens=12,
                           dropout=0.1) as layers:
            x = np.random.default_rng(1).standard_normal((12, 32), dtype=np.float32)
            step = {"lengths": [7, 5], "step": 3, "seed": 42}

            def loss(x):
                return float(np.square(layers.forward(x, **step).astype(float)).sum() / 2)

            y = layers.forward(x, **step)
            self.assertFalse((y == layers.forward(x, [7, 5], step=4, seed=42)).all())
            self.assertTrue((y == layers.forward(x, **step)).all())
            dx = layers.backward(y)
            gradients = layers.gradients()
            width = 0.01 / float(np.linalg.norm(dx))
            slope = (loss(x + width * dx) - loss(x - width * dx)) / (2 * width)
            self.assertAlmostEqual(slope / float(np.square(dx).sum()), 1, places=2)
            self.assertEqual(gradients["layer.0.w_qkv"].shape, (3, 4, 8, 32))
            self.assertEqual(gradients["layer.0.w_lin1"].shape, (64, 32))
            self.assertTrue(all(np.isfinite(g).all() and g.any() for g in gradients.values()))

    def test_refusals(self):
        with self.assertRaises(wherry.WherryError):
            wherry.Layers("no-such-shape", device=DEVICE)
        with self.assertRaises(TypeError):
            wherry.Layers("minilm-l6", device=DEVICE, layer=1)
        with self.assertRaises(ValueError):
            wherry.Layers("minilm-l6", device=DEVICE, dtype="bf16")
        layers = wherry.Layers("minilm-l6", device=DEVICE, layers=1, hidden=32, heads=4, feed_forward=64, max_tokens=12)
        with self.assertRaises(ValueError):
            layers.forward(np.zeros((12, 31)), [12])
        with self.assertRaises(wherry.WherryError):
            layers.backward(np.zeros((0, 32)))
        layers.close()
        layers.close()
        with self.assertRaises(ValueError):
            layers.forward(np.zeros((12, 32)), [12])


class Real(unittest.TestCase):
    def test_model(self):
        path = os.environ.get("WHERRY_TEST_MODEL")
        if not path:
            self.skipTest("WHERRY_TEST_MODEL does not name the folder of all-MiniLM-L6-v2")
        with wherry.Model(path, device=DEVICE) as model:
            self.assertEqual(list(model.tokenize("hello world")), [101, 7592, 2088, 102])
            self.assertEqual([len(t) for t in model.tokenize(["a"] * 600)], [3] * 600)
            a, b, c = model.encode(["A boat crosses the river.", "A ferry goes over the water.", "Prices rose."])
            self.assertAlmostEqual(float(a @ a), 1, places=5)
            self.assertGreater(float(a @ b), float(a @ c) + 0.3)


if __name__ == "__main__":
    unittest.main()
