/** What changed around a conversation is a mark with a difference behind it; what was attached is shown, and never asked of others. */

import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served } from "./served";

let served: Served;
let talk: string;

/** A red dot. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/** A dot whose data says the same in as many bytes, and another colour. */
const OTHER_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("https://canary.invalid/svg")</script></svg>').toString("base64");
const REMOTE = "https://canary.invalid/picture.png";

const said = (role: string, content: unknown) => ({ role, content });
const source = (type: string, data: string) => ({ type: "image", source: { type: "base64", media_type: type, data } });

function line(number: number, system: string, tools: string[], messages: unknown[], answer: string | unknown[]): string {
  const at = (second: number) => `2026-06-02T10:0${number}:${second === 0 ? "00" : "05"}Z`;
  const body = {
    model: "claude-opus-4-5",
    max_tokens: 64,
    system,
    tools: tools.map((name) => ({ name, description: `what ${name} does`, input_schema: { type: "object" } })),
    messages,
  };
  const content = typeof answer === "string" ? [{ type: "text", text: answer }] : answer;
  return JSON.stringify({
    v: 1,
    id: `marks-${number}`,
    at: at(0),
    owner: "local",
    method: "POST",
    path: "/v1/messages",
    request: { headers: {}, body },
    response: {
      status: 200,
      headers: { "content-type": "application/json" },
      body: { id: `msg_marks_${number}`, type: "message", role: "assistant", model: "claude-opus-4-5", content },
    },
    ended_at: at(5),
  });
}

function lines(): string[] {
  const first = said("user", [
    { type: "text", text: "What is in these pictures of mine?" },
    source("image/png", PNG),
    source("image/png", OTHER_PNG),
    source("image/svg+xml", SVG),
    { type: "image", source: { type: "url", url: REMOTE } },
    { type: "text", text: `![hidden](${REMOTE}) and <img src="${REMOTE}">` },
  ]);
  const second = [first, said("assistant", [{ type: "text", text: "A red dot." }]), said("user", "Are you sure about that?")];
  const third = [...second, said("assistant", [{ type: "text", text: "Quite sure." }]), said("user", "Then write it down.")];
  return [
    line(1, "You look at pictures.\nBe brief.", ["Read"], [first], "A red dot."),
    line(2, "You look at pictures.\nBe thorough, and say how sure you are.", ["Read"], second, "Quite sure."),
    line(3, "You look at pictures.\nBe thorough, and say how sure you are.", ["Read", "Write"], third, "It is written down."),
    ...screenshot(),
  ];
}

/** A tool that gives back a picture and no word. */
function screenshot(): string[] {
  const asked = said("user", "Look at the screenshot that I took.");
  const call = [{ type: "tool_use", id: "toolu_shot", name: "Read", input: { file_path: "shot.png" } }];
  const given = said("user", [{ type: "tool_result", tool_use_id: "toolu_shot", content: [source("image/png", PNG), source("image/svg+xml", SVG)] }]);
  return [
    line(4, "You look at files.", ["Read"], [asked], call),
    line(5, "You look at files.", ["Read"], [asked, said("assistant", call), given], "It is a red dot as well."),
  ];
}

beforeAll(async () => {
  served = await Served.start(lines(), ["chatgpt"]);
  talk = await friendlyId("marks-1");
});

async function friendlyId(exchange: string): Promise<string> {
  const { conversation } = await served.api<{ conversation: { friendly_id: string } }>(`/api/v1/conversations/${exchange}`);
  return conversation.friendly_id;
}

afterAll(async () => await served?.stop());

