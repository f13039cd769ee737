/** What happens is seen as it happens, without asking again. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served } from "./served";

let served: Served;

beforeAll(async () => {
  served = await Served.start();
});

afterAll(async () => await served?.stop());

/** A client's call through the proxy; the upstream answers when a test says so. */
function ask(messages: unknown[], session: string): Promise<string> {
  const body = { model: "claude-opus-4-5", max_tokens: 64, stream: true, metadata: { user_id: `user_x_account__session_${session}` }, messages };
  const headers = { "content-type": "application/json", "x-api-key": "made-up", "anthropic-version": "2023-06-01" };
  const called = fetch(`${served.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body) });
  return called.then((answer) => answer.text()).catch(() => "broken off");
}

const said = (content: unknown, role = "user") => ({ role, content });

test("an agent goes from streaming to complete and its messages come in with their badges", async () => {
  const session = "5f0c0000-0000-4000-8000-000000000001";
  const agents = await served.open("/agents");
  await agents.page.locator("tr[data-status]").first().waitFor();
  await expect.poll(() => agents.page.locator(".status").innerText()).not.toContain("not live");
  const call = ask([said("Which knot holds a boat?")], session);
  const row = agents.page.locator("tr", { hasText: "Which knot holds a boat?" });
  await row.waitFor();
  expect(await row.getAttribute("data-status")).toBe("streaming");
  await agents.page.locator(".status", { hasText: "1 live" }).waitFor();
  await picture(agents.page, "agents-streaming");
  await served.upstream.finish("Which knot holds a boat?", "A bowline, tied twice.");
  await call;
  await agents.page.locator("tr[data-status=complete]", { hasText: "Which knot holds a boat?" }).waitFor();
  await row.getByRole("link").click();
  const { page } = agents;
  await page.getByText("A bowline, tied twice.").waitFor();
  await page.locator(".badge").nth(1).waitFor();
  expect(await page.locator(".badge").allInnerTexts()).toMatchObject([expect.stringMatching(/^#1 · \w{6}/), expect.stringMatching(/^#2 · \w{6}/)]);
  const history = [said("Which knot holds a boat?"), said("A bowline, tied twice.", "assistant"), said("And which a parcel?")];
  const next = ask(history, session);
  await page.getByText("And which a parcel?").waitFor();
  await served.upstream.finish("And which a parcel?", "A packer's knot.");
  await next;
  await page.getByText("A packer's knot.").waitFor();
  await expect.poll(() => page.locator(".badge").count()).toBe(4);
  expect(agents.complaints).toEqual([]);
  await page.context().close();
});

test("a parent's children nest below it, live, and one that fails is seen to", async () => {
  const session = "5f0c0000-0000-4000-8000-000000000002";
  const { page, complaints } = await served.open("/agents");
  await page.locator("tr[data-status]").first().waitFor();
  const parent = ask([said("Let two agents look at the mast.")], session);
  const calls = ["Look at the mast's foot", "Look at the mast's top"].map((prompt, at) => ({
    id: `toolu_ui_${at}`,
    name: "Task",
    input: { subagent_type: at === 0 ? "foot-reader" : "top-reader", description: prompt, prompt },
  }));
  await served.upstream.finish("Let two agents look at the mast.", "Two at once.", calls);
  await parent;
  const children = calls.map((call) => ask([said(call.input.prompt)], session));
  const streaming = page.locator("tr[data-status=streaming]");
  await expect.poll(() => streaming.count()).toBe(2);
  await served.upstream.finish("Look at the mast's foot", "The foot is sound.");
  await served.upstream.fail("Look at the mast's top");
  await Promise.all(children);
  const row = page.locator("tr", { hasText: "Let two agents look at the mast." });
  await expect.poll(() => row.innerText()).toContain("2 children");
  await page.locator("tr[data-status=error]", { hasText: "top-reader" }).waitFor();
  await page.locator("tr[data-status=complete]", { hasText: "foot-reader" }).waitFor();
  await picture(page, "agents-nested");
  expect(complaints).toEqual([]);
  await page.context().close();
});
