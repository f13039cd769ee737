/** A store in which nothing is: every view says the one command that fills it. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { picture, Served } from "./served";

let served: Served;

beforeAll(async () => {
  served = await Served.empty();
});

afterAll(async () => await served?.stop());

const VIEWS: [string, string][] = [
  ["/", "ropewalk run -- claude"],
  ["/conversations", "ropewalk import ~/.claude/projects"],
  ["/agents", "ropewalk run -- claude"],
  ["/health", "ropewalk import ~/.claude/projects"],
];

for (const [path, command] of VIEWS) {
  test(`${path} names ${command}`, async () => {
    const { page, complaints } = await served.open(path);
    await page.locator("main .state code", { hasText: command }).waitFor();
    await picture(page, `empty-${path.slice(1) || "home"}`);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
}

test("what asks for words or names says so, and nothing found is said", async () => {
  for (const [path, told] of [
    ["/search", "Type words that were said"],
    ["/search?q=rope", "Nobody said this."],
    ["/compare", "Name two branches or exchanges"],
    ["/insight", "Nothing broke it"],
    ["/conversations?q=rope", "No conversation is like this."],
  ] as const) {
    const { page } = await served.open(path);
    await page.getByText(told).first().waitFor();
    await page.context().close();
  }
});