test("a change of the system prompt and of the tools is a mark that opens what changed", async () => {
  const { page, complaints, outside } = await served.open(`/conversations/${talk}`);
  await page.getByText("It is written down.").waitFor();
  const marks = page.locator(".messages .mark button");
  await expect.poll(() => marks.count()).toBe(2);
  await marks.first().click();
  const prompt = page.getByRole("dialog", { name: "System prompt changed" });
  await prompt.locator(".diff .new").first().waitFor();
  expect(await prompt.locator(".diff .gone").allInnerTexts()).toEqual([expect.stringContaining("Be brief.")]);
  expect(await prompt.locator(".diff .new").allInnerTexts()).toEqual([expect.stringContaining("say how sure you are")]);
  await picture(page, "change-system-prompt");
  await page.keyboard.press("Escape");
  await expect.poll(() => prompt.count()).toBe(0);
  await marks.last().click();
  const tools = page.getByRole("dialog", { name: "Tools changed" });
  await expect.poll(() => tools.locator(".diff .new").innerText()).toContain("Write");
  expect(await tools.locator(".diff .gone").count()).toBe(0);
  await page.keyboard.press("Escape");
  await expect.poll(() => tools.count()).toBe(0);
  expect(complaints).toEqual([]);
  expect(outside).toEqual([]);
  await page.context().close();
});

test("a picture is a thumbnail of its own bytes that opens, and nothing else is ever shown", async () => {
  const { page, complaints, outside } = await served.open(`/conversations/${talk}`);
  const attached = page.locator(".messages .attachment");
  await expect.poll(() => attached.count()).toBe(4);
  const [png, other, svg, remote] = [attached.nth(0), attached.nth(1), attached.nth(2), attached.nth(3)];
  await png.locator("img").waitFor();
  expect(await png.locator("img").getAttribute("src")).toBe(`data:image/png;base64,${PNG}`);
  await expect.poll(() => png.locator("img").evaluate((shown) => (shown as HTMLImageElement).naturalWidth)).toBe(1);
  expect(await png.innerText()).toContain("1 × 1");
  expect(await png.locator("code").innerText()).toBe(createHash("sha256").update(Buffer.from(PNG, "base64")).digest("hex").slice(0, 6));
  // As long as the first, and not the same.
  expect(await other.locator("img").getAttribute("src")).toBe(`data:image/png;base64,${OTHER_PNG}`);
  await svg.getByText("cannot be shown").waitFor();
  expect(await remote.getByRole("button").count()).toBe(0);
  expect(await remote.innerText()).toContain(REMOTE);
  expect(await page.locator(".messages img").count()).toBe(2);
  await picture(page, "pictures");
  await png.getByRole("button", { name: "show it large" }).click();
  const large = page.getByRole("dialog");
  await large.locator("img").waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => large.count()).toBe(0);
  expect(complaints).toEqual([]);
  expect(outside).toEqual([]);
  await page.context().close();
});

test("a picture that a tool gave back is shown below its call", async () => {
  const { page, complaints, outside } = await served.open(`/conversations/${await friendlyId("marks-4")}`);
  await page.getByText("It is a red dot as well.").waitFor();
  await page.locator(".sidechain .operation").click();
  const attached = page.locator(".sidechain .attachment");
  await expect.poll(() => attached.count()).toBe(2);
  await attached.first().locator("img").waitFor();
  expect(await attached.first().locator("img").getAttribute("src")).toBe(`data:image/png;base64,${PNG}`);
  await attached.last().getByText("cannot be shown").waitFor();
  await picture(page, "picture-of-a-tool");
  expect(complaints).toEqual([]);
  expect(outside).toEqual([]);
  await page.context().close();
});

test("a check of the store is begun by a button and says what it found", async () => {
  const { page, complaints } = await served.open("/health");
  await page.getByText("Not checked since the server started.").waitFor();
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByText(/Everything is as it should be|error|note/).first().waitFor();
  await page.getByRole("button", { name: "Check now" }).waitFor();
  const { check } = await served.api<{ check: { state: string; errors: number } }>("/api/v1/health");
  expect(check).toMatchObject({ state: "done", errors: 0 });
  // Another process read these, before the server was there.
  await page.locator(".health td.path", { hasText: "chatgpt" }).first().waitFor();
  await picture(page, "health-checked");
  expect(complaints).toEqual([]);
  await page.context().close();
});
