/** Text from models is hostile: none of it runs, none of it asks anybody for anything, whichever field it is in. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { CANARY_HOST, PAYLOADS } from "./payloads";
import { picture, Served } from "./served";

let served: Served;

/** One exchange with a payload in every field that a client or a model fills: each conversation begins with another one. */
function exchange(payload: string, at: number): string {
  const task = { type: "tool_use", id: `toolu_z_${at}`, name: "Task", input: { subagent_type: payload, description: payload, prompt: `${payload} ${at} prompt` } };
  const use = { type: "tool_use", id: `toolu_x_${at}`, name: payload.slice(0, 120), input: { file_path: payload, command: payload } };
  const edit = { type: "tool_use", id: `toolu_y_${at}`, name: "Edit", input: { file_path: payload, old_string: payload, new_string: `${payload}\n${payload}` } };
  const results = [use, edit, task].map((call) => ({ type: "tool_result", tool_use_id: call.id, is_error: true, content: payload }));
  const thinking = { type: "thinking", thinking: payload, signature: "x" };
  return JSON.stringify({
    v: 1,
    id: `hostile-${at}`,
    at: new Date(Date.UTC(2026, 4, 1) + at * 60_000).toISOString(),
    owner: "local",
    method: "POST",
    path: "/v1/messages",
    request: {
      headers: { "user-agent": payload, "content-type": "application/json", "x-ropewalk-project": payload },
      body: {
        model: payload,
        max_tokens: 64,
        system: payload,
        messages: [
          { role: "user", content: `${payload} (${at})` },
          { role: "assistant", content: [thinking, { type: "text", text: payload }, use, edit, task] },
          { role: "user", content: results },
        ],
      },
    },
    response: {
      status: 200,
      headers: { "content-type": "application/json", "request-id": payload },
      body: { id: `msg_${at}`, type: "message", role: "assistant", model: payload, content: [{ type: "text", text: payload }], usage: { input_tokens: 5, output_tokens: 5 } },
    },
    ended_at: new Date(Date.UTC(2026, 4, 1) + at * 60_000 + 1000).toISOString(),
  });
}

/** The agent that a call of the exchange started, which is called like its payload. */
function child(payload: string, at: number): string {
  const line = JSON.parse(exchange(payload, at)) as { id: string; at: string; ended_at: string; request: { body: { messages: unknown[] } } };
  line.id = `hostile-child-${at}`;
  line.at = new Date(Date.UTC(2026, 4, 1) + at * 60_000 + 2_000).toISOString();
  line.ended_at = new Date(Date.UTC(2026, 4, 1) + at * 60_000 + 3_000).toISOString();
  line.request.body.messages = [{ role: "user", content: `${payload} ${at} prompt` }];
  return JSON.stringify(line);
}

/** A client's log in a file that is called like a payload, whose project and title are payloads as well. */
function log(payload: string): string {
  const line = { uuid: "log-1", parentUuid: null, sessionId: "5f0c0000-0000-4000-8000-0000000000ff", timestamp: "2026-05-01T09:00:00Z", cwd: payload, gitBranch: payload, version: "2.1.0" };
  return `${JSON.stringify({ ...line, type: "user", message: { role: "user", content: payload } })}\n${JSON.stringify({ type: "summary", summary: payload, leafUuid: "log-1" })}\n`;
}

const FILE_NAME = `<img src=x onerror=window.canary=1>.jsonl`;

beforeAll(async () => {
  const children = PAYLOADS.flatMap((payload, at) => (at % 10 === 0 ? [child(payload, at)] : []));
  served = await Served.start([...PAYLOADS.map(exchange), ...children], [], { [FILE_NAME]: log(PAYLOADS[0] ?? "") });
});

afterAll(async () => await served?.stop());

test("there are enough of them", () => expect(new Set(PAYLOADS).size).toBeGreaterThanOrEqual(200));

test("the canary sings where nothing keeps it from it", async () => {
  const page = await served.blank();
  await page.setContent(PAYLOADS.find((payload) => payload.startsWith("<img src=x onerror")) ?? "");
  await page.waitForFunction(() => (window as unknown as { canary?: number }).canary === 1);
  await page.context().close();
});

/** Titles that are given at a time, and how long hundreds of pages may take on a loaded machine. */
const AT_ONCE = 8;
const PATIENCE_MS = 900_000;

