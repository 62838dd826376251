# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages of `kiln report` and `kiln tune --html` have one style and can be read: rows are sorted, times stand on a logarithmic scale next to what the model promised,
nothing is wider than the screen, no text has less than 11 pixels, colours differ enough in light and in dark. A script checks HTML and CSS; a browser, where one is installed,
draws them at 360, 1,000 and 2,000 pixels."""
import base64
import html
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as tree

import support

NAME = "a_kernel_with_a_name_that_is_long_enough_to_be_wider_than_a_small_screen"
SOURCE = """kiln 1
kernel %s[T: type = f32, BLOCK: tune = 64](x: in *T, y: out *T, n: i32) @grid(cdiv(n, BLOCK)) @key(n)
  @config(BLOCK = 64) @config(BLOCK = 64, warps = 8) @config(BLOCK = 128) @config(BLOCK = 1024) @instance(T = f16) @instance(T = f32)
{
  let i = pid(0) * BLOCK + iota(BLOCK)
  store(y + i, load(x + i, i < n), i < n)
}
kernel wide(x: in *f32 @align(16), y: out *f32 @align(16)) @grid(1) @config(warps = 2) {
  let v = load(x + iota(16384))
  store(y + iota(16384), v * reduce.max(v, 0))
}
""" % NAME
FOLDER = None
PAGES = {}
# Runs in a page of its own, over the page in a frame: the widths of the frame, what is wider than it, the smallest text.
HARNESS = """<!DOCTYPE html><body style="margin:0"><script>
const out = []
const load = (width) => new Promise((done) => {
  const frame = document.createElement("iframe")
  frame.style = "border:0;width:" + width + "px;height:1000px"
  frame.onload = () => {
    const page = frame.contentDocument, view = frame.contentWindow
    let least = 1000, outside = 0
    for (const e of page.body.querySelectorAll("*")) {
      const has_text = [...e.childNodes].some((n) => n.nodeType == 3 && n.data.trim())
      if (has_text) least = Math.min(least, parseFloat(view.getComputedStyle(e).fontSize))
      const at = e.getBoundingClientRect()
      if (at.right > width + 0.5 && !e.closest(".wide")) outside++
    }
    out.push({width, wide: page.documentElement.scrollWidth, least, outside, bars: page.querySelectorAll(".b").length,
              seen: [...page.querySelectorAll(".b")].filter((b) => b.getBoundingClientRect().width >= 1).length})
    done()
  }
  frame.srcdoc = new TextDecoder().decode(Uint8Array.from(atob("PAGE"), (c) => c.charCodeAt(0)))
  document.body.append(frame)
})
load(360).then(() => load(1000)).then(() => load(2000)).then(() => { document.body.textContent = "found " + JSON.stringify(out) })
</script></body>"""


def setUpModule():
    global FOLDER
    FOLDER = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    unittest.addModuleCleanup(FOLDER.cleanup)
    path = lambda name: os.path.join(FOLDER.name, name)  # noqa: E731
    with open(path("k.kiln"), "w") as file:
        file.write(SOURCE)
    with open(path("shapes"), "w") as file:
        file.write("%s[T=f32] n={100,100000} x=random:n y=zeros:n\n" % NAME)
    support.tool("build", path("k.kiln"), "-t", "host,sm_80,gfx942", "--ptx-assembler=none", "-o", path("k.kbundle"))
    support.tool("report", path("k.kbundle"), "-o", path("report.html"))
    support.tool("tune", "--device", "host", "--shapes", path("shapes"), "--html", path("tune.html"), "-o", path("k.table"), path("k.kiln"))
    for name in ("report", "tune"):
        with open(path(name + ".html"), encoding="utf-8") as file:
            PAGES[name] = file.read()


def parsed(page):
    return tree.fromstring(page.split("\n", 1)[1])


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    return sum(w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for w, c in zip((0.2126, 0.7152, 0.0722), parts))


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Pages(unittest.TestCase):
    def test_one_style(self):
        styles = {name: parsed(page).find("head/style").text for name, page in PAGES.items()}
        self.assertEqual(styles["report"], styles["tune"])

    def test_they_load_nothing(self):
        for name, page in PAGES.items():
            self.assertEqual(re.findall(r"://|src=|href|url\(|@import|<script|<link|<iframe|<object", page), [], name)
            self.assertIn("default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;", page)
            self.assertIn('<meta name="viewport" content="width=device-width"/>', page)

    def test_sizes_of_text(self):
        """Every size is one of the style's, in px, or in rem of 16 px; none is below 11."""
        for page in PAGES.values():
            style = parsed(page).find("head/style").text
            sizes = re.findall(r"font-size:([^;}]+)", style) + re.findall(r"font:([^/]+)/", style)
            self.assertGreater(len(sizes), 5)
            for size in sizes:
                number, unit = re.fullmatch(r"([0-9.]+)(px|rem)", size).groups()
                self.assertGreaterEqual(float(number) * (16 if unit == "rem" else 1), 11, size)
            for element in parsed(page).iter():
                self.assertRegex(element.get("style", ""), r"^(width:[0-9.]+%)?$")
                self.assertIn(element.tag, "html head meta title style body h1 h2 p section div dl dt dd span table thead tbody tfoot tr th td wbr".split())

    def test_nothing_is_wider_than_the_screen(self):
        """Tables scroll by themselves; least widths outside of them, and of columns, leave room on 360 pixels."""
        for page in PAGES.values():
            body = parsed(page).find("body")
            inside = {id(t) for wide in body.iter() if wide.get("class") == "wide" for t in wide.iter("table")}
            self.assertTrue(inside)
            self.assertEqual({id(t) for t in body.iter("table")}, inside)
            style = parsed(page).find("head/style").text
            for number in re.findall(r"min-width:([0-9.]+)rem", style) + re.findall(r"minmax\(([0-9.]+)rem", style):
                self.assertLessEqual(float(number) * 16, 360 - 2 * 16)
            self.assertNotRegex(style, r"[;{](width|min-width):[0-9]{3,}px")

    def test_configs_break_after_a_comma(self):
        self.assertIn("=128,<wbr/>warps=", PAGES["tune"])
        self.assertNotRegex(PAGES["tune"], r"<th class=\"text\">BLOCK=[0-9]+,[^<]")

    def test_colours(self):
        style = parsed(PAGES["tune"]).find("head/style").text
        schemes = re.findall(r":root\{([^}]*)\}", style)
        self.assertEqual(len(schemes), 2)
        self.assertIn("@media(prefers-color-scheme:dark){:root{", style)
        for scheme in schemes:
            colours = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", scheme))
            self.assertEqual(sorted(colours), ["a", "b", "good", "ink", "line", "paper", "soft"])
            for name, least in (("ink", 7), ("soft", 4.5), ("b", 3), ("good", 3), ("a", 1.5)):
                self.assertGreaterEqual(contrast(colours[name], colours["paper"]), least, name)
        self.assertEqual(set(re.findall(r"#[0-9a-f]{3,6}\b", style)), {c for s in schemes for c in re.findall(r"#[0-9a-f]+", s)})

    def test_times_are_sorted_on_a_logarithmic_scale(self):
        body = parsed(PAGES["tune"]).find("body")
        sections = body.findall("section")
        winners = ["".join(row.findall("td")[0].itertext()) for row in sections[0].findall(".//tbody/tr")]
        self.assertEqual([s.find("h2").text for s in sections[1:]], ["%s[T=f32] n=%d" % (NAME, n) for n in (100, 100000)])
        for section, winner in zip(sections[1:], winners, strict=True):
            low, high = (float(n) for n in re.search(r"([0-9.e+-]+) to ([0-9.e+-]+) us", "".join(section.find("p").itertext())).groups())
            for end in (low, high):
                self.assertIn("%.0e" % end, ["%de%+03d" % (m, e) for m in (1, 2, 5) for e in range(-4, 8)])
            rows = section.findall(".//tbody/tr")
            self.assertEqual(len(rows), 4)
            times, scores = [], []
            for row in rows:
                cells = row.findall("td")
                if cells[1].text is None:
                    continue
                self.assertEqual(len(times), len(scores))  # measured ones stand first
                time, (bar, promised) = float(cells[1].text), cells[0].findall("span")
                times.append(time)
                scores.append((float(promised.get("style")[6:-1]), float(cells[4].text)))
                if low < time < high:
                    self.assertAlmostEqual(float(bar.get("style")[6:-1]), 100 * math.log(time / low) / math.log(high / low), delta=0.2 + 100 * 0.006 / time)
                # Times that print alike may differ.
                self.assertIn(int(cells[2].text), range(1 + sum(t < time for t in times), len(times) + 1))
            self.assertEqual(times, sorted(times))
            best = max(float(row.findall("td")[4].text) for row in rows)
            for width, score in scores:
                self.assertAlmostEqual(width, 100 * score / best, delta=0.2)
            self.assertEqual(["".join(row.find("th").itertext()) for row in rows if row.get("class") == "win"], [winner])


