/** Every view in a real browser, over what the demonstration, the fixtures and real clients recorded. */

import AxeBuilder from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served, type Seen } from "./served";

let served: Served;
let talk: string;
/** Two exchanges on branches that part. */
let pair: string[] = [];

beforeAll(async () => {
  served = await Served.start();
  const listed = await served.api<{ conversations: { friendly_id: string; branches: number }[] }>("/api/v1/conversations?limit=10");
  talk = listed.conversations.find((one) => one.branches > 3)?.friendly_id ?? "";
  expect(talk).toMatch(/^leap_days_/);
  const { exchanges } = await served.api<{ exchanges: { id: string; branch_id: string; branch_kind: string }[] }>(`/api/v1/exchanges?ref=${talk}&limit=200`);
  pair = ["main", "edit"].map((kind) => exchanges.findLast((one) => one.branch_kind === kind)?.id ?? "");
});

afterAll(async () => await served?.stop());

/** Nothing is wrong on the page, nothing was asked of others, and everybody can use it. */
async function isSound(seen: Seen, name: string): Promise<void> {
  await expect.poll(() => seen.page.getByText(/^Loading .*…$/).count()).toBe(0);
  await seen.page.evaluate(AxeBuilder.source);
  const findings = await seen.page.evaluate(async () => {
    const { axe } = window as unknown as { axe: typeof AxeBuilder };
    const { violations } = await axe.run();
    return violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
  });
  expect(findings, name).toEqual([]);
  expect(seen.complaints, name).toEqual([]);
  expect(seen.outside, name).toEqual([]);
  await picture(seen.page, name);
  await seen.context.close();
}

const VIEWS: [string, () => string, string][] = [
  ["home", () => "/", ".figures"],
  ["conversations", () => "/conversations", ".conversation-row"],
  ["conversation", () => `/conversations/${talk}`, ".message"],
  ["graph", () => `/conversations/${talk}?view=graph`, ".strands-wide svg"],
  ["agents", () => "/agents", "tr[data-status]"],
  ["compare", () => `/compare?a=${pair[0]}&b=${pair[1]}`, ".sides .message"],
  ["answers", () => `/compare?to=${pair[0]}`, ".sides header"],
  ["insight", () => `/insight?days=90&of=${talk}`, ".insight .timeline"],
  ["search", () => "/search?q=leap", ".hits li"],
  ["health", () => "/health", ".health table"],
];

for (const [name, path, sign] of VIEWS) {
  for (const theme of ["light", "dark"] as const) {
    test(`${name} is sound, ${theme} and wide`, async () => {
      const seen = await served.open(path(), { width: 1400, height: 900, theme });
      await seen.page.locator(sign).first().waitFor();
      await isSound(seen, `${name}-${theme}`);
    });
  }
  test(`${name} is sound on a narrow screen and nothing hangs out`, async () => {
    const seen = await served.open(path(), { width: 360, height: 740 });
    await seen.page.locator(sign).first().waitFor();
    const width = await seen.page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(360);
    await isSound(seen, `${name}-narrow`);
  });
}

async function messages(page: Page): Promise<string[]> {
  return await page.locator(".messages li[data-uuid]").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset.uuid ?? ""));
}

const current = (page: Page) => page.locator(".messages li[aria-current]");

test("keys move through messages and prompts, and the address follows", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").first().waitFor();
  const [first, second] = await messages(page);
  await page.keyboard.press("j");
  await expect.poll(() => current(page).getAttribute("data-uuid")).toBe(second);
  expect(decodeURIComponent(new URL(page.url()).hash.slice(1))).toBe(second);
  await page.keyboard.press("k");
  await expect.poll(() => current(page).getAttribute("data-uuid")).toBe(first);
  await page.keyboard.press("J");
  await expect.poll(() => current(page).locator("h2").innerText()).toBe("You");
  expect(await current(page).getAttribute("data-uuid")).not.toBe(first);
  await page.reload();
  await expect.poll(() => current(page).locator(".message.user").innerText()).toContain("1900");
  await page.context().close();
});