test("no payload runs or asks, in any view", async () => {
  const listed: { friendly_id: string | null; conversation_id: string }[] = [];
  let cursor: string | null = null;
  do {
    const query = new URLSearchParams({ limit: "100", since: "2026-05-01T00:00:00Z", until: "2026-05-02T00:00:00Z" });
    if (cursor !== null) query.set("cursor", cursor);
    const page: { conversations: typeof listed; next_cursor: string | null } = await served.api(`/api/v1/conversations?${query}`);
    listed.push(...page.conversations);
    cursor = page.next_cursor;
  } while (cursor !== null);
  expect(listed.length).toBeGreaterThanOrEqual(200);
  const { page, context, complaints, outside } = await served.open("/conversations?since=2026-05-01&until=2026-05-02", { height: 1400 });
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  await page.locator(".conversation-row").first().waitFor();
  const ran = async () => await page.evaluate(() => (window as unknown as { canary?: number }).canary ?? 0);
  const visit = async (path: string, sign: string) => {
    await page.evaluate((to) => {
      window.history.pushState(null, "", to);
      window.dispatchEvent(new PopStateEvent("popstate"));
    }, path);
    await page.locator(sign).first().waitFor();
  };
  for (const [at, one] of listed.entries()) {
    await visit(`/conversations/${one.friendly_id ?? one.conversation_id}`, ".messages .message.assistant");
    if (at === 0) await expect.poll(() => page.locator(".sidechain .failed").count()).toBe(3);
    // Everything that is folded is opened, on some of each kind: thinking, operations and their viewers.
    if (at % 8 === 0) {
      const folds = page.locator(".fold[aria-expanded=false], .operation[aria-expanded=false]");
      while ((await folds.count()) > 0) await folds.first().click();
    }
    // The exchange as it was sent, with its headers.
    if (at % 20 === 0) {
      await page.locator(".facts").last().click();
      const dialog = page.getByRole("dialog", { name: "Exchange" });
      for (const tab of ["Headers", "Request", "Cache"]) await dialog.getByRole("tab", { name: tab }).click();
      await dialog.getByRole("tab", { name: "Headers" }).click();
      await dialog.getByText("user-agent").waitFor();
      await page.keyboard.press("Escape");
    }
    expect(await ran(), one.friendly_id ?? "").toBe(0);
  }
  await picture(page, "hostile-conversation");
  await visit("/conversations?since=2026-05-01&until=2026-05-02", ".conversation-row");
  // Titles that people give, which stand in every list.
  const titled = PAYLOADS.flatMap((payload, at) => {
    const one = listed[at];
    return one && payload.trim() !== "" ? [{ path: `/api/v1/conversations/${one.conversation_id}/title`, title: payload }] : [];
  });
  for (let at = 0; at < titled.length; at += AT_ONCE) {
    await Promise.all(titled.slice(at, at + AT_ONCE).map(({ path, title }) => served.post(path, { title })));
  }
  await visit(`/conversations/${listed[3]?.conversation_id}`, ".messages .message.assistant");
  await visit("/conversations?since=2026-05-01&until=2026-05-02", ".conversation-row");
  await visit("/compare?a=hostile-1&b=hostile-2", ".sides .message");
  await visit("/compare?to=hostile-1", ".sides header");
  await visit(`/conversations/${listed[3]?.conversation_id}?view=graph`, ".strands-wide li");
  await page.locator(".strands-wide li button").first().hover();
  await page.locator(".card").waitFor();
  await visit("/insight?days=90&of=hostile-3", ".insight h2");
  await visit("/agents", ".agents tr[data-status]");
  await visit("/health", ".health td.path");
  await visit("/search?q=canary", ".hits li");
  await picture(page, "hostile-search");
  await visit("/", ".figures");
  expect(await ran()).toBe(0);
  expect(dialogs).toEqual([]);
  expect(outside.filter((url) => url.includes(CANARY_HOST))).toEqual([]);
  expect(outside).toEqual([]);
  expect(complaints).toEqual([]);
  const made = await page.evaluate(() => document.querySelectorAll("main script, main iframe, main img, main object, main style").length);
  expect(made).toBe(0);
  await context.close();
}, PATIENCE_MS);

test("the names of files and addresses of the page are no way in either", async () => {
  for (const payload of PAYLOADS.slice(0, 12)) {
    const { page, outside } = await served.open(`/search?q=${encodeURIComponent(payload)}#${encodeURIComponent(payload)}`);
    await page.locator("main .hits, main .state").first().waitFor();
    expect(await page.evaluate(() => (window as unknown as { canary?: number }).canary ?? 0)).toBe(0);
    expect(outside).toEqual([]);
    await page.context().close();
  }
});
