# SPDX-License-Identifier: GPL-2.0-only
"""The Python programs and the commands of weft-pack in docs/, in their order, on files in a folder in place of /mnt/data.
FOLDER of the environment is where that is made; the current folder without it."""
import os
import re
import subprocess
import tarfile
import tempfile
import unittest

import torch

import weft.pack._volume

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs")
# What a machine without a GPU, with little time, and with a folder of the test has in place of what the documents say.
SMALLER = (('device="cuda"', 'device="cpu"'), ("1 << 30", "1 << 23"), ("range(10)", "range(2)"),
           ("num_workers=4", "num_workers=1"))
PROGRAM = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def document(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER", "."))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_programs(self, name, count, **names):
        """Run the programs of a document, which see each other's names as a reader's do. Returns all of these names."""
        programs = PROGRAM.findall(document(name))
        self.assertEqual(len(programs), count)
        for i, program in enumerate(programs):
            for said, here in (*SMALLER, ("/mnt/data", self.folder)):
                program = program.replace(said, here)
            with self.subTest(document=name, program=i + 1):
                exec(compile(program, f"{name}, program {i + 1}", "exec"), names)
        return names

    def test_library(self):
        content = os.urandom((1 << 23) + 8192)
        with open(self.path("model.bin"), "wb") as file:
            file.write(content)
        with open(self.path("tokens.bin"), "wb") as file:
            file.write(os.urandom(300 * 8192))
        names = self.run_programs("library.md", 4, state={"weights": torch.arange(5000.0)})
        self.assertEqual(names["result"].bytes, 1 << 23)
        with open(self.path("checkpoint"), "rb") as file:
            # The gather was the last read, into the beginning of the tensor.
            self.assertEqual(file.read(), content[:4096] + content[1 << 20:][:4096] + content[12288:][:(1 << 23) - 8192])
        self.assertEqual(sum(len(batch) for batch in names["loader"]), 300)
        self.assertEqual([tuple(batch.shape) for batch in names["loader"]], [(256, 4096), (44, 4096)])
        self.assertTrue(torch.equal(names["state"]["weights"], torch.arange(5000.0)))

    def test_packed(self):
        samples = {f"{i:03}.bin": os.urandom(5000) for i in range(600)}
        os.mkdir(self.path("source"))
        for name, data in samples.items():
            with open(self.path(f"source/{name}"), "wb") as file:
                file.write(data)
        for part in range(2):
            with tarfile.open(self.path(f"train-{part}.tar"), "w") as archive:
                for name in sorted(samples)[part::2]:
                    archive.add(self.path(f"source/{name}"), name)
        commands = re.findall(r"^    (weft-pack .*?)(?: +#.*)?$", document("packed.md"), re.MULTILINE)
        self.assertEqual([command.split()[1] for command in commands], ["pack", "info", "verify", "unpack"])
        for command in commands:
            done = subprocess.run(["sh", "-c", command.replace("/mnt/data", self.folder)], cwd=self.folder,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        self.addCleanup(self.unseal, self.path("train.weft"))
        found = []
        for where, _, files in os.walk(self.path("FOLDER")):
            for name in files:
                with open(os.path.join(where, name), "rb") as file:
                    found.append(file.read())
        self.assertEqual(sorted(found), sorted(samples.values()))
        names = self.run_programs("packed.md", 1)
        self.assertEqual(names["step"], 3)
        self.assertEqual(len(names["state"]["state"]), 24)

    @staticmethod
    def unseal(path):
        with open(path, "rb") as file:
            weft.pack._volume.seal(file.fileno(), False)


if __name__ == "__main__":
    unittest.main()
