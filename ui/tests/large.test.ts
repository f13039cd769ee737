/** A long conversation is a short page. */

import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Exchange, TreeMessage } from "../src/api";
import { Served } from "./served";

/** In the store; and as the server would answer about far more, which take too long to record for a test. */
const MESSAGES = 3_000;
const MANY_MESSAGES = 100_000;
const MANY_EXCHANGES = 5_000;
/** Two hundred pages are made up and read; a loaded machine gets the time it needs. */
const MANY_PATIENCE_MS = 600_000;
/** Messages near the screen, however many there are. */
const IN_THE_PAGE_MAX = 80;
/** Of a graph of thousands of exchanges and hundreds of branches, and of one step through it: a tall screen has a hundred rows. */
const GRAPH_ELEMENTS_MAX = 1_000;
const STEP_ELEMENTS_MAX = 160;
const STEP_ATTRIBUTES_MAX = 8;
const SCRIPT_BYTES_MAX = 300 * 1024;

let served: Served;

/** One request that replays everything, as clients do. */
function long(): string {
  const said = (at: number) => ({ role: at % 2 === 0 ? "user" : "assistant", content: `Message number ${at}.\n\n${"word ".repeat(at % 60)}` });
  return JSON.stringify({
    v: 1,
    id: "long-1",
    at: "2026-06-01T10:00:00Z",
    owner: "local",
    method: "POST",
    path: "/v1/messages",
    request: { headers: {}, body: { model: "claude-opus-4-5", max_tokens: 64, messages: Array.from({ length: MESSAGES - 1 }, (_, at) => said(at)) } },
    response: {
      status: 200,
      headers: { "content-type": "application/json" },
      body: { id: "msg_long", type: "message", role: "assistant", model: "claude-opus-4-5", content: [{ type: "text", text: "The very last word." }] },
    },
    ended_at: "2026-06-01T10:00:05Z",
  });
}

/** Answers of the server about a conversation that is larger than any, in the shapes of those about a small one. */
async function pretend(page: Page): Promise<{ answered: () => number }> {
  const [message] = (await served.api<{ messages: TreeMessage[] }>("/api/v1/sessions/long-1/messages?limit=1")).messages;
  const [exchange] = (await served.api<{ exchanges: Exchange[] }>("/api/v1/exchanges?ref=long-1&limit=1")).exchanges;
  if (!message || !exchange) throw new Error("there is nothing to go by");
  const paged = (url: string, total: number) => {
    const asked = new URL(url).searchParams;
    const first = Number(asked.get("cursor") ?? "0");
    const end = Math.min(total, first + Number(asked.get("limit") ?? "100"));
    return { all: Array.from({ length: end - first }, (_, at) => first + at), next: end < total ? String(end) : null };
  };
  let answered = 0;
  await page.route("**/api/v1/sessions/**", async (route) => {
    const { all, next } = paged(route.request().url(), MANY_MESSAGES);
    const messages = all.map((at) => ({
      ...message,
      uuid: `m-${at}`,
      parent_uuid: at === 0 ? null : `m-${at - 1}`,
      place: at === 0 ? "root" : "child",
      type: at % 2 === 0 ? "user" : "assistant",
      content: `Message number ${at}.`,
      message_data: null,
      exchange_id: null,
    }));
    if (answered === 0) answered = Date.now();
    await route.fulfill({ json: { messages, total: MANY_MESSAGES, next } });
  });
  await page.route("**/api/v1/conversations/long-1/messages**", (route) => route.fulfill({ json: { messages: [], total: 0, next_cursor: null } }));
  await page.route("**/api/v1/exchanges?**", async (route) => {
    const { all, next } = paged(route.request().url(), MANY_EXCHANGES);
    // Every seventh leaves its parent: a tree of some seven hundred branches.
    const exchanges = all.map((at) => ({
      ...exchange,
      id: `e-${at}`,
      parent_exchange_id: at === 0 ? null : `e-${at % 7 === 0 ? Math.floor(at / 7) : at - 1}`,
      branch_key: `b-${Math.floor(at / 7)}`,
      branch_kind: at < 7 ? "main" : "edit",
    }));
    await route.fulfill({ json: { exchanges, next_cursor: next } });
  });
  return { answered: () => answered };
}

