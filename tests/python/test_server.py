# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server in the small: an application with 40 kernels of Triton and a compiled model is built here and its bundle signed; then it starts in another root, which has
neither compilers nor an assembler nor a home, nor a cache that may be written, and compiles nothing. Takes minutes: KILN_TEST_FULL=1. Skipped where PyTorch or Triton
is absent, or no namespaces can be made."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

import kiln  # noqa: E402

try:
    import torch  # noqa: F401
    import triton  # noqa: F401
    import kiln.triton  # noqa: F401
    absent = None
except ImportError as missing:
    absent = str(missing)

KERNELS = 40

APP = """
import sys, time
begin = time.perf_counter()
started = []
def note(event, facts):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork"):
        frame = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.endswith("/ctypes/util.py"):  # PyTorch 2.15 looks for a library by ldconfig and ld, which are not there
            frame = frame.f_back
        if frame is None:
            started.append((event, facts[0]))
sys.addaudithook(note)
import torch, triton
import torch._inductor.config as inductor
import kernels
inductor.cpu_backend, inductor.compile_threads = "triton", 1
imported = time.perf_counter()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.LayerNorm(96), torch.nn.Linear(96, 8), torch.nn.Softmax(-1))
x, total = torch.randn(16, 48), torch.zeros(3000)
with torch.no_grad():
    near = torch.allclose(torch.compile(model)(x), model(x), atol=1e-5)
for kernel in kernels.ALL:
    kernel[(triton.cdiv(3000, 128),)](total, 3000, BLOCK=128)
print(near, total.eq(sum(range(len(kernels.ALL)))).all().item(), "first result after %.2f s" % (time.perf_counter() - imported), "started", started if "closed" in sys.argv else "")
"""

KERNEL = """
@triton.jit
def add_%d(total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(total + i, tl.load(total + i, mask=i < n) + %d, mask=i < n)
"""

# $1: the root, then folders that it has at the same places, read-only; what compiles is taken out of /usr.
ELSEWHERE = r"""
root=$1; shift
mount -t tmpfs none "$root"
for folder in /usr /bin /lib /lib64 /etc "$@"; do
  [ -e "$folder" ] || continue
  if [ -L "$folder" ]; then ln -s "$(readlink "$folder")" "$root$folder"; continue; fi
  mkdir -p "$root$folder" && mount --rbind "$folder" "$root$folder" && mount -o remount,bind,ro "$root$folder"
done
for program in gcc cc g++ c++ clang tcc ld as ptxas kiln; do
  for path in $(ls /usr/bin/$program /usr/local/bin/$program /usr/bin/$program-[0-9]* /usr/bin/x86_64-linux-gnu-$program /usr/local/cuda*/bin/$program 2>/dev/null); do
    path=$(readlink -f "$path"); mount --bind /dev/null "$root$path"
  done
done
mkdir -p "$root/proc" "$root/dev" "$root/tmp" && mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev"
exec chroot "$root" env -i PATH=/usr/bin:/bin HOME=/none LC_ALL=C TORCHINDUCTOR_CACHE_DIR=/tmp/inductor KILN_CACHE_DIR=/none PYTHONPATH="$PYTHONPATH" \
  KILN_TRITON_BUNDLE="$BUNDLE" KILN_TRITON_MISS=error KILN_TRITON_TRUST="$TRUST" KILN_TRITON_REPORT=/tmp/report \
  sh -c '"$1" -W ignore "$2" closed; status=$?; cat /tmp/report; exit $status' sh "$PYTHON" "$APP"
"""


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = absent or (None if os.environ.get("KILN_TEST_FULL") == "1" else "KILN_TEST_FULL=1 runs it") or (None if os.geteuid() == 0 else "this is not root")
        if not reason and subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode:
            reason = "no namespaces can be made"
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.mkdtemp(dir=FOLDER)
        cls.site, cls.key = os.path.join(cls.folder, "site"), os.path.join(cls.folder, "release.key")
        os.mkdir(cls.site)
        for name, text in (("site/sitecustomize.py", "import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python")), ("app.py", APP),
                           ("kernels.py", "import triton\nimport triton.language as tl\n%s\nALL = [%s]\n" % (
                               "\n".join(KERNEL % (i, i) for i in range(KERNELS)), ", ".join("add_%d" % i for i in range(KERNELS))))):
            with open(os.path.join(cls.folder, name), "w") as file:
                file.write(text)
        cls.bundle = os.path.join(cls.folder, "app.kbundle")
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "TRITON_", "TORCHINDUCTOR_"))}
        cls.environment.update(PYTHONPATH=os.pathsep.join((cls.site, os.path.join(support.BUILD, "python"))), PYTHON=sys.executable, APP=os.path.join(cls.folder, "app.py"))
        done = subprocess.run([sys.executable, "-W", "ignore", cls.environment["APP"]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200, env={
            **cls.environment, "KILN_TRITON_SAVE": cls.bundle, "KILN_CACHE_DIR": os.path.join(cls.folder, "cache"), "TORCHINDUCTOR_CACHE_DIR": os.path.join(cls.folder, "built")})
        cls.built = done.stdout.decode(errors="replace")
        if done.returncode:
            raise AssertionError(cls.built)
        support.tool("cache", "keygen", "--name=release", cls.key)
        support.tool("sign", "--key", cls.key, cls.bundle)

    def start(self, bundle):
        """(exit status, what was printed, the report) of the application in the other root."""
        root = os.path.join(self.folder, "root")
        os.makedirs(root, exist_ok=True)
        folders = [self.folder, sys.prefix, sys.base_prefix, os.path.join(support.ROOT, "python"), os.path.join(support.BUILD, "python"), os.path.join(support.BUILD, "lib")]
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "bash", "-euc", ELSEWHERE, "bash", root, *folders],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1200, env={**self.environment, "BUNDLE": bundle, "TRUST": self.key + ".pub"})
        said = done.stdout.decode(errors="replace")
        return done.returncode, said, done.stderr.decode(errors="replace")

    def test_nothing_is_compiled(self):
        self.assertIn("True True", self.built)
        code, said, errors = self.start(self.bundle)
        self.assertEqual(code, 0, said + errors)
        first, report = said.splitlines()[:2]
        self.assertRegex(first, r"^True True first result after [\d.]+ s started \[\]$")  # no process, so no compiler
        report = json.loads(report)
        self.assertEqual({origin for origin, count in report["launches"].items() if count}, {"bundle"}, said)
        self.assertEqual(sum(one["name"].startswith("add_") for one in report["kernels"]), KERNELS)
        self.assertTrue(any(one["name"].startswith("triton_") for one in report["kernels"]))

    def test_one_kernel_is_missing(self):
        fewer = os.path.join(self.folder, "fewer.kbundle")
        name, = [name for name in kiln.Library(self.bundle).kernels if name.startswith("add_17[")]
        support.tool("prune", "--drop-kernel=" + name, "-o", fewer, self.bundle)
        code, said, errors = self.start(fewer)
        self.assertNotEqual(code, 0)
        self.assertRegex(errors, r"fewer.kbundle.*KILN-E")
        support.tool("sign", "--key", self.key, fewer)
        code, said, errors = self.start(fewer)
        self.assertNotEqual(code, 0)
        self.assertIn("kernel 'add_17': its entry in %s leads to '%s', a kernel that is not in the bundle" % (fewer, name), errors)
        self.assertEqual(json.loads(said.splitlines()[-1])["launches"]["missing"], 1)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
