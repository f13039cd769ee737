/** What stands beside the messages, what a reload keeps, and what the shell and the start page say. */

import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served } from "./served";

let served: Served;
let ropes: string;
let long: string;

const said = (role: string, content: unknown) => ({ role, content });
const TOLD = "Ropes are laid from three strands, each of which is twisted against the lay of the rope, so that the forces hold each other in place and the rope does not come apart under load.";
const REPORT = "I looked at every caller of the parser and found three that pass unbounded input: the importer, the proxy and the search. The first two check the length before, the third does not.";

function line(id: string, minute: number, messages: unknown[], content: unknown[], more: Record<string, string> = {}): string {
  // Of the last days, so that the start page has it.
  const at = new Date(Date.now() - 86_400_000 + minute * 60_000);
  return JSON.stringify({
    v: 1,
    id,
    at: at.toISOString(),
    owner: "local",
    method: "POST",
    path: "/v1/messages",
    request: { headers: more, body: { model: "claude-opus-4-5", max_tokens: 64, messages } },
    response: {
      status: 200,
      headers: { "content-type": "application/json" },
      body: { id: `msg_${id}`, type: "message", role: "assistant", model: "claude-opus-4-5", content, usage: { input_tokens: 1200, output_tokens: 80 } },
    },
    ended_at: new Date(at.getTime() + 2_000).toISOString(),
  });
}

const text = (words: string) => ({ type: "text", text: words });

/** A branch that quotes another, and an agent whose report comes back. */
function quoting(): string[] {
  const asked = [said("user", "How is a rope made?"), said("assistant", [text("By twisting.")]), said("user", "Why does it hold?")];
  const on = [...asked, said("assistant", [text("It just does.")]), said("user", `Elsewhere you said: ${TOLD} Is that so? Let somebody look.`)];
  const call = { type: "tool_use", id: "toolu_p1", name: "Task", input: { subagent_type: "reviewer", description: "look", prompt: "Find out who calls the parser." } };
  const result = { type: "tool_result", tool_use_id: "toolu_p1", content: REPORT };
  return [
    line("rope-1", 0, asked.slice(0, 1), [text("By twisting.")]),
    line("rope-2", 1, asked, [text("It just does.")]),
    line("rope-2b", 2, asked, [text(TOLD)]),
    line("rope-3", 3, on, [text("Somebody looks."), call]),
    line("child-1", 4, [said("user", "Find out who calls the parser.")], [text(REPORT)]),
    line("rope-4", 5, [...on, said("assistant", [text("Somebody looks."), call]), said("user", [result])], [text("It is the search itself.")]),
  ];
}

/** Messages of many lines, and thoughts. */
function reading(): string[] {
  const lines: string[] = [];
  const messages: unknown[] = [];
  for (let turn = 0; turn < 20; turn += 1) {
    messages.push(said("user", `Question ${turn} about sails.\n\n${"A line of it.\n".repeat(60)}`));
    const answer = [{ type: "thinking", thinking: `Thought ${turn}.`, signature: "x" }, text(`Answer ${turn}. ${"word ".repeat(200)}`)];
    lines.push(line(`sail-${turn}`, 10 + turn, [...messages], answer));
    messages.push(said("assistant", answer));
  }
  return lines;
}

const OLD_SESSION = "5f0c0000-0000-4000-8000-00000000000b";

/** A log of Claude Code before agents had files of their own: what they said is marked, and nobody is named. */
function old(): string {
  let seconds = 0;
  const record = (uuid: string, parentUuid: string | null, isSidechain: boolean, role: "user" | "assistant", content: unknown) => {
    const timestamp = new Date(Date.now() - 86_400_000 + 1_000 * (seconds += 1)).toISOString();
    const answer = { id: `msg_${uuid}`, type: "message", model: "claude-opus-4-5", usage: { input_tokens: 10, output_tokens: 5 } };
    const message = { ...(role === "assistant" && answer), role, content };
    return JSON.stringify({ type: role, uuid, parentUuid, isSidechain, sessionId: OLD_SESSION, version: "1.0.50", cwd: "/srv/ship", timestamp, message });
  };
  const call = { type: "tool_use", id: "toolu_old", name: "Task", input: { subagent_type: "scout", description: "look", prompt: "Look in the hold." } };
  return [
    record("old-1", null, false, "user", "Find the leak."),
    record("old-2", "old-1", false, "assistant", [text("I send one."), call]),
    record("side-1", null, true, "user", "Look in the hold."),
    record("side-2", "side-1", true, "assistant", [text("There is water in it.")]),
    record("old-3", "old-2", false, "user", [{ type: "tool_result", tool_use_id: "toolu_old", content: "It is wet." }]),
    record("old-4", "old-3", false, "assistant", [text("The hold leaks.")]),
  ].join("\n");
}

