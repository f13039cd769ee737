/** What happens is seen as it happens, without asking again. */

import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served } from "./served";

let served: Served;

beforeAll(async () => {
  served = await Served.start();
});

afterAll(async () => await served?.stop());

/** A client's call through the proxy; the upstream answers when a test says so. */
function ask(messages: unknown[], session: string, more: Record<string, string> = {}): Promise<string> {
  const body = { model: "claude-opus-4-5", max_tokens: 64, stream: true, metadata: { user_id: `user_x_account__session_${session}` }, messages };
  const headers = { "content-type": "application/json", "x-api-key": "made-up", "anthropic-version": "2023-06-01", ...more };
  const called = fetch(`${served.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body) });
  return called.then((answer) => answer.text()).catch(() => "broken off");
}

const said = (content: unknown, role = "user") => ({ role, content });

/** Waits for as many rows with a text, looked for in every frame of the page: whoever asks from outside asks less and less often. */
async function seenWithin(page: Page, what: string, rows: string, text: string, count = 1): Promise<void> {
  const began = performance.now();
  const isSeen = ([rows, text, count]: readonly [string, string, number]) =>
    [...document.querySelectorAll<HTMLElement>(rows)].filter((row) => row.innerText.includes(text)).length === count;
  await page.waitForFunction(isSeen, [rows, text, count] as const, { polling: "raf" });
  // Figures, not claims: a loaded machine is no measure. Told from when something happened to when it is seen.
  console.log(`figure: ${what} is seen after ${Math.round(performance.now() - began)} ms`);
}

test("an agent goes from streaming to complete and its messages come in with their badges", async () => {
  const session = "5f0c0000-0000-4000-8000-000000000001";
  const agents = await served.open("/agents");
  await agents.page.locator("tr[data-status]").first().waitFor();
  await expect.poll(() => agents.page.locator(".status").innerText()).not.toContain("not live");
  const call = ask([said("Which knot holds a boat?")], session);
  const row = agents.page.locator("tr", { hasText: "Which knot holds a boat?" });
  await seenWithin(agents.page, "an agent that begins", "tr[data-status=streaming]", "Which knot holds a boat?");
  await agents.page.locator(".status", { hasText: "1 live" }).waitFor();
  await picture(agents.page, "agents-streaming");
  await served.upstream.finish("Which knot holds a boat?", "A bowline, tied twice.");
  await seenWithin(agents.page, "an agent that is complete", "tr[data-status=complete]", "Which knot holds a boat?");
  await call;
  await row.getByRole("link").click();
  const { page } = agents;
  await page.getByText("A bowline, tied twice.").waitFor();
  await page.locator(".badge").nth(1).waitFor();
  expect(await page.locator(".badge").allInnerTexts()).toMatchObject([expect.stringMatching(/^#1 · \w{6}/), expect.stringMatching(/^#2 · \w{6}/)]);
  const history = [said("Which knot holds a boat?"), said("A bowline, tied twice.", "assistant"), said("And which a parcel?")];
  const next = ask(history, session);
  await page.getByText("And which a parcel?").waitFor();
  await page.locator(".answering", { hasText: /opus-4-5 is answering: \d+ B so far/ }).waitFor();
  await served.upstream.finish("And which a parcel?", "A packer's knot.");
  await next;
  await page.getByText("A packer's knot.").waitFor();
  await expect.poll(() => page.locator(".badge").count()).toBe(4);
  expect(agents.complaints).toEqual([]);
  await page.context().close();
});

test("children nest below who started them, live: one nested, one orphan, one failing", async () => {
  const session = "5f0c0000-0000-4000-8000-000000000002";
  const { page, complaints } = await served.open("/agents");
  await page.locator("tr[data-status]").first().waitFor();
  const parent = ask([said("Let agents look at the mast.")], session);
  const task = (id: string, name: string, prompt: string) => ({ id, name: "Task", input: { subagent_type: name, description: prompt, prompt } });
  const calls = [task("toolu_ui_0", "foot-reader", "Look at the mast's foot"), task("toolu_ui_1", "top-reader", "Look at the mast's top")];
  await served.upstream.finish("Let agents look at the mast.", "Two at once.", calls);
  await parent;
  const foot = ask([said("Look at the mast's foot")], session);
  const top = ask([said("Look at the mast's top")], session);
  // Nobody asked for it: a client that says it is a subagent, and whose parent nobody saw.
  const orphan = ask([said("Look at the mast's shadow")], "5f0c0000-0000-4000-8000-000000000003", {
    "x-claude-code-agent-id": "agent-shadow",
    "x-claude-code-parent-agent-id": "agent-of-nobody",
  });
  await seenWithin(page, "three agents at once", "tr[data-status=streaming]", "", 3);
  await served.upstream.finish("Look at the mast's foot", "One more looks below.", [task("toolu_ui_2", "keel-reader", "Look at the keel")]);
  await foot;
  const nested = ask([said("Look at the keel")], session);
  await seenWithin(page, "an agent of an agent", "tr[data-status=streaming]", "keel-reader");
  await served.upstream.fail("Look at the mast's top");
  await seenWithin(page, "an agent that failed", "tr[data-status=error]", "top-reader");
  await served.upstream.finish("Look at the keel", "The keel is sound.");
  await served.upstream.finish("Look at the mast's shadow", "It is long.");
  await Promise.all([top, nested, orphan]);
  await page.locator("tr[data-status=error]", { hasText: "top-reader" }).waitFor();
  for (const name of ["foot-reader", "keel-reader"]) await page.locator("tr[data-status=complete]", { hasText: name }).waitFor();
  const depth = async (name: string) =>
    await page.locator("tr", { hasText: name }).first().locator("td.agent").evaluate((cell) => Number.parseFloat((cell as HTMLElement).style.paddingInlineStart));
  const root = await depth("Let agents look at the mast.");
  expect(await depth("foot-reader")).toBeGreaterThan(root);
  expect(await depth("keel-reader")).toBeGreaterThan(await depth("foot-reader"));
  expect(await depth("top-reader")).toBe(await depth("foot-reader"));
  await expect.poll(() => page.locator("tr", { hasText: "Let agents look at the mast." }).innerText()).toContain("2 children");
  await page.locator("tr[data-status=complete]", { hasText: /orphan|mast's shadow/ }).first().waitFor();
  await page.locator("tr.orphans").waitFor();
  await page.getByText("names the agent `agent-of-nobody`").first().waitFor();
  await picture(page, "agents-nested");
  // Their client gave them no ids; they are beside the main flow all the same, each in a strand of its own.
  await page.getByRole("link", { name: "Let agents look at the mast." }).click();
  await page.locator(".messages").getByText("Two at once.").waitFor();
  await expect.poll(() => page.locator(".sidechain .strand-link").count()).toBe(2);
  expect(await page.locator(".messages .message").count()).toBe(2);
  expect(await page.locator(".messages .mark").count()).toBe(0);
  await page.locator(".sidechain .strand-link").first().click();
  await page.locator(".messages").getByText("One more looks below.").waitFor();
  await expect.poll(() => page.locator(".crumbs h1").innerText()).toBe("foot-reader");
  await page.locator(".sidechain .strand-link").click();
  await page.getByText("The keel is sound.").waitFor();
  await expect.poll(() => page.locator(".crumbs nav").innerText()).toMatch(/foot-reader\s*›\s*keel-reader/);
  await picture(page, "strand-of-an-agent");
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("who reads at the end follows what comes, and who scrolled up is told", async () => {
  const session = "5f0c0000-0000-4000-8000-000000000004";
  const words = "word ".repeat(900);
  const history: unknown[] = [said(`First. ${words}`)];
  const turn = async (answer: string) => {
    const call = ask(history, session);
    const last = (history.at(-1) as { content: string }).content.slice(0, 12);
    await served.upstream.finish(last, answer);
    await call;
    history.push(said(answer, "assistant"));
  };
  await turn(`One. ${words}`);
  history.push(said(`Second. ${words}`));
  const { page } = await served.open("/conversations");
  await page.getByRole("link", { name: /^First\. / }).first().click();
  await page.getByText("One. word").first().waitFor();
  const box = page.locator(".messages");
  const toEnd = () => box.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  const isAtEnd = () => box.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 100);
  await expect.poll(async () => (await toEnd(), await isAtEnd())).toBe(true);
  await turn(`Two. ${words}`);
  await page.getByText("Two. word").first().waitFor();
  await expect.poll(isAtEnd).toBe(true);
  await box.evaluate((element) => element.scrollTo(0, 0));
  await expect.poll(isAtEnd).toBe(false);
  history.push(said(`Third. ${words}`));
  await turn(`Three. ${words}`);
  await page.locator(".unseen").waitFor();
  expect(await isAtEnd()).toBe(false);
  await page.locator(".unseen").click();
  await page.getByText("Three. word").first().waitFor();
  await page.context().close();
});
