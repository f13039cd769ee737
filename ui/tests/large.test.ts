/** A long conversation is a short page. */

import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Served } from "./served";

const MESSAGES = 3_000;
/** Messages near the screen, however many there are. */
const IN_THE_PAGE_MAX = 80;
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

beforeAll(async () => {
  served = await Served.start([long()]);
});

afterAll(async () => await served?.stop());

test("thousands of messages are scrolled and found with few in the page", async () => {
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
  await page.reload();
  await page.getByText("Message number 1234.").waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
});

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