test("a badge copies the full reference and says so for a moment", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  const badge = page.locator(".badge").nth(1);
  await badge.waitFor();
  expect(await badge.innerText()).toMatch(/^#2 · [a-z0-9]{6}$/);
  await badge.click();
  await expect.poll(() => badge.innerText()).toContain("Copied!");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toMatch(new RegExp(`^@conversation_${talk}_message_[a-z0-9]{6}$`));
  await expect.poll(() => badge.innerText()).toMatch(/^#2/);
  await page.keyboard.press("j");
  await page.keyboard.press("y");
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(copied);
  await page.context().close();
});

test("a branch is switched by button and key, and its address leads there again", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").first().waitFor();
  const switcher = page.locator(".message.user .switcher");
  await switcher.waitFor();
  expect(await switcher.innerText()).toContain("1 of 2");
  await switcher.getByLabel("Next branch").click();
  await page.getByText("Write a line for the changelog.").waitFor();
  await page.getByText("accepts 29 February in leap years").waitFor();
  await page.keyboard.press("[");
  await page.getByText("Write a commit message.").waitFor();
  await page.keyboard.press("Alt+ArrowRight");
  await page.getByText("Write a line for the changelog.").waitFor();
  await page.reload();
  await page.getByText("Write a line for the changelog.").waitFor();
  expect(await page.locator(".message.user .switcher").innerText()).toContain("2 of 2");
  await page.goBack();
  await page.getByText("Write a commit message.").waitFor();
  await page.context().close();
});

test("tools are beside the answer that called them, open as what they are, and lead to agents", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".tool-line").first().click();
  const group = page.locator(".sidechain section.wanted");
  await group.waitFor();
  expect(await group.locator(".operation").allInnerTexts()).toHaveLength(2);
  await page.locator(".operation", { hasText: "Edit" }).first().click();
  await page.locator(".diff .new").first().waitFor();
  await page.locator(".operation", { hasText: "cargo test" }).click();
  await page.getByText("12 passed; 0 failed").waitFor();
  await page.locator(".strand-link").last().click();
  await page.getByText("Fuzz parse_date with a million").first().waitFor();
  expect(new URL(page.url()).searchParams.get("agent")).not.toBeNull();
  await page.getByRole("navigation", { name: "Breadcrumbs" }).getByText("29 February").click();
  await page.getByText("I look at the parser").first().waitFor();
  await page.keyboard.press("s");
  await expect.poll(() => page.locator(".sidechain").count()).toBe(0);
  await page.context().close();
});

test("strands show and lead to messages, and the graph fills the page", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("g");
  await page.locator(".strands button b", { hasText: /^edit$/ }).click();
  await page.locator(".message", { hasText: "Write a line for the changelog." }).waitFor();
  await page.keyboard.press("G");
  await page.locator(".strands-wide").waitFor();
  await page.locator(".strands button b", { hasText: /^Explore$/ }).click();
  await page.locator(".message", { hasText: "List every caller of days_in_month" }).first().waitFor();
  await page.context().close();
});

test("an exchange shows why it is where it is, and its exact bytes", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("o");
  const dialog = page.getByRole("dialog", { name: "Exchange" });
  await dialog.getByText("input_node").waitFor();
  await dialog.getByRole("tab", { name: "Headers" }).click();
  await dialog.getByText("POST /v1/messages").waitFor();
  await dialog.getByRole("tab", { name: "Request" }).click();
  await dialog.locator(".raw").waitFor();
  const download = page.waitForEvent("download");
  await dialog.getByText("Download the exact bytes").click();
  const bytes = await (await download).createReadStream();
  let text = "";
  for await (const piece of bytes) text += String(piece);
  expect(JSON.parse(text)).toHaveProperty("messages");
  await dialog.getByRole("tab", { name: "Response" }).click();
  await expect.poll(() => dialog.locator(".raw").innerText()).toContain("message_start");
  await page.keyboard.press("Escape");
  await expect.poll(() => dialog.count()).toBe(0);
  await page.context().close();
});

test("words are found inside a conversation and over all of them", async () => {
  const { page } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("two sentences");
  await page.keyboard.press("Enter");
  await expect.poll(() => current(page).innerText()).toContain("In two sentences, please.");
  const marked = () => page.evaluate(() => [...(CSS.highlights.get("found") ?? [])].map(String));
  await expect.poll(marked).toEqual(["two sentences"]);
  await page.keyboard.press("Escape");
  expect(await marked()).toEqual([]);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("fuzzer");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.locator(".hits mark").first().waitFor();
  expect(new URL(page.url()).searchParams.get("q")).toBe("fuzzer");
  await page.locator(".hits li", { hasText: "The fuzzer is done" }).getByRole("link").click();
  await expect.poll(() => current(page).innerText()).toContain("The fuzzer is done");
  // A summary is no message of the conversation; the hit leads to the exchange.
  await page.goBack();
  await page.locator(".hits li", { hasText: "A bug, its repair" }).getByRole("link").click();
  await page.getByRole("dialog", { name: "Exchange" }).getByText("compaction").first().waitFor();
  await page.context().close();
});

