// Measures what a reader sees while scrolling.
/** Scrolls over two seconds from the beginning, as far as is asked for, and tells how the frames came. */
export function scroll(page, selector, most = Infinity) {
  return page.locator(selector).last().evaluate(async (box, far) => {
    const times = [];
    let longest = 0;
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) longest = Math.max(longest, entry.duration); }).observe({ type: "longtask" });
    const start = performance.now();
    const height = Math.min(far ?? Infinity, box.scrollHeight - box.clientHeight);
    for (;;) {
      const now = await new Promise((next) => requestAnimationFrame(next));
      times.push(now);
      const part = (now - start) / 2_000;
      box.scrollTop = height * Math.min(1, part);
      if (part >= 1) break;
    }
    const gaps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
    return { frames: gaps.length, median_ms: Math.round(gaps[gaps.length >> 1]), p95_ms: Math.round(gaps[Math.floor(gaps.length * 0.95)]), longest_task_ms: Math.round(longest), pixels: height };
  }, Number.isFinite(most) ? most : null);
}
