# SPDX-License-Identifier: Apache-2.0
"""The charts show the results: order, spread, gaps, and the reason for each missing value."""
import sys
import unittest
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
import charts  # noqa: E402

NS = "{http://www.w3.org/2000/svg}"


def sample(error="", not_run="", **values):
    return {"error": error, "not_run": not_run, "values": {k.replace("_", " "): v for k, v in values.items()}}


def section(title, **cases):
    """cases: name -> its sample in each round"""
    rounds = len(next(iter(cases.values())))
    return {"title": title, "cases": list(cases), "comparisons": {},
            "rounds": [{name: samples[i] for name, samples in cases.items()} for i in range(rounds)]}


def pairs(*values):
    return [{"error": "", "not_run": "", "values": {"pairs/s": v}} for v in values]


def draw(**sections):
    files, missing = charts.charts({"sections": {k.replace("_", "-"): v for k, v in sections.items()}})
    return {name: xml.fromstring(svg) for name, svg in files.items()}, missing


def texts(svg, style=None):
    return [t.text for t in svg.iter(NS + "text") if style is None or t.get("class") == style]


class ChartsTest(unittest.TestCase):
    def test_bars_keep_the_order_of_the_cases_and_the_scale(self):
        drawn, missing = draw(lone=section("A <lone> client", broker=pairs(200, 100, 300), direct=pairs(400, 400, 400)))
        self.assertEqual((list(drawn), missing), (["throughput.svg"], []))
        svg = drawn["throughput.svg"]
        self.assertEqual(texts(svg, "group"), ["A <lone> client"])
        self.assertLess(texts(svg).index("broker"), texts(svg).index("direct"))
        ours, other = ([float(r.get("width")) for r in svg.iter(NS + "rect") if r.get("class") == c][0]
                       for c in ("ours", "other"))
        self.assertAlmostEqual(ours * 2, other, delta=0.2)
        self.assertEqual(sum(line.get("class") == "whisker" for line in svg.iter(NS + "line")), 3)

    def test_a_store_at_a_distance_has_charts_of_its_own(self):
        results = {"sections": {"lone": section("Lone", broker=pairs(200))}}
        files, _ = charts.charts(results, "0.5")
        self.assertEqual(list(files), ["throughput-0.5ms.svg"])
        self.assertIn("the store 0.5 ms away", files["throughput-0.5ms.svg"])

    def test_a_case_without_values_shows_why(self):
        etcd = [sample(not_run="etcd is not installed")]
        drawn, _ = draw(
    peers=section(
        "Peers", broker=pairs(5), etcd=etcd, redlock=[
            sample(
                error="two holders")], x=[
                    sample()]))
        self.assertEqual([t for t in texts(drawn["throughput.svg"], "quiet") if not t[0].isdigit()][1:],
                         ["NOT RUN", "INVALID", "no value"])

    def test_a_wide_range_is_logarithmic(self):
        def p50(value):
            return [{"error": "", "not_run": "", "values": {"p50 µs": value}}]
        drawn, _ = draw(handoff_hot=section("Hot", broker=p50(1.0), slow=p50(10000.0)))
        self.assertTrue(any("logarithmic" in t for t in texts(drawn["handoff.svg"])))

    def test_a_line_has_gaps_and_needs_two_points(self):
        def cpu(value):
            return [sample(daemon_CPU=value) if value else sample(error="broken")]
        cases = {"1000": cpu(5.0), "10000": cpu(None), "100000": cpu(6.0), "1000000": cpu(7.0)}
        drawn, missing = draw(growth_waiters=section("Waiters", **cases))
        self.assertEqual(list(drawn), ["growth-waiters-cpu.svg"])
        svg = drawn["growth-waiters-cpu.svg"]
        self.assertEqual(len(list(svg.iter(NS + "circle"))), 3)
        self.assertEqual(sum(line.get("class") == "s0 thick" for line in svg.iter(NS + "line")),
                         1 + 1)  # and the legend
        self.assertEqual(len(missing), 3)

    def test_numbers_are_short(self):
        self.assertEqual([charts.short(v) for v in (0.0, 1.234, 20.0, 54321.0, 1e6)],
                         ["0", "1.23", "20", "54.3 k", "1 M"])


if __name__ == "__main__":
    unittest.main()