@unittest.skipIf(shutil.which("chromium") is None, "chromium is not installed")
class InABrowser(unittest.TestCase):
    def chromium(self, *words):
        done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + os.path.join(FOLDER.name, "profile"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, cwd=FOLDER.name)
        return done.stdout.decode()

    def test_widths(self):
        for name, page in PAGES.items():
            # The page's own policy lets no script look at it.
            free = re.sub(r"<meta http-equiv=[^>]*/>", "", page)
            with open(os.path.join(FOLDER.name, "harness.html"), "w") as file:
                file.write(HARNESS.replace("PAGE", base64.b64encode(free.encode()).decode()))
            text = self.chromium("--virtual-time-budget=20000", "--dump-dom", "file://%s/harness.html" % FOLDER.name)
            found = json.loads(html.unescape(re.search(r"found (\[.*\])", text)[1]))
            self.assertEqual([row["width"] for row in found], [360, 1000, 2000])
            for row in found:
                self.assertLessEqual(row["wide"], row["width"], (name, row))
                self.assertEqual(row["outside"], 0, (name, row))
                self.assertGreaterEqual(row["least"], 11, (name, row))
                self.assertGreater(row["bars"], 3)
                self.assertEqual(row["seen"], row["bars"], (name, row))

    def test_pictures(self):
        """What is drawn is more than an empty page, and dark where that is wanted."""
        for name in PAGES:
            sizes = {}
            for kind, words in (("light", []), ("dark", ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"])):
                picture = os.path.join(FOLDER.name, "%s-%s.png" % (name, kind))
                self.chromium(*words, "--window-size=1000,1400", "--screenshot=" + picture, "file://%s/%s.html" % (FOLDER.name, name))
                sizes[kind] = os.path.getsize(picture)
                kept = os.environ.get("KILN_TEST_PICTURES")
                if kept:
                    shutil.copy(picture, kept)
            self.assertGreater(min(sizes.values()), 20000, (name, sizes))


if __name__ == "__main__":
    raise SystemExit(support.main(__name__))