beforeAll(async () => {
  const orphan = line("orphan-1", 40, [said("user", "Look at the shadow.")], [text("It is long.")], {
    "x-claude-code-session-id": "5f0c0000-0000-4000-8000-00000000000a",
    "x-claude-code-agent-id": "agent-shadow",
    "x-claude-code-parent-agent-id": "agent-of-nobody",
  });
  served = await Served.start([...quoting(), ...reading(), orphan], [], { [`${OLD_SESSION}.jsonl`]: `${old()}\n` });
  const name = async (exchange: string) =>
    (await served.api<{ exchange: { friendly_id: string } }>(`/api/v1/exchanges/${exchange}`)).exchange.friendly_id;
  [ropes, long] = [await name("rope-1"), await name("sail-1")];
});

afterAll(async () => await served?.stop());

const row = (page: Page, exchange: string) => page.locator(`.strands li[data-row="${exchange}"]`);

test("strands draw quotations, agents that come back, and what is on the screen; pointing at one tells of it", async () => {
  const { page, complaints } = await served.open(`/conversations/${ropes}`, { width: 1400 });
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("g");
  await row(page, "rope-4").waitFor();
  const drawn = async (look: string) => (await page.locator(`.strands path.${look}`).evaluateAll((all) => all.map((path) => path.getAttribute("d") ?? ""))).join("");
  // A quotation leaves the row where it was said and comes into the one that repeats it.
  await expect.poll(async () => (await drawn("wire")).match(/C/g)?.length ?? 0).toBeGreaterThan(1);
  expect(await row(page, "child-1").innerText()).toContain("reviewer");
  // The agent's line bends back into the main lane in the row where its report came.
  const middle = await row(page, "rope-4").evaluate((item) => (Number(item.dataset.index) + 0.5) * item.clientHeight);
  expect(await drawn("line")).toMatch(new RegExp(`C[0-9. ]+ 7 ${middle}(?![0-9.])`));
  await page.locator(".in-sight").waitFor();
  await row(page, "rope-2b").hover();
  const card = page.locator(".card");
  await card.getByText("Ropes are laid from three strands").waitFor();
  expect(await card.innerText()).toMatch(/Why does it hold\?[\s\S]*It .*rope-1/);
  await picture(page, "strands-card");
  await row(page, "rope-2b").click();
  await page.locator(".message.assistant", { hasText: "Ropes are laid" }).waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("an agent that a log marks and does not name has a strand beside the main flow", async () => {
  const { page, complaints } = await served.open("/conversations?q=leak");
  await page.getByText("Find the leak.").click();
  const messages = page.locator(".messages");
  await messages.getByText("The hold leaks.").waitFor();
  expect(await messages.locator(".message").count()).toBe(3);
  expect(await messages.locator(".mark").count()).toBe(0);
  await page.locator(".sidechain .strand-link").click();
  await messages.getByText("There is water in it.").waitFor();
  expect(await messages.locator(".message").count()).toBe(2);
  await expect.poll(() => page.locator(".crumbs h1").innerText()).toBe("scout");
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("what is on the screen is marked beside the strands as it is scrolled", async () => {
  const { page } = await served.open(`/conversations/${long}`, { width: 1400, height: 700 });
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("g");
  const top = () => page.locator(".in-sight").evaluate((bar) => (bar as HTMLElement).offsetTop);
  await page.locator(".in-sight").waitFor();
  const before = await top();
  await page.locator(".messages").evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await expect.poll(top).toBeGreaterThan(before);
  await page.context().close();
});

test("the graph is walked, enlarged and opened by keys", async () => {
  const { page } = await served.open(`/conversations/${long}?view=graph`, { width: 1400 });
  const current = page.locator(".strands li.current");
  await page.locator(".strands-wide li").nth(3).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await expect.poll(() => current.getAttribute("data-row")).toBe("sail-2");
  const height = () => current.locator("button").evaluate((button) => (button as HTMLElement).offsetHeight);
  const before = await height();
  await page.keyboard.press("-");
  await expect.poll(height).toBeLessThan(before);
  await page.keyboard.press("+");
  await expect.poll(height).toBe(before);
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.getByText("Answer 1.").first().waitFor();
  await page.context().close();
});

test("a reload comes back to the line that was read, with what was opened", async () => {
  const { page } = await served.open(`/conversations/${long}`, { height: 700 });
  await page.locator(".message").first().waitFor();
  await page.locator(".fold", { hasText: "Show all" }).first().click();
  await page.locator(".fold", { hasText: "thinking" }).first().click();
  await page.getByText("Thought 0.").waitFor();
  const box = page.locator(".messages");
  // Somewhere in the middle, behind messages whose heights are only known once they were drawn.
  for (let step = 0; step < 12; step += 1) {
    await box.evaluate((element) => element.scrollBy(0, 450));
    await page.waitForTimeout(30);
  }
  const seen = () =>
    box.evaluate((element) => {
      const top = element.getBoundingClientRect().top;
      const items = [...element.querySelectorAll("li[data-uuid]")];
      const first = items.find((item) => item.getBoundingClientRect().bottom > top + 1);
      return first ? { uuid: (first as HTMLElement).dataset.uuid, above: Math.round(top - first.getBoundingClientRect().top) } : null;
    });
  await page.waitForTimeout(200);
  const before = await seen();
  await page.reload();
  await page.locator(".message").first().waitFor();
  await expect.poll(async () => (await seen())?.uuid).toBe(before?.uuid);
  await expect.poll(async () => Math.abs(((await seen())?.above ?? 0) - (before?.above ?? 0))).toBeLessThan(8);
  await box.evaluate((element) => element.scrollTo(0, 0));
  await page.getByText("Thought 0.").waitFor();
  await page.locator(".fold", { hasText: "Show less" }).first().waitFor();
  await page.context().close();
});

test("the start page has six figures with lines, the dearest, what broke the cache, and leads on", async () => {
  const { page, complaints } = await served.open("/", { width: 1400, height: 900 });
  await page.locator(".figures li").nth(5).waitFor();
  expect(await page.locator(".figures li").count()).toBe(6);
  expect(await page.locator(".figures .sparkline").count()).toBe(6);
  const dearest = page.locator("section", { has: page.getByRole("heading", { name: /^Dearest/ }) });
  await expect.poll(() => dearest.locator("li").count()).toBe(5);
  const costs = (await dearest.locator("li > .number").evaluateAll((all) => all.map((one) => Number((one as HTMLElement).title.slice(1).replace(",", ""))))).filter((cost) => cost > 0);
  expect(costs).toEqual([...costs].sort((a, b) => b - a));
  await page.getByRole("heading", { name: /^What broke the cache/ }).waitFor();
  const plot = page.locator(".chart-plot").first();
  await plot.focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator(".told").getByText(/^\d{4}-\d\d-\d\d$/).waitFor();
  await plot.hover();
  await page.locator(".told").waitFor();
  await page.getByRole("button", { name: "7 days" }).click();
  await page.getByRole("heading", { name: /^Cost by model, 7 days/ }).waitFor();
  expect(new URL(page.url()).searchParams.get("days")).toBe("7");
  await page.locator("a.cell").last().click();
  await page.locator(".conversation-row").first().waitFor();
  expect(new URL(page.url()).searchParams.get("since")).toMatch(/^\d{4}-/);
  const chip = page.locator(".chip", { hasText: /^on \d{4}-/ });
  await chip.click();
  await expect.poll(() => new URL(page.url()).searchParams.get("since")).toBeNull();
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("an orphan says why it is one, and who is done dims after five minutes", async () => {
  const { page } = await served.open("/agents");
  await page.locator("tr.orphans").waitFor();
  await page.getByText("names the agent `agent-of-nobody`").waitFor();
  expect(await page.locator("tr.done[data-status=complete]").count()).toBeGreaterThan(0);
  await page.context().close();
});

test("the shell says whose data it is, and how to see another's", async () => {
  const { page, complaints } = await served.open("/agents");
  await page.getByRole("button", { name: "Owner local" }).click();
  await page.getByText("You see what was recorded for").waitFor();
  await page.getByRole("button", { name: "See another owner" }).click();
  await page.getByRole("dialog", { name: "Another owner" }).getByLabel("Token").fill(served.token);
  await page.keyboard.press("Enter");
  await page.locator(".figures").waitFor();
  expect(page.url()).not.toContain("token");
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("hits of a search are walked and opened by keys", async () => {
  const { page } = await served.open("/search?q=sails");
  await page.locator(".hits li").nth(1).waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.locator(".hits li.current").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".message").first().waitFor();
  await page.context().close();
});
