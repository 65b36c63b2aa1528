"""How long a frame of the map takes with many points, in a real Chromium.

`python benchmarks/map_frames.py [--points N]` serves the recording, puts N points (5,000) around 400 places on the
map, then pans, zooms in 20 times and out again, and prints one JSON object: the median, the 95th percentile and the
longest of the time to draw a frame and of the time between frames, in milliseconds, the latter also while nothing is
drawn. Goal: 95 % of the frames are drawn within 16.7 ms. Needs playwright, and
Chromium on the PATH or named by CHROMIUM.
"""

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from measuring.servers import first_answer, free_port, running, tollhouse
from playwright.sync_api import sync_playwright

GOAL_MS = 16.7
SIZE = {"width": 1440, "height": 900}
MEASURE = """async (count) => {
  const { createMap } = await import(`${document.documentElement.dataset.files}/world_map.js`);
  const place = document.createElement("div");
  place.style.height = "558px";
  document.querySelector("main").replaceChildren(place);
  const tones = ["critical", "high", "medium", "low"];
  const map = createMap(place, { label: "Points", tones, describe: () => null, open: () => {} });
  let seed = 7;
  const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const places = Array.from({ length: 400 }, () => [chance() * 300 - 150, chance() * 100 - 40]);
  const points = { longitude: [], latitude: [], tone: [], rank: [] };
  for (let at = 0; at < count; at += 1) {
    const [longitude, latitude] = places[Math.floor(chance() * places.length)];
    points.longitude.push(longitude + chance() * 2);
    points.latitude.push(latitude + chance() * 2);
    points.tone.push(Math.min(3, Math.floor(chance() * 6)));
    points.rank.push(chance());
  }
  map.show({ points });
  await new Promise((done) => setTimeout(done, 1500));
  map.setView({ longitude: 20, latitude: 20, zoom: 4 });
  await new Promise((done) => setTimeout(done, 2500));
  map.frames.length = 0;
  const [between, idle] = [[], []];
  let before = performance.now();
  for (let step = 0; step < 100; step += 1) {
    await new Promise(requestAnimationFrame);
    idle.push(performance.now() - before);
    before = performance.now();
  }
  for (let step = 0; step < 200; step += 1) {
    const zoom = 1 + 19 * Math.abs(Math.sin((Math.PI * step) / 200));
    map.setView({ longitude: -60 + 0.6 * step, latitude: 25 * Math.sin(step / 20), zoom });
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    between.push(now - before);
    before = now;
  }
  return { draw: [...map.frames], between, idle };
}"""


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median": round(ordered[len(ordered) // 2], 2),
        "p95": round(ordered[int(len(ordered) * 0.95)], 2),
        "longest": round(ordered[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=5_000)
    points = parser.parse_args().points
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    browser = os.environ.get("CHROMIUM") or next(path for name in names if (path := shutil.which(name)))
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(tollhouse(port, Path(folder)), Path(folder) / "log") as process,
    ):
        first_answer(process, port, "/infra/health", {})
        with sync_playwright() as playwright:
            started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = started.new_page(viewport=SIZE)
            page.goto(f"http://127.0.0.1:{port}/keys")
            taken: dict[str, Any] = page.evaluate(MEASURE, points)
            started.close()
    drawn = summary(taken["draw"])
    print(json.dumps({
        "points": points, "draw_ms": drawn, "between_frames_ms": summary(taken["between"]),
        "between_idle_frames_ms": summary(taken["idle"]),
        "goal_ms": GOAL_MS, "is_met": drawn["p95"] <= GOAL_MS,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