test("a slash finds in what is shown, also where the view was there from the beginning", async () => {
  for (const [path, box] of [["/conversations", "Title or name"], ["/search?q=leap", "Words to find"]] as const) {
    const { page } = await served.open(path);
    await page.locator(".conversation-row, .hits li").first().waitFor();
    await page.getByRole("heading", { level: 1 }).click();
    await page.keyboard.press("/");
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
    await expect.poll(focused).toBe(box);
    expect(page.url()).toContain(path);
    await page.context().close();
  }
});

test("the palette jumps by name, and help lists the keys", async () => {
  const { page } = await served.open("/agents");
  await page.locator("tr[data-status]").first().waitFor();
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keys" });
  await help.getByText("open its strand").waitFor();
  const keys = await help.locator("dt").allInnerTexts();
  expect(new Set(keys).size).toBe(keys.length);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  // Whoever opens it types at once.
  await page.keyboard.type("leap_da");
  await page.getByRole("option", { name: talk }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".message").first().waitFor();
  expect(new URL(page.url()).pathname).toBe(`/conversations/${talk}`);
  await page.context().close();
});

test("the list filters by address, opens by key and has a menu that copies the id alone", async () => {
  const { page } = await served.open("/conversations?q=february");
  await page.locator(".conversation-row").first().waitFor();
  await expect.poll(() => page.locator(".conversation-row").count()).toBe(1);
  await page.locator(".conversation-row").first().click({ button: "right" });
  const items = page.getByRole("menuitem");
  await items.first().waitFor();
  expect((await items.allInnerTexts())[0]).toBe("Copy conversation reference");
  await items.first().click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(talk);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".message").first().waitFor();
  await page.goBack();
  await expect.poll(() => page.getByRole("searchbox").inputValue()).toBe("february");
  await page.context().close();
});

test("a theme that was chosen stays", async () => {
  const { page } = await served.open("/health");
  await page.getByLabel("Dark theme").click();
  await page.reload();
  await page.getByLabel("Light theme").waitFor();
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
  await page.context().close();
});

test("who has no cookie is asked for the token, and comes to the page that was asked for", async () => {
  const page = await served.stranger(`/conversations/${talk}?view=graph`);
  await page.getByLabel("Token").fill(served.token);
  await page.getByRole("button", { name: "Enter" }).click();
  await page.locator(".strands-wide").waitFor();
  expect(page.url()).not.toContain(served.token);
  await page.context().close();
});

test("what does not exist is said to, with a hint", async () => {
  const { page } = await served.open("/conversations/nothing_here_zzzz");
  await page.getByRole("alert").waitFor();
  expect(await page.getByRole("alert").innerText()).toContain("nothing is named");
  await page.context().close();
});

test("a conversation gets another title, and keeps its name", async () => {
  const { page, complaints } = await served.open(`/conversations/${talk}`);
  const before = await page.locator("h1").innerText();
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByLabel("Title").fill("Dates & <b>leap years</b>");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator("h1").innerText()).toBe("Dates & <b>leap years</b>");
  await page.getByText(talk).waitFor();
  await page.reload();
  await expect.poll(() => page.locator("h1").innerText()).toBe("Dates & <b>leap years</b>");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByLabel("Title").fill(before);
  await page.getByRole("button", { name: "Save" }).click();
  await expect.poll(() => page.locator("h1").innerText()).toBe(before);
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("branches are compared from where they part, and filters of the list are in its address", async () => {
  const { page, complaints } = await served.open(`/conversations/${talk}`);
  await page.locator(".message").getByRole("link", { name: "compare" }).first().click();
  await page.locator(".sides section").nth(1).waitFor();
  await page.locator(".diff .new, .diff .gone").first().waitFor();
  expect(await page.locator(".sides .under").first().innerText()).toMatch(/→.*\$/s);
  await page.goto(`${served.url}/conversations?model=nobody`);
  await page.getByText("No conversation is like this.").waitFor();
  await page.getByRole("button", { name: "Without model nobody" }).click();
  await page.locator(".conversation-row").first().waitFor();
  expect(new URL(page.url()).searchParams.get("model")).toBeNull();
  expect(complaints).toEqual([]);
  await page.context().close();
});