/** What one step of scrolling does to the page, on average. */
interface Scrolled {
  /** Elements that were put into it. */
  added: number;
  /** Attributes that were written. */
  written: number;
  /** Shapes that were drawn on a canvas. */
  painted: number;
  /** How long frames take: a figure, not a claim. */
  told: string;
}

const STEPS = 90;

/** Scrolls a list as fast as frames come, and counts what the page does for it. */
async function scrolled(page: Page, list: string): Promise<Scrolled> {
  const { times, ...counts } = await page.locator(list).evaluate(async (box, steps) => {
    const counted = { added: 0, written: 0, painted: 0 };
    const seen = new MutationObserver((changes) => {
      for (const { type, addedNodes } of changes) {
        if (type === "attributes") counted.written += 1;
        for (const node of addedNodes) if (node instanceof Element) counted.added += 1 + node.querySelectorAll("*").length;
      }
    });
    seen.observe(document.body, { subtree: true, childList: true, attributes: true });
    const canvas = CanvasRenderingContext2D.prototype;
    const { fillRect } = canvas;
    canvas.fillRect = function (...place) {
      counted.painted += 1;
      fillRect.apply(this, place);
    };
    const times: number[] = [];
    for (let step = 0, last = performance.now(); step < steps; step += 1) {
      box.scrollTop += 300;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    seen.disconnect();
    canvas.fillRect = fillRect;
    return { ...counted, times };
  }, STEPS);
  const mean = times.reduce((sum, time) => sum + time, 0) / STEPS;
  const [added, written, painted] = [counts.added / STEPS, counts.written / STEPS, counts.painted / STEPS];
  const told = `a frame takes ${mean.toFixed(0)} ms, the longest ${Math.max(...times).toFixed(0)} ms; it adds ${added.toFixed(0)} elements and writes ${written.toFixed(0)} attributes`;
  return { added, written, painted, told };
}

/** A step draws the rows that come into sight and a few pictures of lanes, however wide the tree is, and nothing again that was drawn. */
async function fluid(page: Page, list: string, what: string): Promise<void> {
  const step = await scrolled(page, list);
  console.log(`figure: scrolling ${what}, ${step.told}`);
  expect(step.added).toBeLessThan(STEP_ELEMENTS_MAX);
  expect(step.written).toBeLessThan(STEP_ATTRIBUTES_MAX);
  expect(step.painted).toBe(0);
}

beforeAll(async () => {
  served = await Served.start([long()]);
});

afterAll(async () => await served?.stop());

test("pages of a long conversation are answered", async () => {
  // Figures, not claims: a loaded machine is no measure.
  let cursor: string | null = null;
  const times: number[] = [];
  for (let read = 0; read < 6; read += 1) {
    const query = new URLSearchParams({ limit: "100", ...(cursor !== null && { cursor }) });
    const began = performance.now();
    const page: { messages: unknown[]; total: number; next: string | null } = await served.api(`/api/v1/sessions/long-1/messages?${query}`);
    times.push(Math.round(performance.now() - began));
    expect(page.total).toBe(MESSAGES);
    expect(page.messages).toHaveLength(100);
    cursor = page.next;
  }
  console.log(`figure: API pages of 100 among ${MESSAGES} messages, the first with the tree made: ${times.join(", ")} ms`);
});

test("many messages are scrolled and found with few in the page", async () => {
  const { page, complaints } = await served.open("/conversations/long-1");
  const shown = page.locator(".messages li[data-uuid]");
  await page.locator(`.messages li[aria-setsize="${MESSAGES}"]`).first().waitFor();
  const most = async () => expect(await shown.count()).toBeLessThan(IN_THE_PAGE_MAX);
  await most();
  for (const share of [0.25, 0.5, 0.75, 1]) {
    await page.locator(".messages").evaluate((box, share) => box.scrollTo(0, box.scrollHeight * share), share);
    const at = () => shown.first().evaluate((item) => Number((item as HTMLElement).dataset.index));
    await expect.poll(at).toBeGreaterThan(MESSAGES * share * 0.7);
    await most();
  }
  await page.keyboard.press("/");
  await page.getByRole("searchbox").fill("number 1234.");
  await page.keyboard.press("Enter");
  await page.getByText("Message number 1234.").waitFor();
  await most();
  await page.keyboard.press("Escape");
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("a hundred thousand messages are a short page, and a tree of thousands of exchanges few elements", async () => {
  const { page, complaints } = await served.open("/health");
  await page.locator(".health").waitFor();
  const { answered } = await pretend(page);
  await page.evaluate(() => {
    window.history.pushState(null, "", "/conversations/long-1");
    window.dispatchEvent(new PopStateEvent("popstate"));
  });
  await page.locator(".messages .message").first().waitFor();
  // Figures, not claims: a loaded machine is no measure.
  console.log(`figure: first messages in sight ${Date.now() - answered()} ms after the API began to answer`);
  await page.locator(`.messages li[aria-setsize="${MANY_MESSAGES}"]`).first().waitFor({ timeout: MANY_PATIENCE_MS });
  console.log(`figure: all ${MANY_MESSAGES} messages there ${Date.now() - answered()} ms after it`);
  const shown = page.locator(".messages li[data-uuid]");
  for (const share of [0.5, 1, 0]) {
    await page.locator(".messages").evaluate((box, share) => box.scrollTo(0, box.scrollHeight * share), share);
    await expect.poll(() => shown.count()).toBeGreaterThan(3);
    expect(await shown.count()).toBeLessThan(IN_THE_PAGE_MAX);
    console.log(`figure: ${await page.locator("*").count()} elements in the page at ${share}`);
  }
  console.log(`figure: scrolling ${MANY_MESSAGES} messages, ${(await scrolled(page, ".messages")).told}`);
  await page.keyboard.press("G");
  const [rows, graph] = [page.locator(".strands-wide li"), page.locator(".strands-wide")];
  for (const key of ["", "-", "-", "-"]) {
    if (key !== "") await page.keyboard.press(key);
    for (const share of [0, 0.25, 0.5, 1]) {
      await rows.first().waitFor();
      await graph.evaluate((box, share) => box.scrollTo(0, box.scrollHeight * share), share);
      await expect.poll(() => rows.count()).toBeGreaterThan(10);
      expect(await rows.count()).toBeLessThan(IN_THE_PAGE_MAX * 2);
      expect(await graph.locator("*").count()).toBeLessThan(GRAPH_ELEMENTS_MAX);
    }
    await graph.evaluate((box) => box.scrollTo(0, 0));
    const height = await graph.evaluate((box, count) => Math.round(box.scrollHeight / count), MANY_EXCHANGES);
    await fluid(page, ".strands-wide", `a tree of ${MANY_EXCHANGES} exchanges in rows of ${height} px`);
  }
  await page.keyboard.press("G");
  await page.keyboard.press("g");
  await page.locator(".strands li").first().waitFor();
  await fluid(page, ".strands", `the strands of ${MANY_EXCHANGES} exchanges beside the messages`);
  expect(complaints).toEqual([]);
  await page.context().close();
}, MANY_PATIENCE_MS);

test("what a first visit loads is small, cached for good, and as strict as its policy", async () => {
  const answer = await fetch(served.url);
  const policy = answer.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'; script-src 'self'");
  const page = await answer.text();
  expect(page).not.toMatch(/<script(?![^>]*\ssrc=)/);
  const scripts = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map((found) => found[1] ?? "");
  expect(scripts.length).toBeGreaterThan(0);
  let bytes = 0;
  for (const script of scripts) {
    const file = await fetch(served.url + script);
    expect(file.headers.get("cache-control")).toContain("immutable");
    expect(file.headers.get("x-content-type-options")).toBe("nosniff");
    bytes += gzipSync(await file.text()).length;
  }
  expect(bytes).toBeLessThan(SCRIPT_BYTES_MAX);
});
